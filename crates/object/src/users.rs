//! Users and groups in the password and group files.

use std::path::PathBuf;

/// Returns the groups of a user, first the user's own.
pub fn groups_of(uid: u32, gid: u32) -> Vec<u32> {
    let name = passwd(uid).map(|(name, _)| name);
    let text = std::fs::read_to_string("/etc/group").unwrap_or_default();
    let mut groups = vec![gid];
    groups.extend(name.iter().flat_map(|name| groups_in(&text, name)));
    groups
}

/// The groups that a group file lists a user in.
fn groups_in(text: &str, name: &str) -> Vec<u32> {
    let of_line = |line: &str| {
        let mut fields = line.split(':');
        let gid = fields.nth(2)?.parse().ok()?;
        fields.next()?.split(',').any(|member| member == name).then_some(gid)
    };
    text.lines().filter_map(of_line).collect()
}

/// Returns a user's home from the password file.
pub fn home_of(uid: u32) -> Option<PathBuf> {
    passwd(uid).map(|(_, home)| home)
}

/// Returns a user's name from the password file.
pub fn name_of(uid: u32) -> Option<String> {
    passwd(uid).map(|(name, _)| name)
}

fn passwd(uid: u32) -> Option<(String, PathBuf)> {
    let text = std::fs::read_to_string("/etc/passwd").ok()?;
    text.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, id, _, _, home, ..] = fields.as_slice() else { return None };
        (id.parse() == Ok(uid)).then(|| (name.to_string(), PathBuf::from(home)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_a_file() {
        let text = "root:x:0:\nusers:x:100:al,bob\nalso:x:7:bobby\nodd\nwheel:x:10:bob\n";
        assert_eq!(groups_in(text, "bob"), [100, 10]);
    }
}

//! Users and groups in the password and group files.

use std::path::PathBuf;

/// Returns the groups of a user, first the user's own.
pub fn groups_of(uid: u32, gid: u32) -> Vec<u32> {
    let user = user(uid);
    let text = std::fs::read_to_string("/etc/group").unwrap_or_default();
    let mut groups = vec![gid];
    groups.extend(user.iter().flat_map(|user| groups_in(&text, &user.name)));
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

/// A user's line of the password file.
pub struct User {
    /// Name by which the user logs in.
    pub name: String,
    /// Number of the user's own group.
    pub gid: u32,
    /// Directory in which the user's shell starts.
    pub home: PathBuf,
}

/// Returns a user from the password file.
pub fn user(uid: u32) -> Option<User> {
    let text = std::fs::read_to_string("/etc/passwd").ok()?;
    text.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, id, gid, _, home, ..] = fields.as_slice() else { return None };
        let user = || Some(User { name: name.to_string(), gid: gid.parse().ok()?, home: PathBuf::from(home) });
        (id.parse() == Ok(uid)).then(user)?
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

//! The kernel's table of mounts.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    /// `MAJOR:MINOR` of its file system.
    pub device: String,
    /// Absolute path, without octal codes.
    pub at: PathBuf,
    /// Type of the file system, with FUSE's subtype.
    pub kind: String,
    /// First column of `df`.
    pub source: String,
    /// Options of the file system.
    pub options: String,
}

/// The mounts in this thread's namespace, inner ones last. None if the table cannot be read.
pub fn all() -> Vec<Mounted> {
    parse(&std::fs::read("/proc/thread-self/mountinfo").unwrap_or_default())
}

/// Parses the table.
pub fn parse(table: &[u8]) -> Vec<Mounted> {
    let of_line = |line: &[u8]| {
        let mut fields = line.split(|byte| *byte == b' ').map(unescape);
        let device = text(fields.nth(2)?);
        let at = PathBuf::from(OsString::from_vec(fields.nth(1)?));
        fields.find(|field| field == b"-")?; // the fields in between are optional
        let [kind, source, options] = [fields.next()?, fields.next()?, fields.next()?].map(text);
        Some(Mounted { device, at, kind, source, options })
    };
    table.split(|byte| *byte == b'\n').filter_map(of_line).collect()
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Decodes blanks, tabs, line ends and backslashes, which the table has as octal codes such as `\040`.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        let code = if *first == b'\\' { tail.get(..3) } else { None };
        let code = code.and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 8).ok());
        plain.push(code.unwrap_or(*first));
        rest = if code.is_some() { &tail[3..] } else { tail };
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_in_the_mount_table_are_unescaped() {
        assert_eq!(unescape(br"/mnt/a\040b\134c"), b"/mnt/a b\\c");
        assert_eq!(unescape(br"/mnt/\9"), br"/mnt/\9");
    }

    #[test]
    fn optional_fields_of_a_line_are_passed_over() {
        let line = b"163 29 0:57 / /mnt/scratch rw,nosuid shared:1 - fuse.entrepot entrepot:/v rw,user_id=0\nodd";
        let mounts = parse(line);
        let [one] = &mounts[..] else { panic!("one mount") };
        assert_eq!((&*one.device, &*one.kind, &*one.source), ("0:57", "fuse.entrepot", "entrepot:/v"));
        assert_eq!((one.at.to_str(), &*one.options), (Some("/mnt/scratch"), "rw,user_id=0"));
        assert!(all().iter().any(|mounted| mounted.kind == "proc"));
    }
}

//! Extended attributes as they are stored. The mount decides which of them are shown.

use super::Namespace;
use super::node::{NodeId, ROOT};
use crate::stub::names::{list, value};
use object::host::descriptor_path;
use rustix::fs::{XattrFlags, getxattr, listxattr, removexattr, setxattr};
use rustix::io::{Errno, Result};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Attribute of a stub with its layout record.
pub const LAYOUT: &str = "user.entrepot.layout";
/// Attribute of a directory with the layout request that its files inherit, as text.
pub const REQUEST: &str = "user.entrepot.request";
/// Prefix of all our attributes.
pub const OURS: &[u8] = b"user.entrepot.";
/// An inode's access control list.
pub const ACL: &str = "system.posix_acl_access";
/// The access control list that new inodes in a directory get.
const DEFAULT_ACL: &str = "system.posix_acl_default";

/// Whether an attribute is a special one of the file system underneath, such as `system.nfs4_acl`. The kernel checks no
/// permission for these: the file system has to, and would check that of the daemon. So they are refused.
pub fn is_foreign(name: &[u8]) -> bool {
    let name = name.strip_suffix(b"\0").unwrap_or(name);
    name.starts_with(b"system.") && name != ACL.as_bytes() && name != DEFAULT_ACL.as_bytes()
}

fn refuse_foreign(name: &OsStr) -> Result<()> {
    if is_foreign(name.as_bytes()) { Err(Errno::OPNOTSUPP) } else { Ok(()) }
}

impl Namespace {
    /// Value of an attribute.
    pub fn attribute(&self, id: NodeId, name: &OsStr) -> Result<Vec<u8>> {
        refuse_foreign(name)?;
        self.by_path(id, |path| value(|value| getxattr(path, name, value)))
    }

    /// Whether the file system has access control lists. If not, the kernel must not request any: it would use the
    /// error as the result of its permission check, and refuse every user but root.
    pub fn has_acls(&self) -> bool {
        self.attribute(ROOT, OsStr::new(ACL)) != Err(Errno::OPNOTSUPP)
    }

    /// Sets an attribute.
    pub fn set_attribute(&self, id: NodeId, name: &OsStr, value: &[u8], flags: XattrFlags) -> Result<()> {
        refuse_foreign(name)?;
        let _changing = self.changing();
        self.by_path(id, |path| setxattr(path, name, value, flags))
    }

    /// Removes an attribute.
    pub fn remove_attribute(&self, id: NodeId, name: &OsStr) -> Result<()> {
        refuse_foreign(name)?;
        let _changing = self.changing();
        self.by_path(id, |path| removexattr(path, name))
    }

    /// Names of all attributes, each ended by a zero byte.
    pub fn attributes(&self, id: NodeId) -> Result<Vec<u8>> {
        let all = self.by_path(id, |path| list(|names| listxattr(path, names)))?;
        Ok(all.split_inclusive(|b| *b == 0).filter(|name| !is_foreign(name)).flatten().copied().collect())
    }

    /// Attributes have no call by directory and name (before Linux 6.13), so a pinned descriptor is named in `/proc`.
    /// Following that link leads to the pinned inode itself, even if that is a symbolic link.
    fn by_path<T>(&self, id: NodeId, act: impl FnOnce(&str) -> Result<T>) -> Result<T> {
        let fd = self.pinned(id)?;
        act(&descriptor_path(&fd))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_for_which_the_kernel_checks_no_permission_are_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let namespace = Namespace::new(std::fs::File::open(dir.path()).expect("a directory").into()).expect("a tree");
        for name in ["system.nfs4_acl", "system.cifs_acl", "system.posix_acl_access2"] {
            assert!(is_foreign(name.as_bytes()) && is_foreign(format!("{name}\0").as_bytes()), "{name}");
            let set = namespace.set_attribute(ROOT, OsStr::new(name), b"everyone", XattrFlags::empty());
            assert_eq!(set, Err(Errno::OPNOTSUPP));
        }
        for name in [ACL, DEFAULT_ACL, "user.system.acl", "security.capability", "trusted.acl"] {
            assert!(!is_foreign(name.as_bytes()), "{name}");
        }
    }
}

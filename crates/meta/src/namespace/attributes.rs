//! Extended attributes as they are stored. The mount decides which of them are shown.

use super::Namespace;
use super::node::{NodeId, ROOT};
use crate::stub::names::{list, value};
use object::host::descriptor_path;
use rustix::fs::{XattrFlags, getxattr, listxattr, removexattr, setxattr};
use rustix::io::{Errno, Result};
use std::ffi::OsStr;

/// Attribute of a stub with its layout record.
pub const LAYOUT: &str = "user.entrepot.layout";
/// Attribute of a directory with the layout request that its files inherit, as text.
pub const REQUEST: &str = "user.entrepot.request";
/// Prefix of all our attributes.
pub const OURS: &[u8] = b"user.entrepot.";
/// An inode's access control list.
pub const ACL: &str = "system.posix_acl_access";

impl Namespace {
    /// Value of an attribute.
    pub fn attribute(&self, id: NodeId, name: &OsStr) -> Result<Vec<u8>> {
        self.by_path(id, |path| value(|value| getxattr(path, name, value)))
    }

    /// Whether the file system has access control lists. If not, the kernel must not request any: it would use the
    /// error as the result of its permission check, and refuse every user but root.
    pub fn has_acls(&self) -> bool {
        self.attribute(ROOT, OsStr::new(ACL)) != Err(Errno::OPNOTSUPP)
    }

    /// Sets an attribute.
    pub fn set_attribute(&self, id: NodeId, name: &OsStr, value: &[u8], flags: XattrFlags) -> Result<()> {
        let _changing = self.changing();
        self.by_path(id, |path| setxattr(path, name, value, flags))
    }

    /// Removes an attribute.
    pub fn remove_attribute(&self, id: NodeId, name: &OsStr) -> Result<()> {
        let _changing = self.changing();
        self.by_path(id, |path| removexattr(path, name))
    }

    /// Names of all attributes, each ended by a zero byte.
    pub fn attributes(&self, id: NodeId) -> Result<Vec<u8>> {
        self.by_path(id, |path| list(|names| listxattr(path, names)))
    }

    /// Attributes have no call by directory and name (before Linux 6.13), so a pinned descriptor is named in `/proc`.
    /// Following that link leads to the pinned inode itself, even if that is a symbolic link.
    fn by_path<T>(&self, id: NodeId, act: impl FnOnce(&str) -> Result<T>) -> Result<T> {
        let fd = self.pinned(id)?;
        act(&descriptor_path(&fd))
    }
}

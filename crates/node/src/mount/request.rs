//! Inheritance of a directory's layout request by new files and directories.

use super::Server;
use meta::namespace::NodeId;
use meta::namespace::attributes::REQUEST;
use meta::namespace::request::parse_request;
use policy::layout::Placement;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;

impl Server {
    /// Text of a directory's layout request.
    pub fn request_text(&self, directory: NodeId) -> Option<Arc<str>> {
        let node = self.parts.namespace.node(directory).ok()?;
        node.request(|| {
            let text = self.parts.namespace.attribute(directory, OsStr::new(REQUEST)).ok()?;
            String::from_utf8(text).ok().map(Arc::from)
        })
    }

    /// Placement that files in a directory inherit, if it has a request.
    pub fn inherited_in(&self, directory: NodeId) -> Option<Placement> {
        let text = self.request_text(directory)?;
        let placement = parse_request(&text, &self.parts.pool.placement, &self.parts.tiers);
        placement
            .inspect_err(|error| tracing::debug!(%error, directory, "a directory's layout request is ignored"))
            .ok()
    }

    /// Path of a name in a directory, relative to the root, by names that the kernel looked up.
    pub fn path_of(&self, parent: NodeId, name: &OsStr) -> Option<PathBuf> {
        Some(self.parts.namespace.path(parent).ok()?.join(name))
    }

    /// Placement that a file inherits from the directory it was last seen in.
    pub fn inherited(&self, file: NodeId) -> Option<Placement> {
        let (directory, _) = self.parts.namespace.node(file).ok()?.name()?;
        self.inherited_in(directory)
    }
}

//! Files kept open between the kernel's lookup of a name and its next request, where the name is replaced often.
//!
//! The kernel repeats a system call once if the file that it looked up was removed. A name that is replaced often may
//! lose its file again. So after one such loss the lookup opens the file, and the next request finds it open.

use super::Server;
use super::answer::Made;
use super::slow::OWN;
use crate::Result;
use meta::namespace::{LOST, NodeId};
use policy::holders::node::Use;
use rustix::fs::FileType;
use rustix::io::Errno;
use std::ffi::OsStr;
use std::sync::Arc;
use std::time::Instant;

/// Limit of lookups until the file under a name can be opened. A guess.
const TRIES: usize = 4;

impl Server {
    /// Keeps the file just found under a name open for a moment, if the name lost its file lately. Looks the name up
    /// again if the file was removed.
    pub(super) fn pin(self: &Arc<Self>, parent: NodeId, name: &OsStr, mut found: Made) -> Made {
        if !self.parts.namespace.was_lost(parent, name) {
            return found;
        }
        for _ in 0..TRIES {
            let (node, _) = found.as_ref().map_err(|errno| *errno)?;
            let id = node.id;
            if node.kind() != FileType::RegularFile {
                return found;
            }
            match self.pin_file(id).map_err(|error| error.errno()) {
                Err(Errno::STALE | Errno::NOENT) => {
                    self.parts.namespace.forget(id, 1);
                    found = self.parts.namespace.lookup(parent, name);
                }
                pinned => {
                    if pinned.is_ok() {
                        self.parts.namespace.mark_lost(parent, name);
                    }
                    return found;
                }
            }
        }
        found
    }

    fn pin_file(self: &Arc<Self>, id: NodeId) -> Result<()> {
        let user = self.user(id)?;
        user.refresh(Use::Read)?;
        user.open.stat()?; // kept for the kernel's next request
        user.open.set_pinned(Instant::now());
        let (server, open) = (self.clone(), user.keep());
        self.later.add(LOST, Box::new(move || server.leave(&open, OWN)));
        Ok(())
    }
}

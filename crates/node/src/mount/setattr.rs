//! Changing mode, owner, size and times.

use super::Server;
use super::answer::{Answer, Changes};
use super::metadata::STATS_ID;
use crate::Result;
use fuser::{FileAttr, ReplyAttr};
use meta::namespace::{Caller, NodeId};
use rustix::io::Errno;
use std::sync::Arc;

impl Server {
    /// Changes attributes; on the slow pool if objects are to be cut or made.
    pub fn set_attributes(self: &Arc<Self>, caller: Caller, id: NodeId, changes: Changes, answer: Answer<ReplyAttr>) {
        if id == STATS_ID {
            return answer.give(Err(Errno::PERM));
        }
        let inline = |size: u64| {
            let laid_out = match self.open.get(id) {
                Some(open) => !open.file.is_in_stub(),
                None => {
                    self.parts.namespace.stat(id).is_ok_and(|s| s.st_size as u64 > self.parts.pool.inline_bytes_max)
                }
            };
            size <= self.parts.pool.inline_bytes_max && !laid_out
        };
        let server = self.clone();
        let work = move |answer: Answer<ReplyAttr>| {
            answer.give(server.change(caller, id, changes).map_err(|error| error.errno()));
        };
        if changes.size.is_none_or(inline) { work(answer) } else { self.hand_over(caller.uid, answer, work) }
    }

    fn change(&self, caller: Caller, id: NodeId, changes: Changes) -> Result<FileAttr> {
        let _changing = self.parts.namespace.changing_of(id);
        let needs_file = changes.size.is_some() || (changes.sets_owner() && self.needs_length(id));
        let user = needs_file.then(|| self.user(id)).transpose()?;
        let open = match &user {
            Some(user) => Some(user.open.clone()),
            None => self.open.get(id),
        };
        open.iter().for_each(|open| open.changes());
        let held = self.parts.namespace.hold(id, open.as_ref().map(|open| open.stub()))?;
        if let (Some(size), Some(open)) = (changes.size, &open) {
            open.file.truncate(size)?;
            // A truncation removes privileges as a write does, for a caller that may not keep them.
            held.drop_privileges(caller)?;
        }
        if changes.sets_owner() {
            // An owner change without values also precedes writes, reservations and punches by a caller that may not
            // keep privileges.
            held.drop_privileges(caller)?;
            let set = || held.set_owner(changes.uid, changes.gid);
            self.change_owner(caller, (&held.stat()?, open.as_deref()), (changes.uid, changes.gid), set)?;
        }
        if let Some(mode) = changes.mode {
            held.set_mode_for(caller, mode)?;
        }
        if changes.sets_times() {
            if let Some(open) = &open {
                // A pending time is older than the one set now.
                if changes.modified.is_some() {
                    open.file.times_set()?;
                } else {
                    open.file.settle()?;
                }
            }
            held.set_times(changes.accessed, changes.modified)?;
            if changes.accessed.is_some() {
                open.iter().for_each(|open| open.access_time_is_set());
            }
        }
        drop(held);
        self.stat(id)
    }
}

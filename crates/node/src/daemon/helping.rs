//! Calls by which nodes share the work of staging in.

use crate::calls::{Calls, SILENT, To};
use crate::control::{Caller, Problem, Responder, exit};
use crate::nodes::Nodes;
use engine::stage::{Others, Progress, Said, Share, Stager, Stop};
use parking_lot::Mutex;
use std::sync::Arc;

/// Name of the calls.
const SERVICE: &str = "stage-in";

/// Starts the mutual help; a node that drains does not help.
pub(super) fn help_each_other(nodes: &Arc<Nodes>, calls: &Arc<Calls>, stager: &Arc<Stager>) {
    let (nodes, weak) = (nodes.clone(), Arc::downgrade(stager));
    calls.register(SERVICE, move |caller, share, out| {
        let stager = weak.upgrade().filter(|_| !nodes.drains());
        let stager = stager.ok_or_else(|| Problem::busy("this node accepts no work of other nodes now"))?;
        let stop: Stop = (**out.stop()).clone();
        let out = Mutex::new(out);
        // The progress call notices when the caller is gone.
        let report = |_: &Progress| {
            out.lock().progress(&());
        };
        Ok(stager.bring(caller.uid, caller.gid, share, &report, &stop)?)
    });
    stager.share(calls.clone());
}

impl Others for Calls {
    fn names(&self) -> Vec<String> {
        self.others().into_iter().filter_map(|other| other.own).collect()
    }

    fn ask(&self, name: &str, uid: u32, gid: u32, share: &Share, stop: &Stop) -> Said {
        let mut listens = |_| !stop.is_set();
        let mut out = Responder::new(&mut listens, Arc::new(stop.clone()));
        let to = To::Node(name.to_owned());
        match self.call(&to, SERVICE, &Caller { uid, gid }, share, SILENT, &mut out) {
            Ok(answer) => Said::Answer(answer),
            Err(problem) => {
                tracing::info!("another node does not help to stage in: {}", problem.cause);
                if problem.exit_code == exit::NO_DAEMON { Said::Nothing } else { Said::Refused }
            }
        }
    }
}

//! Cleanup after nodes that were killed, or stood still for longer than their lease. They leave marks of files in
//! use, unfinished removals, and copies of moves under way. They also leave objects whose publication was unknown to
//! them. Once their numbers are over, the leader settles the marks, starts a scan by all nodes for orphans, and
//! removes these.
//!
//! Their moves stay in their journals until they start again or are forgotten (`forget`): until then these objects
//! are not removed.

use super::Core;
use super::crash::settle_marks_of;
use crate::nodes::Nodes;
use engine::file::Cluster;
use policy::cluster::Node;
use policy::maintenance::Outcome;

/// Searches for nodes that are over, and removes their leftovers.
pub(super) fn run(core: &Core) -> Outcome {
    let Some(nodes) = &core.nodes else { return Outcome::Done };
    // A scan of the whole tree would delay a count that a limit waits for.
    if core.quotas.is_awaited() {
        return Outcome::Done;
    }
    let Ok(left) = nodes.not_seen_off() else { return Outcome::Done };
    let suspect = nodes.suspect_run();
    if left.is_empty() && suspect.is_none() {
        return Outcome::Done;
    }
    if let Err(error) = nodes.note_dead(&left) {
        tracing::debug!("the failure of a node could not be saved yet: {error}");
    }
    if !remove(core, nodes, &left) {
        return Outcome::Again;
    }
    // The scan has settled each file.
    if let Some(Err(error)) = suspect.map(|run| nodes.trust_run(run)) {
        tracing::debug!("files are settled at their first use for now: {error}");
    }
    Outcome::Done
}

/// Removes the leftovers; returns whether none remain.
fn remove(core: &Core, nodes: &Nodes, left: &[Node]) -> bool {
    let Some(together) = &core.together else { return true };
    let shown = match left {
        [] => "nodes before the state store began".to_owned(),
        left => left.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    };
    // Before the scan: objects that only a mark names become orphans.
    match settle_marks_of(&|node| Cluster::is_over(nodes, node), &core.volume, &core.files) {
        Ok(true) => {}
        Ok(false) => return false,
        Err(error) => {
            tracing::warn!("the files that {shown} had in use are unknown: {error}");
            return false;
        }
    }
    let removed = match together.remove_left(&|| core.maintenance.stop_flag().is_set() || !core.acts()) {
        Ok(Some(removed)) => removed,
        Ok(None) => {
            tracing::info!(
                "the objects that {shown} left are unknown, since the search was incomplete: it is repeated"
            );
            return false;
        }
        Err(error) => {
            tracing::warn!("objects that {shown} left are not removed yet: {error}");
            return false;
        }
    };
    tracing::info!(removed, "{shown} left no objects behind");
    if let Err(error) = nodes.sweep_holders(|| !core.maintenance.stop_flag().is_set()) {
        tracing::debug!("entries of {shown} stay in the table of holders for now: {error}");
    }
    left.iter().all(|node| nodes.see_off(*node).is_ok())
}

//! What nodes left that were killed, or stood still for longer than their lease: marks of files that they had in use, removals that did not
//! come to their end, copies of moves under way, objects of which they did not know whether a layout names them. Once their numbers are over,
//! the node that leads settles the marks, has all look for what no file names, and removes it.
//!
//! Their moves stay in their journals until they start again or are forgotten (`forget`): by then there is nothing of them to be removed.

use super::Core;
use super::crash::settle_marks_of;
use crate::file::Cluster;
use crate::nodes::Nodes;
use policy::cluster::Node;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

const LOOK_EVERY: Duration = Duration::from_secs(1);
/// From one question to the store of the state to the next.
const ASK_EVERY: Duration = Duration::from_secs(5);
/// After a look that did not see everything: first, and at most. A look through a large tree is not free.
const AGAIN: Duration = Duration::from_secs(3);
const AGAIN_MAX: Duration = Duration::from_secs(3600);

/// Looks for it, as long as the daemon is there.
pub(super) fn watch(nodes: &Arc<Nodes>, core: &Arc<Core>) {
    let (watched, core) = (nodes.clone(), Arc::downgrade(core));
    nodes.start_worker("node-left", move || look(&watched, &core));
}

fn look(nodes: &Nodes, core: &Weak<Core>) {
    let (mut wait, mut next) = (AGAIN, Instant::now());
    let mut tried: Vec<Node> = Vec::new();
    while nodes.goes_on_after(LOOK_EVERY) {
        let Some(core) = core.upgrade() else { return };
        if !core.acts() || Instant::now() < next {
            continue;
        }
        next = Instant::now() + ASK_EVERY;
        let Ok(left) = nodes.not_seen_off() else { continue };
        if left.is_empty() {
            continue;
        }
        if let Err(error) = nodes.note_dead(&left) {
            tracing::debug!("that a node died is not remembered yet: {error}");
        }
        if left != tried {
            (wait, tried) = (AGAIN, left.clone());
        }
        if !remove(&core, nodes, &left) {
            next = Instant::now() + wait;
            wait = (wait * 2).min(AGAIN_MAX);
        }
    }
}

/// Whether nothing of them is left.
fn remove(core: &Core, nodes: &Nodes, left: &[Node]) -> bool {
    let Some(together) = &core.together else { return true };
    let shown = left.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    // Before the look: what a mark alone names is nobody's then.
    match settle_marks_of(&|node| Cluster::is_over(nodes, node), &core.volume, &core.files) {
        Ok(true) => {}
        Ok(false) => return false,
        Err(error) => {
            tracing::warn!("what {shown} had in use is not known: {error}");
            return false;
        }
    }
    let removed = match together.remove_left(&|| nodes.ends() || !core.acts()) {
        Ok(Some(removed)) => removed,
        Ok(None) => {
            tracing::info!("what {shown} left is not known, since not everything was seen: it is looked for again");
            return false;
        }
        Err(error) => {
            tracing::warn!("what {shown} left is not removed yet: {error}");
            return false;
        }
    };
    tracing::info!(removed, "{shown} left nothing that is there now");
    left.iter().all(|node| nodes.see_off(*node).is_ok())
}

//! A node that is to be shut down: nothing new begins here, what goes on comes to an end, and then it says so.

use super::Core;
use super::users::users_of;
use crate::mover::Phase;
use crate::nodes::Nodes;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

const LOOK_EVERY: Duration = Duration::from_millis(200);
/// From one look at what keeps the node to the next: it goes through all processes.
const KEPT_EVERY: Duration = Duration::from_secs(2);
/// So long moves under way may take before the number is given up: one that is cut off by that is made again.
const MOVES_WAIT: Duration = Duration::from_secs(30);

/// Watches whether the node is to drain, as long as the daemon is there.
pub(super) fn watch(nodes: &Arc<Nodes>, core: &Arc<Core>) {
    let core = Arc::downgrade(core);
    let watched = nodes.clone();
    nodes.start_worker("node-drain", move || look(&watched, &core));
}

fn look(nodes: &Nodes, core: &Weak<Core>) {
    let (mut since, mut said, mut look_at) = (None, None, Instant::now());
    while !nodes.ends() {
        std::thread::sleep(LOOK_EVERY);
        let Some(core) = core.upgrade() else { return };
        if !nodes.says_draining() {
            let since = *since.get_or_insert_with(Instant::now);
            if moves(&core) == 0 || since.elapsed() > MOVES_WAIT {
                nodes.say_draining();
            }
            said = None;
            continue;
        }
        since = None;
        if !nodes.drains() || Instant::now() < look_at {
            continue;
        }
        look_at = Instant::now() + KEPT_EVERY;
        let now = Some((nodes.number(), kept_by(&core)));
        if said != now
            && let Some((_, kept_by)) = &now
        {
            match nodes.say_kept_by(kept_by.clone()) {
                Ok(()) if kept_by.is_empty() => {
                    tracing::info!("this node is drained: it may be shut down");
                    said = now;
                }
                Ok(()) => said = now,
                Err(error) => tracing::debug!("others do not hear how far this node is: {error}"),
            }
        }
    }
}

fn moves(core: &Core) -> usize {
    core.mover.progress().list().iter().filter(|change| change.phase == Phase::Copying).count()
}

/// What an end of the daemon would cut off.
fn kept_by(core: &Core) -> Vec<String> {
    let counts = [
        (users_of(&core.mount_point).len(), "processes that use the mount"),
        (moves(core), "moves under way"),
        (core.background.drains().len(), "targets that are being emptied"),
        (core.under_way.count(), "stagings under way"),
        (core.repair.counts().keys as usize, "recoveries under way"),
    ];
    counts.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect()
}

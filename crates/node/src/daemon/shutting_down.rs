//! Shutdown of a node: refuses new work, waits for the end of running work, and then reports that the node may be
//! shut down.

use super::Core;
use super::users::users_of;
use engine::mover::Phase;
use object::host;
use object::target::{Order, State, Target};
use policy::cluster::Node;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Interval of checks for users of the node: each check reads all processes.
const KEPT_EVERY: Duration = Duration::from_secs(2);

/// Longest wait for running moves before the node gives up its number: an interrupted move is repeated.
const MOVES_WAIT: Duration = Duration::from_secs(30);

/// Progress of the shutdown of this node, or of its return.
#[derive(Default)]
pub(super) struct Progress {
    /// Whether the targets that only this node reaches are being emptied.
    empties: bool,
    /// Start of the wait for running moves.
    since: Option<Instant>,
    /// Time of the last check for users.
    looked: Option<Instant>,
    /// Number of the node, and the work that keeps it, as published.
    said: Option<(Node, Vec<String>)>,
}

/// Checks whether the node is to drain, and whether it may be shut down.
pub(super) fn run(core: &Core) {
    let Some(nodes) = &core.nodes else { return };
    let mut progress = core.shutting_down.lock();
    if progress.empties != nodes.drains() {
        progress.empties = nodes.drains();
        empty_own(core, progress.empties);
    }
    if !nodes.says_draining() {
        let since = *progress.since.get_or_insert_with(Instant::now);
        if moves(core) == 0 || since.elapsed() > MOVES_WAIT {
            nodes.say_draining();
        }
        progress.said = None;
        return;
    }
    progress.since = None;
    if !nodes.drains() || progress.looked.is_some_and(|at| at.elapsed() < KEPT_EVERY) {
        return;
    }
    progress.looked = Some(Instant::now());
    let now = Some((nodes.me_now(), kept_by(core)));
    if progress.said != now
        && let Some((_, kept_by)) = &now
    {
        match nodes.say_kept_by(kept_by.clone()) {
            Ok(()) => {
                if kept_by.is_empty() {
                    tracing::info!("this node is drained: it may be shut down");
                }
                progress.said = now;
            }
            Err(error) => tracing::debug!("the progress of this node could not be published: {error}"),
        }
    }
}

/// Targets that only this node reaches.
fn own_targets(core: &Core) -> Vec<Arc<Target>> {
    let host = host::name();
    let blocks = core.volume.config().targets.iter().filter(|block| *block.only_on == [&*host]);
    blocks.filter_map(|block| core.volume.targets().by_name(&block.name)).collect()
}

/// Empties the targets that only this node reaches before it leaves, and restores them when it stays.
fn empty_own(core: &Core, empties: bool) {
    for target in own_targets(core) {
        let order = match (empties, target.state()) {
            (true, State::Ok | State::Suspect) => Order::Drain,
            (false, State::Draining) => Order::Restore,
            _ => continue,
        };
        if let Err(problems) = core.volume.order_target(target.name(), order) {
            tracing::warn!("{problems}");
        }
    }
}

/// Whether a target is known to hold objects that are not garbage.
fn holds_objects(core: &Core, target: &Target) -> bool {
    let objects = target.run(|medium| medium.list());
    objects.is_ok_and(|objects| !core.volume.is_garbage(target.id(), &objects))
}

fn moves(core: &Core) -> usize {
    core.mover.progress().list().iter().filter(|change| change.phase == Phase::Copying).count()
}

/// Work that an end of the daemon would cut off.
fn kept_by(core: &Core) -> Vec<String> {
    let counts = [
        (users_of(&core.mount_point).len(), "processes that use the mount"),
        (moves(core), "moves under way"),
        (core.background.drains().len(), "targets that are being emptied"),
        (core.under_way.count(), "stagings under way"),
        (
            own_targets(core).iter().filter(|target| holds_objects(core, target)).count(),
            "targets with data that only this node reaches",
        ),
        (core.repair.counts().keys as usize, "recoveries under way"),
    ];
    counts.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect()
}

//! Shutdown of a node: refuses new work, waits for the end of running work, and then reports that the node may be
//! shut down.

use super::Core;
use super::users::users_of;
use crate::nodes::Nodes;
use engine::mover::Phase;
use object::host;
use object::target::{Order, State, Target};
use parking_lot::Mutex;
use policy::cluster::Node;
use std::sync::Arc;
use std::time::{Duration, Instant};

const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Interval of checks for users of the node: each check reads all processes.
const KEPT_EVERY: Duration = Duration::from_secs(2);
/// Longest wait for running moves before the node gives up its number: an interrupted move is repeated.
const MOVES_WAIT: Duration = Duration::from_secs(30);

/// Watches whether the node is to drain, while the daemon runs.
pub(super) fn watch(nodes: &Arc<Nodes>, core: &Arc<Core>) {
    let (core, drain) = (Arc::downgrade(core), Mutex::new(Drain::default()));
    nodes.every(LOOK_EVERY, move |nodes| {
        if let Some(core) = core.upgrade() {
            drain.lock().look(nodes, &core);
        }
    });
}

/// State of the shutdown between two checks.
#[derive(Default)]
struct Drain {
    /// Begin of the wait for running moves.
    since: Option<Instant>,
    /// Node number and users that were published last.
    said: Option<(Node, Vec<String>)>,
    looked_at: Option<Instant>,
    empties: bool,
}

impl Drain {
    fn look(&mut self, nodes: &Nodes, core: &Core) {
        if self.empties != nodes.drains() {
            self.empties = nodes.drains();
            empty_own(core, self.empties);
        }
        if !nodes.says_draining() {
            let since = *self.since.get_or_insert_with(Instant::now);
            if moves(core) == 0 || since.elapsed() > MOVES_WAIT {
                nodes.say_draining();
            }
            self.said = None;
            return;
        }
        self.since = None;
        if !nodes.drains() || self.looked_at.is_some_and(|at| at.elapsed() < KEPT_EVERY) {
            return;
        }
        self.looked_at = Some(Instant::now());
        let now = (nodes.number(), kept_by(core));
        if self.said.as_ref() == Some(&now) {
            return;
        }
        match nodes.say_kept_by(now.1.clone()) {
            Ok(()) => {
                if now.1.is_empty() {
                    tracing::info!("this node is drained: it may be shut down");
                }
                self.said = Some(now);
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

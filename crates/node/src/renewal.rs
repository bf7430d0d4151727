//! `entrepot state rebuild`: rebuilds a lost state store from the namespace and the targets.
//!
//! ```text
//!   namespace   layouts, epochs of nodes ──┐
//!   targets     numbers, epochs, objects ──┼──> plan ──> targets, last numbers ──> the store ──> `state.id`
//!   operator    what cannot be seen ───────┘
//! ```
//! Facts known to the store alone are lost ([`GONE`]); no file needs them. A move with a lost journal left the old or
//! the new layout in the stub, and objects that no file names. None of these is removed before an operator's order: a
//! rebuild cannot distinguish the namespace from an older copy. So the names of no epoch count as known
//! (`volume::identity`).

mod devices;
mod names;
mod plan;

pub use plan::Wish;

use crate::nodes::Still;
use devices::TargetState;
use engine::volume::{AtRest, Config, FileServers, Problems, Step, check_as};
use meta::state::TargetRecord;
use meta::state::dump::Row;
use names::Names;
use plan::Found;
use std::collections::{BTreeMap, BTreeSet};

/// Contents of the lost store that cannot be rebuilt, with advice for the operator.
pub const GONE: [(&str, &str); 10] = [
    ("jobs, their log's index, steps for Slurm", "submit unfinished jobs again; running jobs go on without a record"),
    (
        "quotas: every limit, and since when a soft one is passed",
        "set them again with `entrepot quota set`; until then nothing is limited",
    ),
    ("accounting: what users and jobs did", "it starts from zero; exported rows are unchanged"),
    ("orders `target fail` and `target drain`", "give them again before users come back"),
    ("moves under way, objects to be removed", "`entrepot check --repair --drop-unknown` removes what no file names"),
    ("stagings under way", "run the same `entrepot stage in` again; it starts from the beginning"),
    ("checkpoints: which versions count, their periods", "applications announce them again; their files are there"),
    (
        "what was taken home, and when users were idle",
        "a purge may keep files longer; `entrepot stage out` sends them again",
    ),
    ("speeds of targets and of sources", "they are measured again"),
    ("how far a scrub is", "it starts from the first file"),
];

/// Result of a rebuild.
#[derive(Debug)]
pub struct Rebuilt {
    /// The targets as they are recorded now.
    pub targets: Vec<TargetRecord>,
    /// Objects of those that are there.
    pub objects: BTreeMap<String, u64>,
    /// Files that have objects on targets that are not.
    pub files_on: BTreeMap<String, u64>,
    /// Names of regular files.
    pub files: u64,
    /// Files whose bytes lie on targets.
    pub laid_out: u64,
    /// Numbers go on above this epoch.
    pub epoch: u32,
    /// Nodes whose leases stood still, and are over.
    pub dead: usize,
    /// Unreadable entries, and their number.
    pub unread: (Vec<String>, u64),
    /// Rows of the new state; none where nothing was to be written.
    pub rows: Option<usize>,
}

/// Rebuilds the state of a volume that is down on all nodes, or with `write` unset returns the plan.
pub fn rebuild_state(
    config: &Config,
    servers: &dyn FileServers,
    wish: &Wish,
    write: bool,
) -> Result<Rebuilt, Problems> {
    rebuild(config, servers, wish, write.then_some(&|_| Ok(())))
}

/// The same, with what is called after each step.
fn rebuild(
    config: &Config,
    servers: &dyn FileServers,
    wish: &Wish,
    write: Option<&dyn Fn(Step) -> crate::Result<()>>,
) -> Result<Rebuilt, Problems> {
    if !config.namespace.is_dir() {
        let cause = format!("{}, the namespace, is not there", config.namespace.display());
        return Err(Problems::refused(cause, "Mount it, or put it back from its backup"));
    }
    if !config.state_is_derived && !config.state.is_dir() {
        let shown = config.state.display();
        return Err(Problems::refused(
            format!("{shown}, for the state, is not there"),
            format!("Make it: `mkdir -p -m 0700 {shown}`"),
        ));
    }
    let rest = AtRest::take(config).map_err(Problems::unchanged)?;
    rest.may_be_rebuilt(config)?;
    let still = Still::wait(&config.namespace)
        .map_err(|error| Problems::refused(error, "Stop it there with `entrepot down`, and repeat this command"))?;
    let targets = devices::look(config, servers, rest.volume).map_err(Problems::unchanged)?;
    let here: BTreeSet<_> = targets.iter().filter_map(|seen| seen.here()).collect();
    let names = Names::read(&config.namespace, config.is_shared(), &here)
        .map_err(|error| Problems::refused(error, "Mend the namespace"))?;
    let epoch = rest.epoch(config)?.max(names.epoch).max(still.epoch());
    let seen = config.targets.iter().map(|target| target.name.clone()).zip(targets).collect();
    let found = Found { targets: seen, on: names.on, epoch, all_read: names.unread_count == 0 };
    let plan = plan::plan(&found, wish)?;
    // Report now any problem that would fail the next start.
    check_as(config, &plan.targets).map_err(Problems::unchanged)?;
    let mut rebuilt = Rebuilt {
        objects: BTreeMap::new(),
        files_on: BTreeMap::new(),
        files: names.files,
        laid_out: names.laid_out,
        epoch: plan.epoch,
        dead: still.count(),
        unread: (names.unread, names.unread_count),
        rows: None,
        targets: plan.targets.clone(),
    };
    for (name, seen) in &found.targets {
        if let TargetState::Here { objects, .. } = seen {
            rebuilt.objects.insert(name.clone(), *objects);
        }
    }
    for record in plan.targets.iter().filter(|record| !rebuilt.objects.contains_key(&record.name)) {
        rebuilt.files_on.insert(record.name.clone(), found.on.get(&record.id).map_or(0, |on| on.files));
    }
    if let Some(step) = write {
        still
            .end()
            .map_err(|error| Problems::refused(error, "Stop it there with `entrepot down`, and repeat this command"))?;
        rebuilt.rows = Some(rest.rebuild(config, rows(&plan), step)?);
    }
    Ok(rebuilt)
}

fn rows(plan: &plan::Plan) -> Vec<Row> {
    let sequences = [("epoch", u64::from(plan.epoch)), ("target", u64::from(plan.last_target))];
    let sequences = sequences.into_iter().filter(|(_, last)| *last > 0);
    let sequences = sequences.map(|(name, last)| Row::Sequence { name: name.into(), last });
    sequences.chain(plan.targets.iter().cloned().map(Row::from)).collect()
}

#[cfg(test)]
mod tests;

//! Opening a volume: check, lock, state store, identity, directories, targets, in this order.

use super::check;
use super::config::{Config, Keeping, TargetConfig};
use super::ids::Ids;
use super::lock::Lock;
use super::orders::{Orders, tell};
use super::problem::{Problem, Problems, Result};
use super::sections::Prefer;
use super::servers::{FileServer, FileServers};
use super::state_store::Reached;
use super::{StateStore, Volume, VolumeId, identity, joining, namespace, upgrade};
use crate::Error;
use crate::stats::Stats;
use meta::messages::Message;
use meta::state::{State, TargetRecord};
use object::exit;
use object::host;
use object::target::DirectoryAccess;
use object::target::{
    self, Change, DirectoryMedium, Execution, Identity, IdentityError, InlineSlots, Limits, Medium, Reach, TargetSpec,
    Targets, TargetsOptions,
};
use parking_lot::Mutex;
use policy::TargetId;
use policy::protect::health;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Threads of the mount that are never inside an inline operation, so that a hung target leaves some to serve others.
const THREADS_SPARED: usize = 2;

pub(super) fn problem(cause: impl ToString) -> Problems {
    let mend = "Correct the cause and open it again; completed steps do no harm";
    Problems::one(Problem::new(cause.to_string(), "the volume is not opened", mend))
}

/// As above, for a failed state store or namespace, without an error in the input.
fn failed(cause: impl ToString) -> Problems {
    let Problems(all) = problem(cause);
    Problems(all.into_iter().map(Problem::failed).collect())
}

/// Problem of a state store that its device or server keeps closed, unless the error names the configuration.
fn unreached(error: Error) -> Problems {
    match error {
        Error::Newer(_) | Error::Invalid(_) => problem(error),
        _ => failed(error),
    }
}

impl Volume {
    /// Checks everything, then takes the lock, formats new parts and opens everything. A known target is opened as
    /// failed if its directory is missing or replaced, or its `servers` do not answer. A new target is refused then.
    pub fn open(config: Config, servers: &dyn FileServers) -> Result<Volume> {
        check::check(&config)?;
        let shared = config.is_shared();
        if !shared && joining::had_nodes(&config.namespace) {
            return Err(of_several_nodes(&config));
        }
        config.make_state_dir().map_err(|error| failed(format!("{}: {error}", config.state.display())))?;
        let lock = Lock::take(&config.state, &config.namespace, shared)?;
        close_to_others(&config.state)?;
        // One node formats new parts, and the others find them.
        let joining = shared.then(|| joining::join(&config.namespace)).transpose().map_err(failed)?;
        let reached = Reached::open(&config).map_err(unreached)?;
        let id = match namespace::read_id(&config.namespace).map_err(problem)? {
            Some(id) => id,
            None => namespace::format(&config.namespace).map_err(failed)?,
        };
        if let Some(turn) = &joining {
            let mut files = 0;
            let progress = || {
                files += 1;
                if files % 1000 == 0 {
                    let _ = joining::goes_on(turn); // else other nodes give up, and try again
                }
            };
            upgrade::upgrade(&config.namespace, progress)
                .map_err(|why| failed(format!("the files cannot be upgraded to the format of this version: {why}")))?;
        }
        let state = reached.of(&config, id).map_err(failed)?;
        identity::check(&config, &*state, id)?;
        let directories = namespace::open(&config.namespace)
            .map_err(|errno| failed(format!("{}: {errno}", config.namespace.display())))?;
        let orders = Orders::read(&config.state, id).map_err(failed)?;
        orders.send(|id, order| tell(&*state, id, order)).map_err(failed)?;
        let change = state.targets_change().map_err(failed)?;
        let known = state.targets().map_err(failed)?;
        let (targets, new) = add_all(&config, servers, id, &*state, &known)?;
        remember_changes(&targets, &state, shared);
        // Requests to all targets take longest, and other nodes need not wait for them.
        drop(joining);
        for unwell in targets.probe_all() {
            targets.give_up(unwell);
        }
        known.iter().for_each(|record| orders.told(record.id, record.ordered_ms));
        if !new.is_empty()
            && let Err(error) = Message::targets(&new).send(&*state, None)
        {
            tracing::warn!("new targets could not be published to other nodes: {error}");
        }
        targets.measure_now();
        let joining = shared.then(|| joining::join(&config.namespace)).transpose().map_err(failed)?;
        let (ids, seen) = Ids::new(state.clone(), &config.namespace, targets.clone()).map_err(failed)?;
        identity::note_return(&*state, &config.namespace, seen, ids.epoch()).map_err(failed)?;
        drop(joining);
        let inline_bytes_ever = namespace::inline_bytes_ever(&config.namespace, config.layout.inline_max);
        let inline_bytes_ever = inline_bytes_ever.map_err(failed)?;
        let stats = Arc::new(Stats::new());
        stats.attach(&targets);
        stats.attach_state(&state);
        Ok(Volume {
            config,
            id,
            directories,
            targets,
            state,
            ids,
            inline_bytes_ever,
            stats,
            followed: Mutex::new(change),
            orders,
            lock,
        })
    }
}

/// Adds the targets of the configuration. Targets that only the state store has are added as failed. Returns the
/// numbers of new targets, too.
fn add_all(
    config: &Config,
    servers: &dyn FileServers,
    volume: VolumeId,
    state: &dyn State,
    known: &[TargetRecord],
) -> Result<(Arc<Targets>, Vec<TargetId>)> {
    let targets = Targets::new(options(config));
    let host = host::name();
    let reached = |target| Found::reach(config, target, servers, volume, known);
    let found = config.targets.iter().map(reached).collect::<Result<Vec<_>, _>>()?;
    let mut new = Vec::new();
    for (target, found) in config.targets.iter().zip(found) {
        let record = match known.iter().find(|record| record.name == target.name) {
            Some(record) => record.clone(),
            // A node that reaches the target formats it, and informs the others.
            None if !target.is_on(&host) => continue,
            None => {
                let record = format_target(state, volume, &target.name, &found)?;
                new.push(record.id);
                record
            }
        };
        add(&targets, config, target, found, &record, volume);
    }
    for record in known.iter().filter(|record| config.targets.iter().all(|target| target.name != record.name)) {
        tracing::error!(
            "target {} belongs to the volume and is not named in {}: it is failed, and its data are out of reach. Put \
             its block back, or forget it with `entrepot target remove {} --force`",
            record.name,
            config.file.display(),
            record.name
        );
        targets.add(spec(0, Found::Away, record, volume));
    }
    Ok((targets, new))
}

/// Refusal to open a volume of several nodes as a single node, which would not see its files' layouts.
pub(super) fn of_several_nodes(config: &Config) -> Problems {
    let cause = format!("several nodes have had the volume in {}", config.namespace.display());
    let mend = format!("Give {} the `state` (or `state_store`) that they have, a Redis server", config.file.display());
    Problems::one(Problem::new(
        cause,
        "the volume is not opened: with a state of its own this node would destroy files",
        mend,
    ))
}

/// The state directory holds the control socket and all users' jobs.
fn close_to_others(state_dir: &std::path::Path) -> Result<()> {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(state_dir, mode).map_err(|error| failed(format!("{}: {error}", state_dir.display())))
}

/// Where a target is, before its medium is made.
pub enum Found<'a> {
    /// In this directory.
    Directory(&'a Path),
    /// On file servers.
    Server(Box<dyn FileServer>),
    /// Its place is unknown.
    Away,
}

impl<'a> Found<'a> {
    /// Finds the place that the configuration names. The error is a cause for people.
    pub fn at(keeping: &'a Keeping, servers: &dyn FileServers) -> Result<Found<'a>, String> {
        match keeping {
            Keeping::Directory(path) => Ok(Found::Directory(path)),
            Keeping::Servers(connections) => servers.reach(connections).map(Found::Server),
        }
    }

    fn reach(
        config: &Config,
        target: &'a TargetConfig,
        servers: &dyn FileServers,
        volume: VolumeId,
        known: &[TargetRecord],
    ) -> Result<Found<'a>> {
        if !target.is_on(&host::name()) {
            return Ok(Found::Away);
        }
        match Found::at(&target.keeping, servers) {
            Ok(found) => {
                // Directories were checked before.
                if matches!(found, Found::Server(_)) {
                    check::found_on(config, target, found.identity(), volume, known)?;
                }
                Ok(found)
            }
            Err(cause) if known.iter().any(|record| record.name == target.name) => {
                tracing::error!("target {} cannot be reached, and is failed: {cause}", target.name);
                Ok(Found::Away)
            }
            Err(cause) => {
                let cause = format!("target {} cannot be reached: {cause}", target.name);
                let mend = format!("Check `servers` and `type` of its block in {}", config.file.display());
                let mut problem = Problem::new(cause, "the volume is not opened", mend);
                problem.exit_code = Some(exit::FAILED);
                Err(Problems::one(problem))
            }
        }
    }

    fn root(&self) -> Result<OwnedFd, Errno> {
        match self {
            Found::Directory(path) => path.to_path_buf().open(),
            Found::Server(server) => server.root(),
            Found::Away => Err(Errno::NODEV),
        }
    }

    /// Reads the identity of the target there.
    pub fn identity(&self) -> Result<Identity, IdentityError> {
        Identity::read_at(self.root()?)
    }

    /// The medium of the target there.
    pub fn medium(self, identity: Identity) -> Arc<dyn Medium> {
        match self {
            Found::Directory(path) => Arc::new(DirectoryMedium::new(path, identity)),
            Found::Server(server) => server.medium(identity),
            Found::Away => Arc::new(DirectoryMedium::new(Path::new("/nonexistent"), identity)),
        }
    }
}

/// Formats the directory of a new target. Its number is drawn first and recorded last. A crash in between leaves an
/// identity that the next start finds, or a number that is never used.
pub(super) fn format_target(
    state: &dyn State,
    volume: VolumeId,
    name: &str,
    found: &Found<'_>,
) -> Result<TargetRecord> {
    let unusable = |error: IdentityError| problem(format!("{name} cannot be made a target: {error}"));
    let root = found.root().map_err(|errno| unusable(errno.into()))?;
    let number = match Identity::read_at(&root) {
        Ok(found) if found.volume == volume => found.target,
        Ok(_) | Err(IdentityError::Missing) => state.new_target_number().map_err(failed)?,
        Err(error) => return Err(unusable(error)),
    };
    let identity = Identity { volume, target: number, name: name.to_owned() };
    DirectoryMedium::format_at(&root, &identity).map_err(unusable)?;
    state.remember_target(number, name).map_err(failed)?;
    Ok(TargetRecord::new(number, name))
}

pub(super) fn spec(tier: u8, found: Found<'_>, record: &TargetRecord, volume: VolumeId) -> TargetSpec {
    let identity = Identity { volume, target: record.id, name: record.name.clone() };
    TargetSpec {
        id: record.id,
        name: record.name.clone(),
        tier,
        medium: found.medium(identity),
        state: record.state,
        failed_by_operator: record.by_operator && record.state == target::State::Failed,
    }
}

/// A target's directory, if this host reaches it.
pub(super) fn found_here<'a>(target: &TargetConfig, path: &'a Path) -> Found<'a> {
    if target.is_on(&host::name()) { Found::Directory(path) } else { Found::Away }
}

/// Adds a target, as seen from this host.
pub(super) fn add(
    targets: &Targets,
    config: &Config,
    target: &TargetConfig,
    found: Found<'_>,
    record: &TargetRecord,
    volume: VolumeId,
) -> Arc<target::Target> {
    let host = host::name();
    let reach = match target.is_on(&host) {
        true if target.only_on.is_empty() => Reach::All,
        true => Reach::Here,
        false => Reach::Elsewhere,
    };
    let as_seen = spec(target.tier, found, record, volume);
    let is_elsewhere = reach == Reach::Elsewhere;
    let added = targets.add(match is_elsewhere {
        true => TargetSpec { state: target::State::Failed, failed_by_operator: true, ..as_seen },
        false => as_seen,
    });
    added.set_reach(reach, config.layout.prefer == Prefer::Local && target.is_near(&host));
    added.set_lost(is_elsewhere && record.by_operator && record.state == target::State::Failed);
    added
}

/// Good probes after which a failed target of several nodes is used again, if `volume.toml` gives no number. A guess:
/// two seconds of good answers.
const AUTO_RESTORE_SHARED: u32 = 4;

fn options(config: &Config) -> TargetsOptions {
    let span = |span: Duration| policy::Time(span.as_nanos() as u64);
    let health = &config.health;
    let by_itself = if config.state_store == StateStore::Embedded { 0 } else { AUTO_RESTORE_SHARED };
    TargetsOptions {
        execution: Execution::Threads,
        limits: Limits { deadline: health.deadline, ..Limits::default() },
        health: health::Config {
            failed_probes_max: health.probes_failed_max,
            probe_interval: span(health.probe_interval),
            probe_deadline: span(health.deadline),
            auto_restore: Some(health.auto_restore.unwrap_or(by_itself)).filter(|probes| *probes > 0),
            ..health::Config::default()
        },
        slots: Arc::new(InlineSlots::new(config.mount.threads.saturating_sub(THREADS_SPARED))),
    }
}

/// Failure and draining survive a restart.
fn remember_changes(targets: &Targets, state: &Arc<dyn State>, shared: bool) {
    let state = state.clone();
    targets.on_change(move |change: &Change| {
        target::log_change(change);
        // With several nodes, a failure may lie on one node's path to the target; an operator's order is recorded by
        // the order itself.
        if shared {
            return;
        }
        if let Err(error) = state.set_target_state(change.target, change.to, change.by_operator) {
            tracing::error!(
                "target {} is {}, but this order cannot be saved for a restart: {error}",
                change.name,
                change.to
            );
        }
    });
}

#[cfg(test)]
mod tests;

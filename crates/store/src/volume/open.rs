//! Opening a volume: check, lock, state store, identity, directories, targets, in this order.

use super::check;
use super::config::{Config, TargetConfig};
use super::ids::Ids;
use super::keep::Reached;
use super::lock::Lock;
use super::problem::{Problem, Problems};
use super::{Volume, VolumeId, identity, namespace};
use crate::state::{State, TargetRecord};
use crate::stats::Stats;
use crate::target::{
    self, Change, DirectoryMedium, Execution, Identity, IdentityError, InlineSlots, Limits, TargetSpec, Targets,
    TargetsOptions,
};
use policy::protect::health;
use std::sync::Arc;
use std::time::Duration;

/// Threads of the mount that are never inside an inline operation, so that a hung target leaves some to serve others.
const THREADS_SPARED: usize = 2;

pub(super) fn problem(cause: impl ToString) -> Problems {
    let mend = "Mend that and open it again; what was done so far does no harm";
    Problems::one(Problem::new(cause.to_string(), "the volume is not opened", mend))
}

impl Volume {
    /// Checks everything, then takes the lock, formats what is new and opens everything. A target of the volume whose
    /// directory is missing, or is not the one that it was, is opened as failed.
    pub fn open(config: Config) -> Result<Volume, Problems> {
        check::check(&config)?;
        let lock = Lock::take(&config.state, &config.namespace)?;
        close_to_others(&config.state)?;
        let reached = Reached::open(&config).map_err(problem)?;
        let id = match namespace::read_id(&config.namespace).map_err(problem)? {
            Some(id) => id,
            None => namespace::format(&config.namespace).map_err(problem)?,
        };
        let state = reached.of(id).map_err(problem)?;
        identity::check(&config, &*state, id)?;
        let directories = namespace::open(&config.namespace)
            .map_err(|errno| problem(format!("{}: {errno}", config.namespace.display())))?;
        let known = state.targets().map_err(problem)?;
        let targets = Targets::new(options(&config));
        for target in &config.targets {
            let record = match known.iter().find(|record| record.name == target.name) {
                Some(record) => record.clone(),
                None => format_target(&*state, id, target)?,
            };
            targets.add(spec(target, &record, id));
        }
        for record in known.iter().filter(|record| config.targets.iter().all(|target| target.name != record.name)) {
            tracing::error!(
                "target {} is known to the volume and not named in {}: it is failed, and what it holds is out of reach. Put \
                 its block back, or forget it with `entrepot target remove {} --force`",
                record.name,
                config.file.display(),
                record.name
            );
            let away = TargetConfig {
                name: record.name.clone(),
                path: "/nonexistent".into(),
                tier: 0,
                device: None,
                connections: None,
                place: (0, 0),
            };
            targets.add(spec(&away, record, id));
        }
        remember_changes(&targets, &state);
        for unwell in targets.probe_all() {
            targets.give_up(unwell);
        }
        targets.measure_now();
        let (ids, seen) = Ids::new(state.clone(), &config.namespace, targets.clone()).map_err(problem)?;
        identity::note_return(&*state, &config.namespace, seen, ids.epoch()).map_err(problem)?;
        let inline_bytes_ever = namespace::inline_bytes_ever(&config.namespace, config.layout.inline_max);
        let inline_bytes_ever = inline_bytes_ever.map_err(problem)?;
        let stats = Arc::new(Stats::new());
        stats.attach(&targets);
        Ok(Volume { config, id, directories, targets, state, ids, inline_bytes_ever, stats, lock })
    }
}

/// The state directory holds the control socket and everybody's jobs.
fn close_to_others(state_dir: &std::path::Path) -> Result<(), Problems> {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(state_dir, mode).map_err(|error| problem(format!("{}: {error}", state_dir.display())))
}

/// Makes the directory of a new target a target. Its number is drawn first and remembered last: a crash between the
/// two leaves an identity that the next start finds, or a number that is never used.
pub(super) fn format_target(
    state: &dyn State,
    volume: VolumeId,
    target: &TargetConfig,
) -> Result<TargetRecord, Problems> {
    let number = match Identity::read(&target.path) {
        Ok(found) if found.volume == volume => found.target,
        Ok(_) | Err(IdentityError::Missing) => state.new_target_number().map_err(problem)?,
        Err(error) => return Err(problem(format!("{}: {error}", target.path.display()))),
    };
    let identity = Identity { volume, target: number, name: target.name.clone() };
    DirectoryMedium::format(&target.path, &identity)
        .map_err(|error| problem(format!("{} cannot be made a target: {error}", target.path.display())))?;
    state.remember_target(number, &target.name).map_err(problem)?;
    Ok(TargetRecord { id: number, name: target.name.clone(), state: target::State::Ok, by_operator: false })
}

pub(super) fn spec(target: &TargetConfig, record: &TargetRecord, volume: VolumeId) -> TargetSpec {
    let identity = Identity { volume, target: record.id, name: record.name.clone() };
    TargetSpec {
        id: record.id,
        name: record.name.clone(),
        tier: target.tier,
        medium: Arc::new(DirectoryMedium::new(&target.path, identity)),
        state: record.state,
        failed_by_operator: record.by_operator && record.state == target::State::Failed,
    }
}

fn options(config: &Config) -> TargetsOptions {
    let span = |span: Duration| policy::Time(span.as_nanos() as u64);
    let health = &config.health;
    TargetsOptions {
        execution: Execution::Threads,
        limits: Limits { deadline: health.deadline, ..Limits::default() },
        health: health::Config {
            failed_probes_max: health.probes_failed_max,
            probe_interval: span(health.probe_interval),
            probe_deadline: span(health.deadline),
            auto_restore: (health.auto_restore > 0).then_some(health.auto_restore),
            ..health::Config::default()
        },
        slots: Arc::new(InlineSlots::new(config.mount.threads.saturating_sub(THREADS_SPARED))),
    }
}

/// Failure and draining survive a restart.
fn remember_changes(targets: &Targets, state: &Arc<dyn State>) {
    let state = state.clone();
    targets.on_change(move |change: &Change| {
        target::log_change(change);
        if let Err(error) = state.set_target_state(change.target, change.to, change.by_operator) {
            tracing::error!("target {} is {}, but a restart will not know: {error}", change.name, change.to);
        }
    });
}

#[cfg(test)]
mod tests;

//! `status.get` and `stats.get`: the state and the metrics of the volume.

use super::in_time::in_time;
use super::{node, target};
use crate::control::answers::{Facts, Mover, MoverCounts, Note, Repair, Stats, Status};
use crate::control::{Caller, Problem};
use crate::daemon::Core;
use engine::mover::{Phase, ProgressEntry};
use engine::stats::Metric;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Maximum of news lines in a status.
const NEWS_MAX: usize = 12;

/// Whether a status awaits the state store, the names of files, and the namespace.
static COUNTING: AtomicBool = AtomicBool::new(false);
static NAMING: AtomicBool = AtomicBool::new(false);
static REACHING: AtomicBool = AtomicBool::new(false);

pub fn status(core: &Arc<Core>, caller: &Caller) -> Result<Status, Problem> {
    let space = core.volume.targets().space();
    // The rest is available even while the state store is away.
    let (state, deadline) = (core.volume.state().clone(), core.volume.config().health.deadline);
    let (garbage_objects, state_away) = match in_time(deadline, &COUNTING, move || state.garbage_count()) {
        Some(Ok(count)) => (Some(count), None),
        Some(Err(error)) => (None, Some(error.to_string())),
        None => (None, Some(format!("it did not answer within {} s", deadline.as_secs_f32()))),
    };
    let quotas = core.quotas.counts().subjects;
    let away = core.background.away();
    let mut tiering = core.adapt.status_of_tiers();
    let mut hot: Vec<_> = tiering.iter_mut().flat_map(|t| &mut t.counts).flat_map(|counts| &mut counts.hot).collect();
    let lately = core.mover.progress().list();
    let running = lately.iter().filter(|entry| entry.phase == Phase::Copying).map(|entry| &entry.file);
    let names = names(core, running.chain(hot.iter().map(|one| &one.file)));
    for one in &mut hot {
        names.get(&one.file).into_iter().for_each(|path| one.file.clone_from(path));
    }
    let facts = Facts {
        name: core.volume.config().name.clone(),
        id: core.volume.id().to_string(),
        version: env!("CARGO_PKG_VERSION").into(),
        uptime_s: core.started.elapsed().as_secs(),
        total_bytes: space.total_bytes,
        free_bytes: space.free_bytes,
        garbage_objects,
        repair: repair(core),
        cache: core.pool.cache.get().map(|cache| cache.counts()),
        quotas: (quotas.limits > 0).then_some(quotas),
        stripes: core.adapt.status_of_stripes(),
        tiering,
    };
    let mut answer = Status {
        facts,
        mount_point: core.mount_point.clone(),
        pid: std::process::id(),
        targets: target::list(core),
        state_away,
        nodes: core.nodes.as_ref().map(|nodes| node::all(nodes)),
        mover: mover(core, lately, &names, caller.is_operator()),
        // Without the leader's answer, the rest of the status is still shown.
        burst: core.adapt.burst().map(|burst| burst.status_of_all(caller)),
        away: (away.files > 0).then_some(away),
        left: core.unclean.status(),
        events: news(core),
        file: std::path::absolute(&core.volume.config().file).ok(),
    };
    if !caller.is_operator() {
        keep_paths_back(core, caller, &mut answer);
    }
    Ok(answer)
}

/// Removes paths that a user may not see. Sentences name files, so only the operator gets them and the moves under
/// way. A user sees hot files that the user can reach.
fn keep_paths_back(core: &Arc<Core>, caller: &Caller, answer: &mut Status) {
    answer.file = None;
    answer.events.clear();
    answer.facts.stripes.iter_mut().for_each(|stripes| stripes.decisions.clear());
    if let Some(tiering) = answer.facts.tiering.as_mut().and_then(|tiering| tiering.counts.as_mut()) {
        let (there, caller, paths) = (core.clone(), *caller, tiering.hot.iter().map(|one| one.file.clone()).collect());
        let reached = in_time(core.volume.config().health.deadline, &REACHING, move || there.reachable(&caller, paths));
        tiering.hot.retain(|one| reached.as_ref().is_some_and(|reached| reached.contains(&one.file)));
    }
}

/// Paths of files by their numbers, as far as they are recorded and read in time.
fn names<'a>(core: &Core, files: impl Iterator<Item = &'a String>) -> BTreeMap<String, String> {
    let (pool, files) = (core.pool.clone(), files.cloned().collect::<BTreeSet<_>>());
    let path = move |file: String| {
        let path = pool.path_of(file.parse().ok()?)?;
        Some((file, path.display().to_string()))
    };
    if files.is_empty() {
        return BTreeMap::new();
    }
    let ask = || files.into_iter().filter_map(path).collect();
    in_time(core.volume.config().health.deadline, &NAMING, ask).unwrap_or_default()
}

fn mover(core: &Core, all: Vec<ProgressEntry>, names: &BTreeMap<String, String>, with_names: bool) -> Mover {
    let stats = core.volume.stats();
    let running = all.iter().filter(|m| m.phase == Phase::Copying);
    let moves = running.clone().map(|m| {
        let file = names.get(&m.file).map_or_else(|| format!("file {}", m.file), String::clone);
        format!("{} of {file}: {} of at most {} bytes copied", m.verb, m.done_bytes, m.total_bytes)
    });
    let drains = core.background.drains().into_iter().map(|(target, p)| {
        let name = core.volume.targets().name_of(target);
        format!("drain of {name}: {} files moved, {} left in this round, {} of them in use", p.files, p.left, p.busy)
    });
    let counts = MoverCounts {
        running: running.clone().count(),
        changes_done: stats.get(Metric::MoverChanges),
        changes_failed: stats.get(Metric::MoverFailures),
        bytes_copied: stats.get(Metric::MoverBytes),
    };
    Mover {
        counts,
        moves: if with_names { moves.chain(drains).chain(core.maintenance.lines()).collect() } else { Vec::new() },
        lately: all,
    }
}

fn repair(core: &Core) -> Repair {
    let stats = core.volume.stats();
    let counts = core.repair.counts();
    Repair {
        stripes_lost: stats.get(Metric::RecoveryStripesLost),
        stripes_recovered: stats.get(Metric::RecoveryStripes),
        bytes_fetched: stats.get(Metric::RecoveryBytes),
        reader_waits: stats.get(Metric::RecoveryWaits),
        reader_delay_total_ms: stats.get(Metric::RecoveryDelayNs) / 1_000_000,
        reader_delay_max_ms: core.repair.longest_wait().as_millis() as u64,
        retries: stats.get(Metric::RecoveryRetries),
        failures: stats.get(Metric::RecoveryFailures),
        recoveries_started: counts.started,
        recoveries_completed: counts.completed,
        recoveries_failed: counts.failed,
        recoveries_running: counts.keys,
        fetches_in_flight: counts.in_flight,
    }
}

fn news(core: &Core) -> Vec<Note> {
    let news = core.pool.events.news(NEWS_MAX);
    news.iter().map(|event| Note { at_ms: event.at_ms, text: event.what.clone() }).collect()
}

pub fn stats(core: &Core) -> Stats {
    Stats { prometheus: core.open_metrics(), snapshot: core.volume.stats().snapshot() }
}

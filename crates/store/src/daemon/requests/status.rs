//! `status.get` and `stats.get`.

use super::{layout, node, target};
use crate::control::{Caller, Problem};
use crate::daemon::Core;
use crate::mover::Phase;
use crate::stats::Metric;
use policy::FileId;
use serde_json::{Value, json};
use std::sync::Arc;

/// Lines of news in a status.
const NEWS_MAX: usize = 12;

pub fn status(core: &Arc<Core>, caller: &Caller) -> Result<Value, Problem> {
    let space = core.volume.targets().space();
    let mut answer = json!({
        "name": core.volume.config().name,
        "id": core.volume.id().to_string(),
        "mount_point": core.mount_point,
        "pid": std::process::id(),
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_s": core.started.elapsed().as_secs(),
        "total_bytes": space.total_bytes,
        "free_bytes": space.free_bytes,
        "targets": target::list(core),
    });
    // The rest is known also while the store of the state is away.
    match core.volume.state().garbage_count() {
        Ok(count) => answer["garbage_objects"] = json!(count),
        Err(error) => answer["state_away"] = json!(error.to_string()),
    }
    if let Some(nodes) = &core.nodes {
        answer["nodes"] = node::shown(nodes);
        answer["dead_nodes"] = node::dead(nodes);
    }
    answer["mover"] = mover(core, caller.is_operator());
    answer["repair"] = repair(core);
    if let Some(cache) = core.pool.cache.get() {
        answer["cache"] = json!(cache.counts());
    }
    let quotas = core.quotas.counts();
    if quotas.limits > 0 {
        let super::quotas::Counts { limits, over, expired, full, .. } = quotas;
        answer["quotas"] = json!({"limits": limits, "over": over, "expired": expired, "full": full});
    }
    if let Some(burst) = core.adapt.burst() {
        // Without an answer of the node that decides the rest is shown all the same.
        answer["burst"] = burst.status_of_all(caller);
    }
    if let Some(stripes) = core.adapt.status_of_stripes() {
        answer["stripes"] = stripes;
    }
    if let Some(tiering) = core.adapt.status_of_tiers() {
        answer["tiering"] = tiering;
    }
    answer["events"] = news(core);
    if caller.is_operator() {
        answer["file"] = json!(std::path::absolute(&core.volume.config().file).ok());
    } else {
        keep_paths_back(core, caller, &mut answer);
    }
    Ok(answer)
}

/// What is told in sentences names files, and so is the operator's, the moves under way too; of hot files a user sees those in the user's own reach.
fn keep_paths_back(core: &Core, caller: &Caller, answer: &mut Value) {
    answer["events"] = json!([]);
    if let Some(stripes) = answer.get_mut("stripes") {
        stripes["decisions"] = json!([]);
    }
    if let Some(Value::Array(hot)) = answer.get_mut("tiering").and_then(|tiering| tiering.get_mut("hot")) {
        hot.retain(|one| one["file"].as_str().is_some_and(|path| core.may_see(caller, path).is_ok()));
    }
}

fn mover(core: &Core, with_names: bool) -> Value {
    let stats = core.volume.stats();
    let all = core.mover.progress().list();
    let running = all.iter().filter(|m| m.phase == Phase::Copying);
    let moves = running.clone().map(|m| {
        let file =
            u64::from_str_radix(&m.file, 16).map_or_else(|_| m.file.clone(), |id| layout::file_named(core, FileId(id)));
        format!("{} of {file}: {} of at most {} bytes copied", m.verb, m.done_bytes, m.total_bytes)
    });
    let drains = core.background.drains().into_iter().map(|(target, p)| {
        let name = core.volume.targets().get(target).map_or(target.to_string(), |t| t.name().to_string());
        format!("drain of {name}: {} files moved, {} left in this round, {} of them in use", p.files, p.left, p.busy)
    });
    json!({
        "running": running.clone().count(),
        "changes_done": stats.get(Metric::MoverChanges),
        "changes_failed": stats.get(Metric::MoverFailures),
        "bytes_copied": stats.get(Metric::MoverBytes),
        "moves": if with_names { moves.chain(drains).chain(core.background.rebuilding()).chain(core.balancing.line()).collect() } else { Vec::new() },
        "lately": all,
    })
}

fn repair(core: &Core) -> Value {
    let stats = core.volume.stats();
    let counts = core.repair.counts();
    json!({
        "stripes_lost": stats.get(Metric::RecoveryStripesLost),
        "stripes_recovered": stats.get(Metric::RecoveryStripes),
        "bytes_fetched": stats.get(Metric::RecoveryBytes),
        "reader_waits": stats.get(Metric::RecoveryWaits),
        "reader_delay_total_ms": stats.get(Metric::RecoveryDelayNs) / 1_000_000,
        "reader_delay_max_ms": core.repair.longest_wait().as_millis() as u64,
        "retries": stats.get(Metric::RecoveryRetries),
        "failures": stats.get(Metric::RecoveryFailures),
        "recoveries_started": counts.started,
        "recoveries_completed": counts.completed,
        "recoveries_failed": counts.failed,
        "recoveries_running": counts.keys,
        "fetches_in_flight": counts.in_flight,
    })
}

fn news(core: &Core) -> Value {
    let news = core.pool.events.news(NEWS_MAX);
    news.iter().map(|event| json!({"at_ms": event.at_ms, "text": event.what})).collect()
}

pub fn stats(core: &Core) -> Value {
    json!({"prometheus": core.open_metrics(), "snapshot": core.volume.stats().snapshot()})
}

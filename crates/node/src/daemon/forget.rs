//! Removal of a node that is over and will not return: its records move to this node.
//!
//! - Its moves are settled as it would have done at its start (`crash`): only objects in the layout of their file stay.
//!   The leader searches for the objects of a move whose file is not found at once (`left`).
//! - Its stagings resume here, when the same is staged in again. Its other records move to this node.
//! - Its jobs have their processes and files on that host; they are forgotten.
//!
//! Its number stays taken, and its file `N.over` stays: node numbers have no gaps.

use super::{Core, crash};
use crate::control::{Problem, Result, exit};
use crate::nodes::{Info, Nodes};
use engine::mover::Mover;
use meta::state::{KNOWN_JOBS, NAMES, State};
use policy::cluster::Node;
use std::collections::BTreeSet;

/// Records that are useless on another host: durability records of one boot of the machine, and jobs with their
/// processes.
const OF_THE_HOST: [&str; 2] = [NAMES, "slurm-transfer"];
const JOBS: [&str; 2] = ["job", "slurm-job"];

/// Numbers of settled items.
#[derive(Default)]
struct SettledCounts {
    moves: usize,
    objects: usize,
    stagings: usize,
    records: usize,
    jobs: usize,
    /// Number of moves whose file cannot be searched now.
    unknown: usize,
}

/// Forgets a node, by its number or by its host.
pub(super) fn forget(core: &Core, nodes: &Nodes, name: &str) -> Result<String> {
    let failed = |error: crate::Error| {
        Problem::failed(error.to_string())
            .so("unsettled moves are kept")
            .try_this("correct the cause and repeat the command")
    };
    // Live nodes are listed last, since a node that is over may have just returned.
    let (over, alive) = (nodes.over().map_err(failed)?, nodes.alive().map_err(failed)?);
    let own = the_dead(&alive, &over, name)?;
    let mut left = SettledCounts::default();
    for own in &own {
        // The first round settles records that an interrupted call had already moved, the second one the rest.
        for _ in 0..2 {
            let state = core.volume.state().left_by(own).map_err(failed)?;
            let Some(state) = state else { break };
            settle(core, state, &mut left).map_err(failed)?;
        }
        forget_jobs(core, own).map_err(failed)?;
        nodes.forget_draining(own).map_err(failed)?;
        let numbers = over.iter().filter(|(_, info)| info.own == *own).map(|(node, _)| *node);
        numbers.max().map_or(Ok(()), |last| nodes.forget_dead(own, last)).map_err(failed)?;
    }
    let SettledCounts { moves, objects, stagings, records, jobs, unknown } = left;
    if unknown > 0 {
        return Err(Problem::new(exit::INCOMPLETE, format!("{unknown} moves of {name} cannot be settled now"))
            .so("they are kept, and so are their objects")
            .try_this("repeat the command when all targets and names can be read"));
    }
    tracing::info!(name, moves, objects, stagings, records, jobs, "a node is forgotten");
    Ok(format!(
        "{name} is forgotten: {moves} moves settled ({objects} objects removed), {stagings} stagings go on here, {records} records \
         are this node's, {jobs} jobs are given up"
    ))
}

/// Own names of the nodes to forget. Refused if one of these nodes is alive.
fn the_dead(alive: &[(Node, Option<Info>)], over: &[(Node, Info)], name: &str) -> Result<BTreeSet<String>> {
    let refused = |text: String, mend: &str| Err(Problem::wrong(text).so("nothing was forgotten").try_this(mend));
    if let Some((unknown, _)) = alive.iter().find(|(_, info)| info.is_none()) {
        return refused(format!("{unknown} is running, and its host is unknown"), "repeat the command");
    }
    let is = |node: Node, info: &Info| node.0.to_string() == name || info.host == name;
    let own: BTreeSet<String> =
        over.iter().filter(|(node, info)| is(*node, info)).map(|(_, info)| info.own.clone()).collect();
    let there = alive.iter().find_map(|(node, info)| {
        let info = info.as_ref()?;
        (is(*node, info) || own.contains(&info.own)).then_some((*node, info))
    });
    if let Some((node, info)) = there {
        return refused(
            format!("{node} on {} is alive", info.host),
            "`entrepot down` there ends it in order; `entrepot node drain` before that moves its work to other nodes",
        );
    }
    match own.is_empty() {
        true => Err(Problem::not_found(format!("no node {name} ever had the volume"))
            .so("nothing was forgotten")
            .try_this("name its number or its host, as `entrepot node list` showed it")),
        false => Ok(own),
    }
}

/// Removes the records of its jobs, so that they keep no files.
fn forget_jobs(core: &Core, own: &str) -> crate::Result<()> {
    let state = core.volume.state();
    let of = format!("{own} ");
    let known = state.records(KNOWN_JOBS)?.into_iter().filter(|(key, _)| key.starts_with(&of));
    known.map(|(key, _)| key).try_for_each(|key| state.record_remove(KNOWN_JOBS, &key).map(drop))
}

fn settle(core: &Core, state: std::sync::Arc<dyn State>, left: &mut SettledCounts) -> crate::Result<()> {
    let mover = Mover::new(core.pool.clone(), state.clone(), None);
    mover.journal_copies_of_last_run()?;
    if !state.journal()?.is_empty() {
        let recovered = crash::settle_journal(&core.volume, &core.files, &mover, true)?;
        if recovered.to_search > 0 {
            core.pool.making.leave_behind();
        }
        left.moves += recovered.moves + recovered.to_search;
        left.objects += recovered.objects;
        left.unknown += recovered.unknown;
    }
    let mine = core.volume.state();
    for (key, progress) in state.stagings()? {
        if mine.staging_get(&key)?.is_none() {
            mine.staging_put(&key, &progress)?;
        }
        state.staging_remove(&key)?;
        left.stagings += 1;
    }
    for kind in state.record_kinds()? {
        for (key, value) in state.records(&kind)? {
            if JOBS.contains(&&*kind) {
                left.jobs += 1;
            } else if !OF_THE_HOST.contains(&&*kind) && mine.record_get(&kind, &key)?.is_none() {
                mine.record_put(&kind, &key, &value)?;
                left.records += 1;
            }
            state.record_remove(&kind, &key)?;
        }
    }
    Ok(())
}

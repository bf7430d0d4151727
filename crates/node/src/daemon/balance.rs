//! Balancing: evens out the usage of the targets of a tier, file by file, as [`policy::balance`] decides.
//!
//! One run at a time moves files, at the mover's rate. Among several nodes, the leader runs it. A restart or a change
//! of leader ends it: moved files stay, and the next run begins with the usage at that time.

mod record;

use super::led::Led;
use super::walk::walk;
use super::{Core, now_ns};
use crate::calls::Answer;
use crate::control::answers::{self, BalanceOutcome as Outcome};
use crate::control::{Caller, Problem, Responder};
use crate::{Error, Result};
use engine::events::{Event as Happened, Kind, because};
use engine::file::File;
use object::target::State as TargetState;
use parking_lot::Mutex;
use policy::balance::{Action, Balance, End, Event, Room};
use policy::layout::{Layout, MirrorState, ObjectState, object_len};
use policy::machine::Machine;
use policy::maintenance::Task;
use policy::volume::ownership::Mechanism;
use policy::{TargetId, Time};
use record::Record;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Start of device numbers for targets on unknown file systems: no device has such a number, and each target gets its
/// own.
const UNKNOWN_DEVICE: u64 = 1 << 63;
/// Interval at which a paused run checks whether this node still leads.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Interval at which progress is saved.
const REMEMBER_EVERY: Duration = Duration::from_secs(10);

/// Requests to the leader.
pub(super) static BALANCE: Led<Ask, answers::Balance> =
    Led { name: "balance", is_ready: |_| true, serve: |core, _, ask, _| serve(core, ask) };

/// The current run, or the last one of this daemon.
#[derive(Debug, Default)]
struct Now {
    is_running: bool,
    is_paused: bool,
    is_stopped: bool,
    spread_permille: u64,
    record: Record,
}

/// The balancing runs of this daemon.
#[derive(Default)]
pub(super) struct Balancing(Mutex<Now>);

/// Reason for the end of a run before its time.
enum Break {
    /// It was stopped.
    Stopped,
    /// Another node leads.
    Led,
    Failed(Error),
}

impl From<Error> for Break {
    fn from(error: Error) -> Break {
        Break::Failed(error)
    }
}

impl Balancing {
    /// Whether the run continues; waits during a pause.
    fn goes_on(&self, core: &Core, machine: &Balance) -> Result<(), Break> {
        loop {
            let mut now = self.0.lock();
            now.record.set(machine.stats());
            let (is_stopped, is_paused) = (now.is_stopped || core.maintenance.stop_flag().is_set(), now.is_paused);
            let line = now.record.line() + if is_paused { ", paused" } else { "" };
            drop(now);
            core.maintenance.report(Task::Balance, Some(line));
            match (is_stopped, core.acts(), is_paused) {
                (true, ..) => return Err(Break::Stopped),
                (_, false, _) => return Err(Break::Led),
                (.., false) => return Ok(()),
                (.., true) => drop(core.maintenance.rests(LOOK_EVERY)),
            }
        }
    }

    fn status(&self, core: &Core) -> Answer<answers::Balance> {
        let (state, is_running, mut run) = {
            let now = self.0.lock();
            let state = match (now.is_running, now.is_paused) {
                (true, true) => "paused",
                (true, false) => "running",
                (false, _) => "idle",
            };
            (state.to_owned(), now.is_running, now.record.clone())
        };
        if !is_running {
            // Another node may have run a later balance.
            let last = Record::read(&**core.volume.state())?.unwrap_or_default();
            if last.began_ns != run.began_ns {
                run = last;
                run.cut_off();
            }
        }
        Ok(answers::Balance { state, run })
    }

    /// Saves the progress. A former leader must not overwrite the record of the new one.
    fn remember(&self, core: &Core) {
        let record = self.0.lock().record.clone();
        if core.acts()
            && let Err(error) = record.remember(&**core.volume.state())
        {
            tracing::warn!("the progress of balancing cannot be saved: {error}");
        }
    }
}

/// Requests of `entrepot balance`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Ask {
    /// Begin, with the spread in thousandths.
    Start(u64),
    /// Pause or resume the moves.
    Pause(bool),
    /// End the run.
    Stop,
    /// Report the progress.
    Status,
}

/// Sends a request to the leader, which may be this node.
pub(super) fn run(core: &Arc<Core>, caller: &Caller, ask: Ask, out: &mut Responder<'_>) -> Answer<answers::Balance> {
    if ask != Ask::Status {
        caller.must_be_operator("balance the volume")?;
    }
    BALANCE.ask(core, caller, ask, out)
}

/// Serves a request on the leader.
fn serve(core: &Arc<Core>, ask: Ask) -> Answer<answers::Balance> {
    let balancing = &core.balancing;
    let mut now = balancing.0.lock();
    match ask {
        Ask::Status => {}
        Ask::Start(_) if now.is_running => {
            return Err(Problem::busy("the volume is being balanced")
                .so("nothing was changed")
                .try_this("`entrepot balance status` shows how far it is; `entrepot balance stop` ends it"));
        }
        Ask::Start(spread) => {
            let record = Record::begun(now_ns(), object::host::name());
            *now = Now { is_running: true, spread_permille: spread, record: record.clone(), ..Now::default() };
            drop(now);
            if let Err(error) = record.remember(&**core.volume.state()) {
                *balancing.0.lock() = Now::default();
                return Err(error.into());
            }
            core.maintenance.due(Task::Balance, Duration::ZERO);
            return balancing.status(core);
        }
        _ if !now.is_running => {
            return Err(Problem::wrong("the volume is not being balanced")
                .so("nothing was changed")
                .try_this("`entrepot balance start` begins"));
        }
        Ask::Pause(paused) => now.is_paused = paused,
        Ask::Stop => now.is_stopped = true,
    }
    drop(now);
    balancing.status(core)
}

/// Runs the balance that was requested.
pub(super) fn run_requested(core: &Core) {
    let spread_permille = core.balancing.0.lock().spread_permille;
    let mut machine = Balance::new(spread_permille);
    let done = passes(core, &mut machine);
    core.maintenance.report(Task::Balance, None);
    core.volume.targets().measure_now(); // the next status shows the result
    let (stats, balancing) = (machine.stats(), &core.balancing);
    let mut now = balancing.0.lock();
    now.record.set(stats);
    match done {
        Ok(end) => now.record.end(Outcome::Done, words(end, spread_permille)),
        Err(Break::Stopped) => {
            now.record.end(Outcome::Stopped, "it was stopped; moved files stay where they are now".into())
        }
        Err(Break::Led) => now.record.cut_off(),
        Err(Break::Failed(error)) => now.record.end(Outcome::Failed, format!("it failed: {error}")),
    }
    (now.is_running, now.is_paused) = (false, false);
    let ended = now.record.ended.clone().unwrap_or_default();
    drop(now);
    let moved = policy::units::show_bytes(stats.bytes);
    let what = format!("balancing is over: {} moves of {moved}; {ended}", stats.moves);
    core.pool.events.record(Happened { by: Some("balance".into()), ..Happened::new(Kind::Target, what) });
    balancing.remember(core);
}

fn words(end: End, spread_permille: u64) -> String {
    match end {
        End::Balanced => format!("every target is as full as its tier, within {} %", spread_permille / 10),
        End::NothingToMove => {
            "no more files can be moved: the others are in use, placed on request, or too large".into()
        }
        End::PassesMade => {
            "users write and remove files as fast as files are moved; start balancing again later".into()
        }
    }
}

fn passes(core: &Core, machine: &mut Balance) -> Result<End, Break> {
    while let Some(action) = machine.poll() {
        match action {
            Action::End(end) => return Ok(end),
            Action::Walk => pass(core, machine)?,
            // The machine sends this action only for the file that it was just given.
            Action::Move { .. } => machine.handle(Time::ZERO, Event::Left),
        }
    }
    Err(Break::Stopped)
}

/// Walks all files once.
fn pass(core: &Core, machine: &mut Balance) -> Result<(), Break> {
    core.volume.targets().measure_now();
    machine.handle(Time::ZERO, Event::Begin(rooms(core)));
    let mut saved = Instant::now();
    for file in walk(&core.volume, &core.files)? {
        core.balancing.goes_on(core, machine)?;
        if saved.elapsed() >= REMEMBER_EVERY {
            saved = Instant::now();
            core.balancing.remember(core);
        }
        // A file that cannot be read now is not moved.
        let Ok(file) = file else { continue };
        let Some(layout) = file.layout() else { continue };
        let (parts, keep) = (parts(&layout, file.size()), is_kept(&file, &layout));
        machine.handle(Time::ZERO, Event::File { file: layout.file, parts, keep });
        while let Some(Action::Move { from, to, reason, .. }) = machine.poll() {
            let moved = because("balance", reason.to_string(), || core.mover.replace_target_by(&file, from, to));
            machine.handle(Time::ZERO, if moved.is_ok() { Event::Moved } else { Event::Left });
        }
    }
    machine.handle(Time::ZERO, Event::Walked);
    Ok(())
}

/// Targets that take new objects, with their usage.
fn rooms(core: &Core) -> Vec<Room> {
    let targets = core.volume.targets().all();
    let usable = targets.iter().filter(|target| target.state() == TargetState::Ok);
    let room = usable.map(|target| {
        let space = target.space();
        Room {
            target: target.id(),
            tier: target.tier(),
            file_system: space.device.unwrap_or(UNKNOWN_DEVICE | u64::from(target.id().0)),
            total_bytes: space.total_bytes,
            free_bytes: space.free_bytes,
        }
    });
    room.collect()
}

/// The bytes of a file on each target.
fn parts(layout: &Layout, size: u64) -> Vec<(TargetId, u64)> {
    let mut parts: BTreeMap<TargetId, u64> = BTreeMap::new();
    for segment in layout.mirrors.iter().flat_map(|mirror| &mirror.segments) {
        for (index, object) in segment.objects.iter().enumerate() {
            *parts.entry(object.target).or_default() += object_len(segment, index, size);
        }
    }
    parts.into_iter().collect()
}

/// Whether the file must stay: it is in use, is not whole, or a mechanism claims its placement. A directory's layout
/// does not count, since it names no targets.
fn is_kept(file: &File, layout: &Layout) -> bool {
    let claims = [Mechanism::Burst, Mechanism::Repair, Mechanism::Replicas, Mechanism::User];
    file.is_open()
        || layout.is_merged()
        || layout.mirrors.iter().any(|mirror| mirror.state != MirrorState::InSync)
        || layout.objects().any(|(_, object)| object.state != ObjectState::Complete)
        || claims.into_iter().any(|by| file.is_claimed(by))
}

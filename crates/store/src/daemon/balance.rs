//! Balancing: how full the targets of a tier are is evened out, file by file, as [`policy::balance`] decides.
//!
//! One at a time, on a thread of its own, at the mover's speed; of several nodes on the one that leads. A restart ends it:
//! what was moved stays moved, and the next one begins with how full the targets are then.

use super::Core;
use super::walk::walk;
use crate::Result;
use crate::control::{Caller, Problem};
use crate::events::{Event as Happened, Kind, because};
use crate::file::File;
use crate::target::State as TargetState;
use crate::workers::Workers;
use parking_lot::{Condvar, Mutex};
use policy::balance::{Action, Balance, End, Event, Room, Stats};
use policy::layout::{Layout, MirrorState, ObjectState, object_len};
use policy::machine::Machine;
use policy::volume::ownership::Mechanism;
use policy::{TargetId, Time};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// Targets that lie on no known file system are each on one of their own: numbers that no device has.
const UNKNOWN_DEVICE: u64 = 1 << 63;

/// The one under way, or the last one.
#[derive(Debug, Default)]
struct Now {
    is_running: bool,
    is_paused: bool,
    is_stopped: bool,
    stats: Stats,
    /// How the last one ended.
    ended: Option<String>,
}

/// Balances.
pub(super) struct Balancing {
    now: Mutex<Now>,
    changed: Condvar,
    workers: Workers,
}

impl Balancing {
    pub fn new() -> Balancing {
        Balancing { now: Mutex::default(), changed: Condvar::new(), workers: Workers::of("balancing") }
    }

    /// Ends the one under way after the move that is being made. The mover must have been stopped before.
    pub fn stop(&self) {
        self.end();
        self.workers.stop();
    }

    fn end(&self) {
        self.now.lock().is_stopped = true;
        self.changed.notify_all();
    }

    /// Whether to go on; waits while it is paused.
    fn goes_on(&self, stats: Stats) -> bool {
        let mut now = self.now.lock();
        now.stats = stats;
        while now.is_paused && !now.is_stopped {
            self.changed.wait(&mut now);
        }
        !now.is_stopped
    }

    /// How far it is, as one line; none where nothing is under way.
    pub fn line(&self) -> Option<String> {
        let now = self.now.lock();
        let paused = if now.is_paused { ", paused" } else { "" };
        let Stats { passes, moves, bytes, .. } = now.stats;
        now.is_running.then(|| {
            format!("balance: {moves} moves of {} made, pass {passes}{paused}", policy::units::show_bytes(bytes))
        })
    }

    fn status(&self) -> Value {
        let now = self.now.lock();
        let state = match (now.is_running, now.is_paused) {
            (true, true) => "paused",
            (true, false) => "running",
            (false, _) => "idle",
        };
        let Stats { passes, seen, kept, moves, bytes, left } = now.stats;
        json!({
            "state": state, "pass": passes, "files": seen, "kept": kept, "moves": moves, "bytes": bytes, "left": left,
            "ended": now.ended,
        })
    }
}

/// What `entrepot balance` may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// Begin, with the spread in thousandths.
    Start(u64),
    /// Make no more moves for a while.
    Pause(bool),
    /// End.
    Stop,
    /// How far is it?
    Status,
}

/// Serves a request.
pub(super) fn ask(core: &Arc<Core>, caller: &Caller, ask: Ask) -> std::result::Result<Value, Problem> {
    if ask != Ask::Status {
        caller.must_be_operator("balance the volume")?;
    }
    if !core.acts() {
        return Err(Problem::wrong("another node leads this volume, and that one balances it")
            .so("nothing was changed")
            .try_this("`entrepot node list` shows which one leads; give the command there"));
    }
    let mut now = core.balancing.now.lock();
    match ask {
        Ask::Status => {}
        Ask::Start(_) if now.is_running => {
            return Err(Problem::busy("the volume is being balanced")
                .so("nothing was changed")
                .try_this("`entrepot balance status` shows how far it is; `entrepot balance stop` ends it"));
        }
        Ask::Start(spread) => {
            *now = Now { is_running: true, ..Now::default() };
            let weak = Arc::downgrade(core);
            core.balancing.workers.start("balance", move || balance(&weak, spread));
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
    core.balancing.changed.notify_all();
    Ok(core.balancing.status())
}

fn balance(core: &Weak<Core>, spread_permille: u64) {
    let Some(core) = core.upgrade() else { return };
    let mut machine = Balance::new(spread_permille);
    let ended = match run(&core, &mut machine) {
        Ok(Some(End::Balanced)) => format!("every target is as full as its tier, within {} %", spread_permille / 10),
        Ok(Some(End::NothingToMove)) => {
            "nothing more can be moved: what is left is in use, wanted where it lies, or too large".into()
        }
        Ok(Some(End::PassesMade)) => "others write and remove as fast as files are moved; start it again later".into(),
        Ok(None) => "it was stopped; what was moved stays where it is now".into(),
        Err(error) => format!("it failed: {error}"),
    };
    core.volume.targets().measure_now(); // who looks next sees what came of it
    let stats = machine.stats();
    let moved = policy::units::show_bytes(stats.bytes);
    let what = format!("balancing is over: {} moves of {moved}; {ended}", stats.moves);
    core.pool.events.record(Happened { by: Some("balance"), ..Happened::new(Kind::Target, what) });
    let mut now = core.balancing.now.lock();
    (now.stats, now.ended, now.is_running, now.is_paused) = (stats, Some(ended), false, false);
}

/// `None`: it was stopped.
fn run(core: &Arc<Core>, machine: &mut Balance) -> Result<Option<End>> {
    while let Some(action) = machine.poll() {
        match action {
            Action::End(end) => return Ok(Some(end)),
            Action::Walk if pass(core, machine)? => {}
            Action::Walk => return Ok(None),
            // Said of a file that was just met, and never here.
            Action::Move { .. } => machine.handle(Time::ZERO, Event::Left),
        }
    }
    Ok(None)
}

/// Looks at all files once; whether to go on.
fn pass(core: &Arc<Core>, machine: &mut Balance) -> Result<bool> {
    core.volume.targets().measure_now();
    machine.handle(Time::ZERO, Event::Begin(rooms(core)));
    for file in walk(&core.volume, &core.files)? {
        if !core.balancing.goes_on(machine.stats()) || !core.acts() {
            return Ok(false);
        }
        // What cannot be read now is not moved.
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
    Ok(true)
}

/// The targets that take new objects, and how full they are.
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

/// Whether it stays where it lies: it is in use, is not whole, or something wants it there. What a directory asks for
/// names no targets, and a move within a tier keeps it.
fn is_kept(file: &File, layout: &Layout) -> bool {
    let claims = [Mechanism::Burst, Mechanism::Repair, Mechanism::Replicas, Mechanism::User];
    file.is_open()
        || layout.is_merged()
        || layout.mirrors.iter().any(|mirror| mirror.state != MirrorState::InSync)
        || layout.objects().any(|(_, object)| object.state != ObjectState::Complete)
        || claims.into_iter().any(|by| file.is_claimed(by))
}

//! Working-set reorganisation, live: hot segments of files lie on the fast tier, cold ones on the slow one.
//!
//! ```text
//!   read, write ──> Ear ──> Heard (bounded) ──> step ──> policy::tier::machine ──> moves ──> carriers ──> mover
//!                    ^                            ^                                              |
//!        new segments '-- proportional split      '-- which devices are quiet (targets' counters) <-'
//! ```
//! What is decided is decided by the machine that `entrepot-lab sim tier` drives; here it is told what happens and asked what to
//! move. A location is a segment of a file: its number in the first mirror in sync. Applications' threads only note what
//! they do; [`Tiering::step`] does the rest on a thread of its own, and what is moved is moved by `[mover] concurrent` others.
//!
//! An access is what reaches the daemon. What the kernel's page cache answers costs no device anything and is none, so a file
//! that fits into memory is as cold as its devices find it.
//!
//! Nothing of it is on disk but the files' own layouts: after a restart a look through the tree finds what lies on the fast tier, and
//! temperatures are learned anew.

mod carry;
mod ear;
mod heard;
mod quiet;
mod report;
mod speed;
mod thread;
mod yields;

pub use ear::Ear;
pub use report::{Recent, Report};
pub(crate) use thread::each_file;

use crate::file::{File, FileTable};
use crate::mover::Mover;
use crate::state::State;
use crate::stats::{Metric, Stats};
use crate::volume;
use crate::workers::Workers;
use parking_lot::{Condvar, Mutex};
use policy::layout::Segment;
use policy::machine::Machine;
use policy::tier::cost::Costs;
use policy::tier::machine::{Action, Event, Reorganizer};
use policy::tier::room::SlowTarget;
use policy::tier::{Location, Region, Tier};
use policy::{FileId, TargetId, Time};
use quiet::{Ours, Quiet};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Moves that are remembered for `entrepot status` and `entrepot explain`.
const RECENT_MAX: usize = 32;

/// What tiering is asked to do: `[tiering]` and the tiers' speeds.
#[derive(Clone, Debug)]
pub struct Wish {
    /// `[tiering]`.
    pub tiering: volume::Tiering,
    /// Bytes of a segment, from `[layout] segment`.
    pub segment_bytes: u64,
    /// Moves at the same time, from `[mover] concurrent`.
    pub concurrent: usize,
}

/// Drives the machine over a volume.
pub struct Tiering {
    wish: Wish,
    ear: Arc<Ear>,
    mover: Arc<Mover>,
    stats: Arc<Stats>,
    files: Arc<FileTable>,
    ours: Ours,
    inner: Mutex<Inner>,
    moves: Mutex<thread::Moves>,
    carriers: Condvar,
    state: Arc<dyn State>,
    workers: Workers,
}

/// What one step works on.
struct Inner {
    /// None until the devices' speeds are known.
    machine: Option<Reorganizer>,
    /// The operator wants nothing to be moved.
    paused: bool,
    quiet: Quiet,
    /// Segments on the fast tier that are longer or shorter than the others, and by how much.
    odd: BTreeMap<Location, i64>,
    fast_bytes: u64,
    /// The slow targets, as the room for copies was last told of.
    slow: Vec<SlowTarget>,
    /// Bytes of copies that were given up on slow targets that were short of space, and their free bytes then.
    given_up: BTreeMap<TargetId, (u64, u64)>,
    /// What became of moves since the last step.
    outcomes: Vec<(Action, bool)>,
    recent: VecDeque<Recent>,
    /// Reads and all accesses so far.
    reads: (u64, u64),
    /// What the metrics were told of.
    told: policy::tier::machine::Stats,
    began: Instant,
}

impl Tiering {
    /// Over these parts. Nothing happens before [`Tiering::set_costs`] and [`Tiering::step`].
    pub fn new(
        wish: Wish,
        ear: Arc<Ear>,
        files: Arc<FileTable>,
        mover: Arc<Mover>,
        state: Arc<dyn State>,
        stats: Arc<Stats>,
    ) -> Arc<Tiering> {
        let inner = Inner {
            machine: None,
            paused: false,
            quiet: Quiet::default(),
            odd: BTreeMap::new(),
            fast_bytes: 0,
            slow: Vec::new(),
            given_up: BTreeMap::new(),
            outcomes: Vec::new(),
            recent: VecDeque::new(),
            reads: (0, 0),
            told: Default::default(),
            began: Instant::now(),
        };
        Arc::new(Tiering {
            files,
            ours: Ours::default(),
            inner: Mutex::new(inner),
            moves: Mutex::default(),
            carriers: Condvar::new(),
            workers: Workers::of("tiering"),
            wish,
            ear,
            mover,
            stats,
            state,
        })
    }

    /// Who hears of accesses and places new segments, for [`crate::file::Pool::advisers`].
    pub fn ear(&self) -> &Arc<Ear> {
        &self.ear
    }

    /// The devices are so fast: begins.
    pub fn set_costs(&self, now: Time, costs: Costs) {
        let mut inner = self.inner.lock();
        inner.fast_bytes = self.fast_bytes(0);
        let (segment_bytes, concurrent) = (self.wish.segment_bytes, self.wish.concurrent);
        let config = self.wish.tiering.machine(costs, inner.fast_bytes, segment_bytes, concurrent);
        self.ear.placing().set_costs(&costs, self.wish.tiering.proportional, self.wish.segment_bytes);
        let mut machine = Reorganizer::new(config, now);
        machine.handle(now, Event::Paused(inner.paused));
        inner.machine = Some(machine);
        self.publish(&inner);
    }

    /// Moves nothing more until told otherwise, or goes on; what is under way ends.
    pub fn pause(&self, paused: bool) {
        let mut inner = self.inner.lock();
        inner.paused = paused;
        if let Some(machine) = &mut inner.machine {
            machine.handle(self.ear.now(), Event::Paused(paused));
        }
    }

    /// The share of the fast tier that hot data may take: of all its bytes, and of what is free now beside what `held` of
    /// ours lies there.
    fn fast_bytes(&self, held: u64) -> u64 {
        let space = self.ear.targets().space_on(self.wish.tiering.fast);
        // The last segment's worth stays free: space is seen some time after it was taken.
        percent(space.total_bytes, self.wish.tiering.share_percent)
            .min((held + space.free_bytes).saturating_sub(self.wish.segment_bytes * self.wish.concurrent as u64))
    }

    /// Takes what was heard, looks at the devices, and hands out the moves that are due. When to come again at the latest.
    pub fn step(&self, now: Time) -> Option<Time> {
        let mut inner = self.inner.lock();
        let outcomes = std::mem::take(&mut inner.outcomes);
        let laid_out = self.ear.take_laid_out();
        let heard = self.ear.take();
        // Asked last: what is heard of a file comes before its end.
        let removed = self.ear.take_removed();
        let inner = &mut *inner;
        inner.machine.as_ref()?;
        for new in laid_out {
            let news =
                |machine: &Reorganizer| machine.tier(new.location) == Tier::Slow && !machine.is_moving(new.location);
            if inner.machine.as_ref().is_some_and(news) {
                inner.place(now, new.location, Tier::Fast, new.segment_bytes, self.wish.segment_bytes);
            }
        }
        for access in &heard {
            self.feed(inner, access);
        }
        for (of, done) in outcomes {
            self.ended(inner, now, of, done);
        }
        for file in removed {
            self.mover.forget_copies_of(FileId(file));
            inner.forget(now, file);
        }
        let quiet =
            inner.quiet.look(self.ear.targets(), &heard, &self.ours, [self.wish.tiering.fast, self.wish.tiering.slow]);
        let machine = inner.machine.as_mut()?;
        for (tier, quiet) in [Tier::Fast, Tier::Slow].into_iter().zip(quiet) {
            machine.handle(now, if quiet { Event::Idle(tier) } else { Event::Busy(tier) });
        }
        self.resize(inner, now);
        self.tell_room_for_copies(inner, now);
        let machine = inner.machine.as_mut()?;
        while let Some(of) = machine.poll() {
            let mut moves = self.moves.lock();
            moves.waiting.push_back(thread::Begun { of, yielding: machine.yielding(&of) });
            self.carriers.notify_all();
        }
        let deadline = machine.next_deadline();
        self.count(inner);
        self.publish(inner);
        self.tidy_copies(inner, now);
        deadline
    }

    fn feed(&self, inner: &mut Inner, access: &heard::Access) {
        let Some(machine) = &mut inner.machine else { return };
        let (location, at) = (access.location, access.at);
        if machine.tier(location) != access.tier && !machine.is_moving(location) {
            inner.place(at, location, access.tier, access.segment_bytes, self.wish.segment_bytes);
        }
        let Some(machine) = &mut inner.machine else { return };
        let region = if access.write { Region::Write } else { Region::Read };
        machine.handle(at, Event::Access { location, region, bytes: access.bytes });
        inner.reads.0 += u64::from(!access.write);
        inner.reads.1 += 1;
    }

    /// What became of a move, or of a copy.
    fn ended(&self, inner: &mut Inner, now: Time, action: Action, done: bool) {
        let location = thread::location(&action);
        let found = self.segment(location);
        let copied = found.as_ref().is_some_and(|(_, segment)| self.mover.has_copy(FileId(location.file), segment));
        let length = found.map(|(_, segment)| segment.end - segment.start);
        let Some(machine) = &mut inner.machine else { return };
        let done = done && (copied || matches!(action, Action::Move(_)));
        machine.handle(
            now,
            match action {
                _ if !done => Event::Failed { location },
                Action::Move(_) => Event::Moved { location },
                Action::Copy(_) => Event::Copied { location },
            },
        );
        match (length, action) {
            // The file is gone, or not noted: it is learned anew with its next access.
            (None, _) => inner.forget(now, location.file),
            (Some(_), _) if !done => {}
            (Some(_), Action::Copy(_)) => {}
            (Some(length), Action::Move(of)) => {
                // Written while it moved, or it lies in several mirrors.
                if of.to == Tier::Fast && !copied {
                    machine.handle(now, Event::CopyGone { location });
                }
                inner.hold(location, of.to, length, self.wish.segment_bytes);
            }
        }
        if inner.recent.len() == RECENT_MAX {
            inner.recent.pop_front();
        }
        let at = inner.began.elapsed();
        inner.recent.push_back(Recent { of: action, done, at });
    }

    /// The share that is left, as odd segments and the tier's free space change it.
    fn resize(&self, inner: &mut Inner, now: Time) {
        let Some(machine) = &mut inner.machine else { return };
        let odd: i64 = inner.odd.values().sum();
        let held = (machine.fast_locations() as u64 * self.wish.segment_bytes).saturating_add_signed(odd);
        let fast_bytes = self.fast_bytes(held).saturating_add_signed(-odd);
        if fast_bytes != inner.fast_bytes {
            inner.fast_bytes = fast_bytes;
            machine.handle(now, Event::FastBytes(fast_bytes));
        }
    }

    /// Tells the metrics what is new.
    fn count(&self, inner: &mut Inner) {
        let Some(machine) = &inner.machine else { return };
        let (now, told) = (machine.stats(), inner.told);
        for (metric, now, told) in [
            (Metric::TieringAccesses, now.accesses, told.accesses),
            (Metric::TieringFastAccesses, now.fast_accesses, told.fast_accesses),
            (Metric::TieringPromoted, now.promoted, told.promoted),
            (Metric::TieringDemoted, now.demoted, told.demoted),
            (Metric::TieringFailed, now.failed, told.failed),
            (Metric::TieringCopied, now.copied, told.copied),
            (Metric::TieringCopiesFailed, now.copies_failed, told.copies_failed),
        ] {
            self.stats.add(metric, now - told);
        }
        inner.told = now;
        self.stats.add(Metric::TieringLost, self.ear.take_lost());
    }

    /// What placing new segments goes by.
    fn publish(&self, inner: &Inner) {
        let room = inner.machine.as_ref().map_or(0, Reorganizer::free_locations);
        let (reads, all) = inner.reads;
        self.ear.placing().publish(room, if reads * 2 >= all { Region::Read } else { Region::Write });
    }

    /// A file lies so: what of it is on the fast tier is told to the machine, without an access.
    pub fn found_in_tree(&self, file: &File) {
        let now = self.ear.now();
        let Some(layout) = file.layout().filter(|_| file.follows_tiers()) else { return };
        let mut fast = self.ear.segments(&layout).filter(|(_, tier, _)| *tier == Tier::Fast).peekable();
        if fast.peek().is_none() {
            return;
        }
        let mut inner = self.inner.lock();
        for (location, tier, length) in fast {
            let free = inner.machine.as_ref().is_some_and(|machine| !machine.is_moving(location));
            if free {
                inner.place(now, location, tier, length, self.wish.segment_bytes);
            }
        }
    }

    /// The file of a location, and the segment.
    fn segment(&self, location: Location) -> Option<(Arc<File>, Segment)> {
        let file = self.files.noted(FileId(location.file))?;
        let layout = file.layout()?;
        let (_, segments) = ear::read_from(&layout)?;
        let segment = segments.get(usize::try_from(location.segment).ok()?)?.clone();
        Some((file, segment))
    }

    /// Logs what goes into the machine and comes out of it, for a comparison of drivers.
    pub fn start_log(&self) {
        if let Some(machine) = &mut self.inner.lock().machine {
            machine.start_log();
        }
    }
}

impl Inner {
    /// A file is gone.
    fn forget(&mut self, now: Time, file: u64) {
        if let Some(machine) = &mut self.machine {
            machine.handle(now, Event::Removed { file });
        }
        self.odd.retain(|at, _| at.file != file);
    }

    fn place(&mut self, at: Time, location: Location, tier: Tier, length: u64, segment_bytes: u64) {
        if let Some(machine) = &mut self.machine {
            machine.handle(at, Event::Placed { location, tier });
            self.hold(location, tier, length, segment_bytes);
        }
    }

    fn hold(&mut self, location: Location, tier: Tier, length: u64, segment_bytes: u64) {
        let odd = length as i64 - segment_bytes as i64;
        match tier {
            Tier::Fast if odd != 0 => drop(self.odd.insert(location, odd)),
            _ => drop(self.odd.remove(&location)),
        }
    }
}

/// So many percent of so many bytes.
fn percent(bytes: u64, percent: u32) -> u64 {
    (u128::from(bytes) * u128::from(percent) / 100) as u64
}

/// Between two looks at devices and at what was heard, for a machine that wants them idle so long: a quarter of that, so that idleness is
/// seen a quarter late at most; and often enough that what is heard finds room.
fn look_every(idle: Duration) -> Duration {
    (idle / 4).clamp(Duration::from_millis(10), Duration::from_millis(250))
}

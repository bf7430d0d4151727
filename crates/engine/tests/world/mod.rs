//! A volume in memory whose daemon can die at any I/O and whose machine can lose power.

pub mod cells;
#[path = "../interposed/mod.rs"]
pub mod interposed;
pub mod power;
pub mod tiered;

use engine::durable_names::DurableNames;
use engine::file::{File, MirrorWrites, Pool, Recover};
use engine::mover::{Found, Mover};
use interposed::Interposed;
use meta::state::{SqliteState, State};
use meta::stub::memory::MemoryStub;
use meta::stub::{InUse, Mark, Stub};
use object::target::{InlineSlots, MemoryMedium, State as TargetState, TargetSpec, Targets, TargetsOptions};
use object::{Error, Result};
use parking_lot::Mutex;
use policy::layout::{Layout, Object, ObjectState, Placement, Position, Reason, missing_chunks};
use policy::{FileId, ObjectId, TargetId, Time};
use power::{Power, PoweredStub};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How a world is made.
#[derive(Clone, Debug)]
pub struct Options {
    pub targets: u16,
    pub placement: Placement,
    pub mirror_writes: MirrorWrites,
    pub inline_bytes_max: u64,
}

/// A volume with one file.
pub struct World {
    pub options: Options,
    pub power: Arc<Power>,
    pub media: Vec<MemoryMedium>,
    pub stub: Arc<MemoryStub>,
    pub state: Arc<SqliteState>,
    pub source: Arc<Mutex<Option<Vec<u8>>>>,
    /// Objects of files that a test has besides the world's.
    pub beside: HashSet<ObjectId>,
    /// Targets that the operator failed.
    pub failed: HashSet<TargetId>,
    pub epoch: u32,
    /// How often the machine was started.
    pub boots: u32,
    pub life: Life,
}

/// State that dies with the daemon.
pub struct Life {
    pub pool: Arc<Pool>,
    pub mover: Mover,
    pub names: DurableNames,
    pub file: Arc<File>,
}

/// A small generator (splitmix64): the same numbers for the same seed on every machine.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

impl World {
    pub fn new(options: Options, seed: u64) -> World {
        let power = Arc::new(Power::default());
        let media: Vec<_> =
            (0..u64::from(options.targets)).map(|i| MemoryMedium::new(seed.wrapping_mul(31) + i)).collect();
        let stub = Arc::new(MemoryStub::new());
        let state = Arc::new(SqliteState::in_memory().expect("a state store in memory"));
        let source = Arc::new(Mutex::new(None));
        let failed = HashSet::new();
        let life = Life::begin(&options, &power, &media, &stub, &state, &source, &failed, 1, 1).expect("a new world");
        let beside = HashSet::new();
        World { options, power, media, stub, state, source, beside, failed, epoch: 1, boots: 1, life }
    }

    /// The daemon dies: what is in memory is gone, what was written stays.
    pub fn kill(&mut self) {
        self.power.cut();
        self.restart();
    }

    /// The daemon dies, and with it the power if it is lost.
    pub fn die(&mut self, power_lost: bool) {
        if power_lost { self.crash(&mut Random(3)) } else { self.kill() }
    }

    /// The machine loses power: what was not synced may be gone.
    pub fn crash(&mut self, random: &mut Random) {
        self.power.cut();
        let keep = random.below(self.stub.unsynced() as u64 + 1) as usize;
        self.stub.crash(keep);
        self.media.iter().for_each(MemoryMedium::crash);
        self.boots += 1;
        self.restart();
    }

    fn restart(&mut self) {
        self.epoch += 1;
        // A new life that fails nothing, to be replaced below: the old one must end while the power is off.
        let media: Vec<_> = (0..self.options.targets).map(|_| MemoryMedium::new(0)).collect();
        let idle = Arc::new(Power::default());
        let none = HashSet::new();
        let stub = Arc::new(MemoryStub::new());
        let nothing = Arc::new(SqliteState::in_memory().expect("a state store in memory"));
        let blank = Life::begin(&self.options, &idle, &media, &stub, &nothing, &self.source, &none, self.epoch, 1);
        self.life = blank.expect("a blank life");
        self.media.iter().for_each(|m| m.set_faults(Default::default()));
        self.power.restore();
        let life = Life::begin(
            &self.options,
            &self.power,
            &self.media,
            &self.stub,
            &self.state,
            &self.source,
            &self.failed,
            self.epoch,
            self.boots,
        );
        self.life = life.expect("opening after a crash");
        let layout = self.stub.layout().expect("the stub is well");
        if let Some(layout) = &layout {
            layout.check().expect("a layout after a crash");
        }
        let found = layout.clone().map_or(Found::Unseen, |l| Found::Layout(Box::new(l)));
        self.life.mover.journal_copies_of_last_run().expect("records of copies");
        self.life.mover.recover_journal(|_| Ok(found.clone())).expect("journal");
        if self.stub.is_marked() {
            match self.life.file.settle_after_crash() {
                Ok(true) => {
                    // One whose layout went with the power has no number to be marked by.
                    let mark = self.life.file.id().map(|file| InUse { file, node: None });
                    mark.into_iter().for_each(|mark| self.stub.mark_in_use(mark, Mark::None).expect("in memory"));
                }
                Ok(false) | Err(Error::Target { .. }) => {}
                Err(e) => panic!("settling after a crash: {e}"),
            }
        }
        self.restore_rolled_back().ok();
        self.sweep(self.epoch).expect("sweep");
    }

    /// Removes the objects of epochs before `epoch` that the file does not name.
    pub fn sweep(&self, epoch: u32) -> Result<usize> {
        let (named, kept) = (self.named(), self.life.pool.slow_copies.objects());
        let mut orphans = Vec::new();
        for target in self.life.pool.targets.all() {
            let Ok(there) = target.run(|medium| medium.list()) else { continue };
            let orphan = |o: &ObjectId| o.0 >> 32 < u64::from(epoch) && !named.contains(o) && !kept.contains(o);
            orphans.extend(there.into_iter().filter(orphan).map(|o| (target.id(), o)));
        }
        self.life.mover.sweep(&orphans)
    }

    /// The daemon's work for every file after a crash of the machine.
    pub fn restore_rolled_back(&self) -> Result<()> {
        let names = &self.life.names;
        self.life.file.restore_rolled_back(|target, object| names.is_rolled_back(target, object))?;
        names.made()
    }

    /// Objects that the layout names.
    pub fn named(&self) -> HashSet<ObjectId> {
        let layout = self.life.file.layout();
        let own = layout.iter().flat_map(|l| l.objects().map(|(_, o)| o.id).collect::<Vec<_>>());
        own.chain(self.beside.iter().copied()).collect()
    }

    /// Objects that neither the layout nor the garbage nor the journal names.
    pub fn orphans(&self) -> Vec<(usize, ObjectId)> {
        let named = self.named();
        let journal: HashSet<ObjectId> =
            self.state.journal().expect("journal").iter().flat_map(|e| e.objects.clone()).map(|(_, o)| o).collect();
        let mut orphans = Vec::new();
        for (i, medium) in self.media.iter().enumerate() {
            use object::target::Medium;
            let target = self.life.pool.targets.get(TargetId(i as u16)).expect("it was added");
            if target.state() == TargetState::Failed {
                continue; // nobody could have looked there
            }
            let garbage = self.state.garbage_of(TargetId(i as u16), 10_000).expect("garbage");
            let there = medium.list().unwrap_or_default();
            let lost = |o: &ObjectId| !named.contains(o) && !journal.contains(o) && !garbage.contains(o);
            orphans.extend(there.into_iter().filter(lost).map(|o| (i, o)));
        }
        orphans
    }
}

impl Life {
    #[allow(clippy::too_many_arguments)] // the parts of a world, before there is one
    fn begin(
        options: &Options,
        power: &Arc<Power>,
        media: &[MemoryMedium],
        stub: &Arc<MemoryStub>,
        state: &Arc<SqliteState>,
        source: &Arc<Mutex<Option<Vec<u8>>>>,
        failed: &HashSet<TargetId>,
        epoch: u32,
        boots: u32,
    ) -> Result<Life> {
        let slots = Arc::new(InlineSlots::new(8));
        let targets = Targets::new(TargetsOptions { slots, ..TargetsOptions::inline() });
        for (i, medium) in media.iter().enumerate() {
            let id = TargetId(i as u16);
            // A world whose files ask for a tier has two: the first half of its targets is the fast one.
            let tier = u8::from(options.placement.tier.is_some() && i >= media.len() / 2);
            let mut spec =
                TargetSpec::new(id, tier, Arc::new(Interposed::new(Arc::new(medium.clone()), power.clone())));
            if failed.contains(&id) {
                (spec.state, spec.failed_by_operator) = (TargetState::Failed, true);
            }
            targets.add(spec);
        }
        let next = AtomicU64::new(u64::from(epoch) << 32);
        let pool = Arc::new(Pool {
            mirror_writes: options.mirror_writes,
            inline_bytes_max: options.inline_bytes_max,
            clock: Box::new(|| Time(1_000_000_000)),
            garbage: Some(state.clone()),
            ..Pool::new(targets, move || next.fetch_add(1, Ordering::Relaxed) + 1, options.placement.clone())
        });
        let recovery = MemoryRecovery { pool: Arc::downgrade(&pool), source: source.clone() };
        pool.recovery.set(Arc::new(recovery)).ok().expect("set once");
        let stub = Arc::new(PoweredStub::new(stub.clone(), power.clone()));
        let file = File::open(stub, pool.clone())?;
        let mover = Mover::new(pool.clone(), state.clone(), None);
        let names = DurableNames::open(state.clone(), pool.clone(), &format!("boot {boots}"))?;
        Ok(Life { pool, mover, names, file })
    }
}

/// Recovers whole objects from bytes in memory, on the thread of the reader.
struct MemoryRecovery {
    pool: std::sync::Weak<Pool>,
    source: Arc<Mutex<Option<Vec<u8>>>>,
}

impl Recover for MemoryRecovery {
    fn recover(&self, file: &Arc<File>, at: Position, _rows: Range<u64>) -> Result<()> {
        let pool = self.pool.upgrade().expect("files live shorter than pools");
        let source = self.source.lock().clone().ok_or_else(|| Error::Unrecoverable("the source is gone".into()))?;
        let lost = |l: &Layout| l.object(at).copied().ok_or_else(|| Error::Busy("gone".into()));
        let old = file.layout().ok_or_else(|| Error::Busy("no layout".into()))?;
        let object = lost(&old)?;
        let is_lost = object.state == ObjectState::Partial
            || pool.targets.get(object.target).is_none_or(|t| t.state() == TargetState::Failed)
            || file.with_object(at, object.id, |h| h.len()).is_err();
        if !is_lost {
            return Ok(());
        }
        let spare = pool.targets.views().into_iter().find(|v| v.usable && v.id != object.target);
        let target = spare.ok_or(Error::NoTarget)?.id;
        let id = pool.next_object();
        let error = |error| Error::Target { target, error };
        pool.targets.get(target).ok_or(Error::NoTarget)?.run(move |m| m.create(id)).map_err(error)?;
        let partial = Object { state: ObjectState::Partial, ..Object::whole(id, target) };
        let changed = file.change_layout(|l, now| {
            if lost(l)? != object {
                return Err(Error::Busy("changed".into()));
            }
            l.replace_object(at, partial, now, Reason::RecoveryStarted(object.target)).map_err(Error::Invalid)
        })?;
        let segment = &changed.mirrors[at.mirror].segments[at.segment];
        for chunk in missing_chunks(segment, at.index, source.len() as u64) {
            let from = chunk.file_offset as usize;
            let bytes = source[from..from + chunk.len as usize].to_vec();
            file.with_object(at, id, move |h| h.write_at(chunk.object_offset, &bytes))?;
        }
        file.with_object(at, id, |h| h.sync())?;
        pool.targets.get(target).ok_or(Error::NoTarget)?.run(|m| m.sync_names()).map_err(error)?;
        file.change_layout(|l, now| l.complete_object(at, now, Reason::Recovered).map_err(Error::Invalid))?;
        let garbage = [(object.target, object.id)];
        let _ = self.pool.upgrade().and_then(|p| Some(p.garbage.as_ref()?.garbage_add(&garbage)));
        Ok(())
    }

    fn is_patched(&self, _file: FileId, _object: ObjectId, _row: u64) -> bool {
        false
    }
}

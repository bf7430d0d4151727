//! The live cache with a manual clock, over a target in memory whose reads end on command.

use engine::cache::BlockCache;
use engine::file::{File, Pool};
use meta::stub::memory::MemoryStub;
use object::target::{
    Execution, Handle, InlineSlots, Limits, Medium, MemoryMedium, Space, TargetSpec, Targets, TargetsOptions,
};
use policy::cache::{Event, Fetch, LevelConfig, Logged};
use policy::layout::Placement;
use policy::{ObjectId, TargetId, Time};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::collections::HashMap;
use std::io::IoSliceMut;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// Longer than any read waits here, unless the two worlds differ.
const PATIENCE: Duration = Duration::from_secs(20);

/// Reads that may end: by object, offset, and whether the cache keeps the bytes.
type Tickets = Mutex<HashMap<(u64, u64, bool), u32>>;

#[derive(Default)]
struct Gate {
    tickets: Tickets,
    changed: Condvar,
    /// All reads pass at once.
    off: std::sync::atomic::AtomicBool,
}

impl Gate {
    fn pass(&self, object: u64, offset: u64, kept: bool) -> Result<(), Errno> {
        let until = Instant::now() + PATIENCE;
        let mut tickets = self.tickets.lock().unwrap();
        loop {
            if self.off.load(Ordering::Acquire) {
                return Ok(());
            }
            if let Some(count) = tickets.get_mut(&(object, offset, kept)).filter(|count| **count > 0) {
                *count -= 1;
                return Ok(());
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Errno::TIMEDOUT);
            }
            tickets = self.changed.wait_timeout(tickets, left).unwrap().0;
        }
    }
}

struct Gated(MemoryMedium, Arc<Gate>);
struct GatedHandle(Arc<dyn Handle>, Arc<Gate>, u64);

impl Medium for Gated {
    fn create(&self, id: ObjectId) -> Result<Arc<dyn Handle>, Errno> {
        Ok(Arc::new(GatedHandle(self.0.create(id)?, self.1.clone(), id.0)))
    }
    fn open(&self, id: ObjectId) -> Result<Arc<dyn Handle>, Errno> {
        Ok(Arc::new(GatedHandle(self.0.open(id)?, self.1.clone(), id.0)))
    }
    fn remove(&self, id: ObjectId) -> Result<(), Errno> {
        self.0.remove(id)
    }
    fn sync_names(&self) -> Result<(), Errno> {
        self.0.sync_names()
    }
    fn list(&self) -> Result<Vec<ObjectId>, Errno> {
        self.0.list()
    }
    fn probe(&self) -> Result<(), Errno> {
        self.0.probe()
    }
    fn space(&self) -> Result<Space, Errno> {
        self.0.space()
    }
}

impl Handle for GatedHandle {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, Errno> {
        self.1.pass(self.2, offset, false)?;
        self.0.read_at(offset, buf)
    }
    fn read_vectored_at(&self, offset: u64, bufs: &mut [IoSliceMut<'_>], demand: usize) -> Result<usize, Errno> {
        self.1.pass(self.2, offset, true)?;
        self.0.read_vectored_at(offset, bufs, demand)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), Errno> {
        self.0.write_at(offset, data)
    }
    fn set_len(&self, len: u64) -> Result<(), Errno> {
        self.0.set_len(len)
    }
    fn punch(&self, offset: u64, len: u64) -> Result<(), Errno> {
        self.0.punch(offset, len)
    }
    fn allocate(&self, offset: u64, len: u64) -> Result<(), Errno> {
        self.0.allocate(offset, len)
    }
    fn reserve(&self, offset: u64, len: u64) -> Result<(), Errno> {
        self.0.reserve(offset, len)
    }
    fn seek_data(&self, offset: u64) -> Result<u64, Errno> {
        self.0.seek_data(offset)
    }
    fn seek_hole(&self, offset: u64) -> Result<u64, Errno> {
        self.0.seek_hole(offset)
    }
    fn len(&self) -> Result<u64, Errno> {
        self.0.len()
    }
    fn allocated(&self) -> Result<u64, Errno> {
        self.0.allocated()
    }
    fn sync(&self) -> Result<(), Errno> {
        self.0.sync()
    }
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// Files behind a live cache.
pub struct Stage {
    pub cache: Arc<BlockCache>,
    pub files: Vec<Arc<File>>,
    contents: Vec<Vec<u8>>,
    clock: Arc<AtomicU64>,
    gate: Arc<Gate>,
}

impl Stage {
    pub fn new(level: &LevelConfig, files: u32, file_blocks: u64) -> Stage {
        let gate = Arc::<Gate>::default();
        let limits = Limits { deadline: PATIENCE * 2, workers_max: 128, ..Limits::default() };
        let slots = Arc::new(InlineSlots::new(0));
        let health = Default::default();
        let targets = Targets::new(TargetsOptions { execution: Execution::Threads, limits, health, slots });
        targets.add(TargetSpec::new(TargetId(0), 0, Arc::new(Gated(MemoryMedium::new(1), gate.clone()))));
        let clock = Arc::new(AtomicU64::new(0));
        let shown = clock.clone();
        let now = Box::new(move || Time(shown.load(Ordering::Acquire)));
        let cache = BlockCache::with_clock(level.clone(), PATIENCE * 2, now).unwrap();
        let next = AtomicU64::new(1 << 32);
        let stripe = 1 << 20;
        let pool = Arc::new(Pool::new(
            targets,
            move || next.fetch_add(1, Ordering::Relaxed),
            Placement {
                stripe_size: stripe,
                stripe_count: 1,
                single_bytes_max: 0,
                segment_bytes: 0,
                mirrors: 1,
                tier: None,
            },
        ));
        pool.cache.set(cache.clone()).ok().unwrap();
        let content = |file: u32| (0..file_blocks * 4096).map(|i| (i / 61) as u8 ^ file as u8).collect::<Vec<u8>>();
        let contents: Vec<Vec<u8>> = (0..files).map(content).collect();
        let laid_out = |content: &Vec<u8>| {
            let file = File::open(Arc::new(MemoryStub::new()), pool.clone()).unwrap();
            file.write(0, content).unwrap();
            file
        };
        Stage { files: contents.iter().map(laid_out).collect(), cache, contents, clock, gate }
    }

    /// The clock of the cache shows `now`.
    pub fn set_time(&self, now: Time) {
        self.clock.store(now.0, Ordering::Release);
    }

    /// Content of a range of a file.
    pub fn content(&self, file: u32, offset: u64, len: usize) -> Vec<u8> {
        self.contents[file as usize][offset as usize..offset as usize + len].to_vec()
    }

    /// Lets the read of a fetch end, and waits until the cache has recorded that.
    pub fn end(&self, fetch: &Fetch) {
        let file = &self.files[fetch.span.first.file() as usize];
        let object = file.layout().unwrap().objects().next().unwrap().1.id.0;
        let done = |log: &[Logged]| {
            let of = |logged: &&Logged| matches!(logged, Logged::Event(_, Event::FetchDone(id)) if *id == fetch.id);
            log.iter().filter(of).count()
        };
        let before = done(&self.cache.log());
        *self.gate.tickets.lock().unwrap().entry((object, fetch.span.first.index() * 4096, fetch.keep)).or_default() +=
            1;
        self.gate.changed.notify_all();
        let until = Instant::now() + PATIENCE;
        while done(&self.cache.log()) == before {
            if Instant::now() > until {
                self.gate.off.store(true, Ordering::Release);
                self.gate.changed.notify_all();
                panic!("the live cache has no {fetch:?}");
            }
            std::thread::yield_now();
        }
    }
}

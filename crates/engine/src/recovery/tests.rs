//! Recovery of files in memory, with real threads: readers, workers, sources that fail.

use super::*;
use crate::source::memory::{Memory, Remote, data};
use crate::source::{Identity, Place, Record, SourceError};
use crate::stage::sums::{name_of, sum_of};
use meta::state::{SqliteState, State as _};
use meta::stub::memory::MemoryStub;
use object::target::{Medium, MemoryMedium, Order, State, TargetSpec, Targets, TargetsOptions};
use policy::layout::{ObjectState, Placement, Reason};
use policy::{TargetId, Time};
use std::sync::atomic::{AtomicU64, Ordering};

const STRIPE: u64 = 4096;
const TARGETS: u16 = 6;

struct World {
    pool: Arc<Pool>,
    targets: Arc<Targets>,
    media: Vec<MemoryMedium>,
    memory: Arc<Memory>,
    repair: Arc<Repair>,
    state: Arc<SqliteState>,
    stats: Arc<Stats>,
    side: tempfile::TempDir,
}

impl World {
    fn new() -> World {
        let targets = Targets::new(TargetsOptions::inline());
        let media: Vec<_> = (0..TARGETS).map(|k| MemoryMedium::new(u64::from(k))).collect();
        for (k, medium) in media.iter().enumerate() {
            targets.add(TargetSpec {
                id: TargetId(k as u16),
                name: format!("t{k}"),
                tier: 0,
                medium: Arc::new(medium.clone()),
                state: State::Ok,
                failed_by_operator: false,
            });
        }
        let state = Arc::new(SqliteState::in_memory().expect("a state store in memory"));
        let (memory, stats) = (Arc::new(Memory::default()), Arc::new(Stats::new()));
        let counter = AtomicU64::new(1);
        let pool = Arc::new(Pool {
            clock: Box::new(|| Time::ZERO),
            garbage: Some(state.clone()),
            ..Pool::new(targets.clone(), move || counter.fetch_add(1, Ordering::Relaxed), placement())
        });
        let side = tempfile::tempdir().expect("dir");
        let repair = start(&pool, &memory, &side, &stats);
        assert!(pool.recovery.set(repair.clone()).is_ok());
        World { pool, targets, media, memory, repair, state, stats, side }
    }

    /// Objects recorded as garbage.
    fn garbage(&self) -> Vec<ObjectId> {
        (0..TARGETS).flat_map(|k| self.state.garbage_of(TargetId(k), usize::MAX >> 1).expect("state")).collect()
    }

    /// A file of `len` bytes over four targets that was staged in from `uris`.
    fn staged(&self, len: usize, uris: &[&str]) -> (Arc<File>, Vec<u8>, Vec<Arc<Remote>>) {
        self.staged_on(&Arc::new(MemoryStub::new()), len, uris)
    }

    fn staged_on(&self, stub: &Arc<MemoryStub>, len: usize, uris: &[&str]) -> (Arc<File>, Vec<u8>, Vec<Arc<Remote>>) {
        let bytes = data(len, 7);
        let remotes: Vec<_> = uris.iter().map(|uri| self.memory.add(uri, &bytes)).collect();
        let file = File::open(stub.clone(), self.pool.clone()).expect("opens");
        let layout = file.lay_out(len as u64, &placement(), Reason::StagedIn).expect("laid out");
        file.write(0, &bytes).expect("written");
        let sums: Vec<u8> = bytes.chunks(STRIPE as usize).flat_map(sum_of).collect();
        std::fs::write(self.side.path().join(name_of(layout.file)), sums).expect("sums");
        let place = |(uri, remote): (&&str, &Arc<Remote>)| Place {
            uri: uri.to_string(),
            version: crate::source::Source::stat(remote).expect("stat"),
            ranges: true,
        };
        let places = uris.iter().zip(&remotes).map(place).collect();
        let record = Record::new(places, STRIPE, &Identity::default());
        file.set_source(Some(&record.to_text())).expect("record");
        (file, bytes, remotes)
    }

    /// Fails the target of object `index`; returns the object's position and number.
    fn lose(&self, file: &File, index: usize) -> (Position, ObjectId) {
        let layout = file.layout().expect("laid out");
        let at = Position { mirror: 0, segment: layout.mirrors[0].segments.len() - 1, index };
        let object = *layout.object(at).expect("there");
        self.media[usize::from(object.target.0)].set_gone(true);
        self.targets.operate(object.target, Order::Fail).expect("failed");
        (at, object.id)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.repair.stop();
    }
}

fn placement() -> Placement {
    Placement { stripe_size: STRIPE, stripe_count: 4, single_bytes_max: 0, segment_bytes: 0, mirrors: 1, tier: None }
}

fn start(pool: &Arc<Pool>, memory: &Arc<Memory>, side: &tempfile::TempDir, stats: &Arc<Stats>) -> Arc<Repair> {
    let config = recovery::Config {
        retry_first: Time::from_millis(1),
        retry_max: Time::from_millis(2),
        broken_for: Time::ZERO,
        ..Default::default()
    };
    let side = std::fs::File::open(side.path()).expect("side").into();
    Repair::start(config, pool.clone(), memory.clone(), side, stats.clone())
}

fn read_all(file: &Arc<File>) -> Result<Vec<u8>> {
    let mut bytes = vec![0; file.size() as usize];
    let read = file.read(0, &mut bytes)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Waits until no object of the layout is partial.
fn settle(world: &World, file: &Arc<File>) {
    for (at, _) in file.layout().expect("laid out").objects() {
        let partial = |f: &File| f.layout().expect("l").object(at).expect("o").state == ObjectState::Partial;
        if partial(file) {
            world.repair.repair(file, at).expect("repaired");
        }
        assert!(!partial(file));
    }
}

/// [S-041] [S-043]
#[test]
fn many_readers_cause_one_reconstruction_of_only_the_lost_bytes() {
    let world = World::new();
    let (file, bytes, remotes) = world.staged(40 * STRIPE as usize + 77, &["mem://a"]);
    let (at, lost) = world.lose(&file, 1);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert!(read_all(&file).expect("read") == bytes));
        }
    });
    settle(&world, &file);
    world.repair.stop(); // the work after the complete layout is done then
    let counts = world.repair.counts();
    assert_eq!((counts.started, counts.completed, counts.failed), (1, 1, 0));
    let layout = file.layout().expect("laid out");
    assert_eq!(layout.object(at).expect("there").state, ObjectState::Complete);
    assert_ne!(layout.object(at).expect("there").id, lost);
    let fetched: Vec<u64> = remotes[0].reads().iter().map(|(offset, _)| offset / STRIPE).collect();
    assert!(fetched.iter().all(|stripe| stripe % 4 == 1), "only the lost object's: {fetched:?}");
    assert_eq!(fetched.len(), 10, "each once");
    assert!(world.garbage().contains(&lost), "the old object is garbage");
    assert!(read_all(&file).expect("read again") == bytes);
    assert!(world.pool.events.news(9).iter().any(|e| e.what.starts_with("recovered")));
}

/// [S-042]
#[test]
fn healthy_stripes_are_never_delayed_and_asked_for_ones_come_first() {
    let world = World::new();
    let (file, bytes, remotes) = world.staged(400 * STRIPE as usize, &["mem://a"]);
    let (at, _) = world.lose(&file, 2);
    remotes[0].close_gate(0);
    let mut buf = vec![0; STRIPE as usize];
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut late = vec![0; STRIPE as usize];
            file.read(398 * STRIPE, &mut late).expect("late stripe");
            assert!(late[..] == bytes[398 * STRIPE as usize..399 * STRIPE as usize]);
        });
        // The source hangs, yet stripes on the other targets are read at once.
        for stripe in (0..400).filter(|s| s % 4 != 2) {
            file.read(stripe * STRIPE, &mut buf).expect("healthy");
            assert!(buf[..] == bytes[(stripe * STRIPE) as usize..((stripe + 1) * STRIPE) as usize]);
        }
        while !remotes[0].reads().iter().any(|(offset, _)| *offset == 398 * STRIPE) {
            std::thread::yield_now(); // the late stripe is requested while the gate is still closed
        }
        remotes[0].open_gate();
        reader.join().expect("reader");
    });
    settle(&world, &file);
    let order: Vec<u64> = remotes[0].reads().iter().map(|(offset, _)| offset / STRIPE).collect();
    let place = order.iter().position(|s| *s == 398).expect("fetched");
    assert!(place < 12, "asked for, so among the first that were in flight, not the last: {place}");
    assert_eq!(file.layout().expect("l").object(at).expect("o").state, ObjectState::Complete);
}

/// [S-042]
#[test]
fn no_reader_sees_a_byte_before_it_is_patched() {
    let world = World::new();
    let (file, bytes, remotes) = world.staged(64 * STRIPE as usize, &["mem://a"]);
    world.lose(&file, 0);
    remotes[0].close_gate(3);
    std::thread::scope(|scope| {
        for k in 0..16u64 {
            let (file, bytes) = (&file, &bytes);
            scope.spawn(move || {
                let mut buf = vec![0; STRIPE as usize];
                file.read(4 * k * STRIPE, &mut buf).expect("read");
                assert!(buf[..] == bytes[(4 * k * STRIPE) as usize..][..STRIPE as usize], "stripe {k}");
            });
        }
        remotes[0].open_gate();
    });
}

#[test]
fn when_a_source_fails_the_next_is_asked() {
    let world = World::new();
    let (file, bytes, remotes) = world.staged(40 * STRIPE as usize, &["mem://a", "mem://b"]);
    world.lose(&file, 3);
    remotes[0].fail(Some(SourceError::Passing("down".into())));
    assert!(read_all(&file).expect("read") == bytes);
    assert!(!remotes[1].reads().is_empty());
    assert!(remotes[0].reads().len() > 1, "it was tried again first");
}

/// [S-044]
#[test]
fn a_changed_source_is_refused_and_nothing_is_lost() {
    let world = World::new();
    let (file, bytes, remotes) = world.staged(40 * STRIPE as usize, &["mem://a"]);
    let (_, lost) = world.lose(&file, 1);
    remotes[0].put(data(bytes.len(), 8));
    let error = read_all(&file).expect_err("refused").to_string();
    assert!(error.contains("changed"), "{error}");
    let mut healthy = vec![0; STRIPE as usize];
    file.read(0, &mut healthy).expect("the other stripes are there");
    assert!(healthy[..] == bytes[..STRIPE as usize]);
    assert!(!world.garbage().contains(&lost), "the lost object is kept");
}

/// [S-041]
#[test]
fn bytes_that_do_not_match_are_refused_and_another_source_has_them() {
    let world = World::new();
    let (file, bytes, remotes) = world.staged(40 * STRIPE as usize, &["mem://a", "mem://b"]);
    world.lose(&file, 1);
    remotes[0].rot(5 * STRIPE as usize + 3);
    assert!(read_all(&file).expect("the second source has it") == bytes);
    let world = World::new();
    let (file, bytes, remotes) = world.staged(40 * STRIPE as usize, &["mem://a"]);
    world.lose(&file, 1);
    remotes[0].rot(5 * STRIPE as usize + 3);
    let mut buf = vec![0; STRIPE as usize];
    let error = file.read(5 * STRIPE, &mut buf).expect_err("refused").to_string();
    assert!(error.contains("checksum"), "{error}");
    file.read(9 * STRIPE, &mut buf).expect("the other stripes of the object come");
    assert!(buf[..] == bytes[9 * STRIPE as usize..10 * STRIPE as usize]);
}

#[test]
fn a_source_without_ranges_is_read_once() {
    let world = World::new();
    let (file, bytes, remotes) = world.staged(100 * STRIPE as usize + 5, &["mem://a"]);
    world.lose(&file, 0);
    remotes[0].without_ranges();
    assert!(read_all(&file).expect("read") == bytes);
    settle(&world, &file);
    assert_eq!(remotes[0].reads().len(), 1, "one pass for all stripes");
}

/// [S-045]
#[test]
fn a_modified_file_is_never_recovered() {
    let world = World::new();
    let (file, _, remotes) = world.staged(40 * STRIPE as usize, &["mem://a"]);
    file.write(0, b"other").expect("write");
    let (at, _) = world.lose(&file, 1);
    assert!(read_all(&file).is_err());
    assert!(world.repair.repair(&file, at).is_err());
    assert!(remotes[0].reads().is_empty());
}

/// [S-045]
#[test]
fn an_object_that_is_written_while_its_spare_is_made_stays() {
    let (world, stub) = (World::new(), Arc::new(MemoryStub::new()));
    let (staged, mut bytes, _) = world.staged_on(&stub, 40 * STRIPE as usize, &["mem://a"]);
    drop(staged);
    // The number of the spare is drawn after the look at the source's record.
    let at_spare = Arc::new(parking_lot::Mutex::new(None::<Box<dyn FnOnce() + Send>>));
    let (due, counter) = (at_spare.clone(), AtomicU64::new(1 << 32));
    let next_id = move || {
        let act = due.lock().take();
        if let Some(act) = act {
            act();
        }
        counter.fetch_add(1, Ordering::Relaxed)
    };
    let pool = Arc::new(Pool::new(world.targets.clone(), next_id, placement()));
    let repair = start(&pool, &world.memory, &world.side, &world.stats);
    assert!(pool.recovery.set(repair.clone()).is_ok());
    let file = File::open(stub, pool).expect("opens");
    let writer = file.clone();
    *at_spare.lock() = Some(Box::new(move || writer.write(0, b"written").expect("the target is well")));
    assert!(repair.replace(&file, Position { mirror: 0, segment: 0, index: 0 }).is_err());
    bytes[..7].copy_from_slice(b"written");
    assert!(read_all(&file).expect("read") == bytes);
    repair.stop();
}

#[test]
fn a_write_to_a_file_with_a_loss_recovers_it_first() {
    let world = World::new();
    let (file, mut bytes, _) = world.staged(40 * STRIPE as usize, &["mem://a"]);
    world.lose(&file, 1);
    file.write(STRIPE + 5, b"written").expect("write");
    bytes[STRIPE as usize + 5..][..7].copy_from_slice(b"written");
    assert!(read_all(&file).expect("read") == bytes);
}

#[test]
fn a_recovery_that_was_cut_off_begins_again() {
    let world = World::new();
    let (file, bytes, remotes) = world.staged(40 * STRIPE as usize, &["mem://a"]);
    let (at, lost) = world.lose(&file, 1);
    remotes[0].fail_after(3);
    assert!(read_all(&file).is_err());
    let half = *file.layout().expect("l").object(at).expect("o");
    assert_eq!(half.state, ObjectState::Partial);
    assert_ne!(half.id, lost);
    // This daemon has no knowledge of the patched rows.
    world.repair.stop();
    let stub = file.stub().clone();
    drop(file);
    let counter = AtomicU64::new(1 << 32);
    let pool = Arc::new(Pool {
        clock: Box::new(|| Time::ZERO),
        garbage: Some(world.state.clone()),
        ..Pool::new(world.targets.clone(), move || counter.fetch_add(1, Ordering::Relaxed), placement())
    });
    let repair = start(&pool, &world.memory, &world.side, &world.stats);
    assert!(pool.recovery.set(repair.clone()).is_ok());
    let file = File::open(stub, pool).expect("opens");
    remotes[0].fail_after(usize::MAX);
    assert!(read_all(&file).expect("read") == bytes);
    repair.repair(&file, at).expect("complete");
    let whole = *file.layout().expect("l").object(at).expect("o");
    assert_eq!(whole.state, ObjectState::Complete);
    repair.stop();
}

#[test]
fn repair_with_nobody_waiting_and_again() {
    let world = World::new();
    let (file, bytes, remotes) = world.staged(40 * STRIPE as usize, &["mem://a"]);
    let (at, _) = world.lose(&file, 2);
    world.repair.repair(&file, at).expect("repaired");
    assert!(read_all(&file).expect("read") == bytes);
    assert_eq!(remotes[0].reads().len(), 10);
    assert_eq!(world.repair.counts().keys, 0, "nothing is kept of it");
}

#[test]
fn a_spare_that_fails_is_replaced_by_another() {
    let world = World::new();
    let (file, bytes, _) = world.staged(40 * STRIPE as usize, &["mem://a"]);
    world.lose(&file, 2);
    assert!(read_all(&file).expect("read") == bytes);
    settle(&world, &file);
    world.lose(&file, 2);
    assert!(read_all(&file).expect("read") == bytes);
}

/// The recovery is dropped while a worker has yet to remove its spare.
#[test]
fn a_spare_that_came_into_no_layout_is_removed() {
    let (world, stub) = (World::new(), Arc::new(MemoryStub::new()));
    let (file, bytes, _) = world.staged_on(&stub, 8 * STRIPE as usize, &["mem://a"]);
    world.lose(&file, 1);
    let objects = || world.media.iter().map(|medium| medium.list().map_or(0, |ids| ids.len())).sum::<usize>();
    let before = objects();
    for _ in 0..100 {
        // The record of the source is read first.
        stub.fail_from(Some(2));
        assert!(read_all(&file).is_err(), "the layout cannot be written");
    }
    assert!(world.stats.get(Metric::RecoveryStripesLost) >= 200, "each time there was a spare");
    let began = Instant::now();
    while objects() > before {
        assert!(began.elapsed() < Duration::from_secs(30), "{} objects are nobody's", objects() - before);
        std::thread::yield_now();
    }
    stub.fail_from(None);
    assert!(read_all(&file).expect("read") == bytes);
}

/// [S-045]
#[test]
fn an_emptied_file_is_not_written_into_an_object_under_recovery() {
    let world = World::new();
    let (file, _, remotes) = world.staged(40 * STRIPE as usize, &["mem://a"]);
    world.lose(&file, 1);
    remotes[0].close_gate(0);
    let operate = |order: Order| (0..TARGETS).for_each(|k| drop(world.targets.operate(TargetId(k), order)));
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| read_all(&file));
        while remotes[0].reads().is_empty() {
            std::thread::yield_now(); // the layout names the spare before the first fetch
        }
        operate(Order::Drain);
        file.truncate(0).expect("no target takes new objects, and none is needed");
        assert!(file.layout().expect("l").objects().any(|(_, o)| o.state == ObjectState::Partial));
        assert!(file.write(STRIPE, b"new").is_err(), "the fetches would overwrite it");
        operate(Order::Restore);
        file.write(STRIPE, b"new").expect("there is room for new objects");
        remotes[0].open_gate();
        drop(reader.join().expect("reader"));
    });
    world.repair.stop();
    let mut there = [0; 3];
    file.read(STRIPE, &mut there).expect("read");
    assert_eq!(&there, b"new");
}

/// [S-045]
#[test]
fn a_write_beside_a_failed_recovery_of_another_mirror_ends() {
    let world = World::new();
    let (file, mut bytes, remotes) = world.staged(40 * STRIPE as usize, &["mem://a"]);
    let mover = crate::mover::Mover::new(world.pool.clone(), world.state.clone(), None);
    mover.add_mirror(&file, &Placement { stripe_count: 2, ..placement() }).expect("a whole mirror");
    remotes[0].fail(Some(SourceError::Permanent("gone".into())));
    let at = Position { mirror: 0, segment: 0, index: 1 };
    assert!(world.repair.replace(&file, at).is_err());
    assert_eq!(file.layout().expect("l").object(at).expect("o").state, ObjectState::Partial);
    assert!(file.write(0, b"written").is_err(), "the source does not answer");
    remotes[0].fail(None);
    // The recovery that failed may not have ended yet.
    let is_written = || {
        std::thread::sleep(Duration::from_millis(1));
        file.write(0, b"written").is_ok()
    };
    assert!((0..10_000).any(|_| is_written()), "recovered first");
    bytes[..7].copy_from_slice(b"written");
    assert!(read_all(&file).expect("read") == bytes);
}

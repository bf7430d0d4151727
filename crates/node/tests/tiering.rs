//! Tiering over files in memory, step by step and with a clock that is set by hand: hot segments move up, cold ones
//! leave, and what files hold stays what it is.

use engine::file::{Access, Adviser, File, FileTable, Happened, Pool};
use engine::mover::Mover;
use engine::stats::{Metric, Stats};
use engine::volume::{self, TieringPolicy};
use meta::places::Places;
use meta::state::{SqliteState, State};
use node::adapt::{Adapt, Devices, Parts, Settings};
use object::target::{Faults, MemoryMedium, TargetSpec, Targets, TargetsOptions};
use policy::layout::Placement;
use policy::tier::Tier;
use policy::tier::cost::{Costs, DeviceCost};
use policy::tier::machine::Window;
use policy::volume::ReplicasConfig;
use policy::{TargetId, Time};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::File as Plain;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const SEGMENT: u64 = 16 << 10;
/// Two fast devices of so many bytes; two slow ones have more.
const FAST_BYTES: u64 = 8 * SEGMENT;

struct World {
    namespace: tempfile::TempDir,
    media: Vec<MemoryMedium>,
    pool: Arc<Pool>,
    files: Arc<FileTable>,
    state: Arc<dyn State>,
    stats: Arc<Stats>,
    clock: Arc<AtomicU64>,
    settings: Settings,
    adapt: Arc<Adapt>,
}

fn section(policy: TieringPolicy) -> volume::Tiering {
    volume::Tiering {
        policy,
        fast: 0,
        slow: 1,
        window: Window::Requests(64),
        hot: 3,
        cold: 2,
        free_percent: 30,
        read_wins: false,
        idle: Duration::from_millis(100),
        idle_rate: 0,
        busy_rate: 0,
        keep_copies: true,
        copy_after: Duration::from_secs(3600),
        copies_free_percent: 5,
        on_access: false,
        share_percent: 50,
        locations: 1024,
        proportional: true,
        speeds: Vec::new(),
    }
}

/// The paper's planner, with all of the fast tier.
fn whole() -> volume::Tiering {
    volume::Tiering { proportional: false, share_percent: 100, ..section(TieringPolicy::WsRos) }
}

fn costs() -> Costs {
    let device = DeviceCost::seconds_per_gb;
    Costs { fast: device(5.0, 25.0), slow: device(500.0, 100.0), fast_devices: 2, slow_devices: 2 }
}

impl World {
    fn new(section: volume::Tiering) -> World {
        let namespace = tempfile::tempdir().expect("a directory");
        for name in ["tree", "side", "open"] {
            std::fs::create_dir(namespace.path().join(name)).expect("a directory");
        }
        let media: Vec<_> = (0..4).map(MemoryMedium::new).collect();
        media[..2].iter().for_each(|medium| medium.set_capacity_bytes(FAST_BYTES));
        media[2..].iter().for_each(|medium| medium.set_capacity_bytes(1 << 30));
        let targets = Targets::new(TargetsOptions::inline());
        for (n, medium) in media.iter().enumerate() {
            targets.add(TargetSpec::new(TargetId(n as u16), n as u8 / 2, Arc::new(medium.clone())));
        }
        let next = AtomicU64::new(1 << 32);
        let pool = Arc::new(Pool::new(
            targets,
            move || next.fetch_add(1, Ordering::Relaxed),
            Placement {
                stripe_size: 4096,
                stripe_count: 2,
                single_bytes_max: SEGMENT,
                segment_bytes: SEGMENT,
                mirrors: 1,
                tier: None,
            },
        ));
        let state: Arc<dyn State> = Arc::new(SqliteState::in_memory().expect("a state store"));
        let stats = Arc::new(Stats::new());
        let places = Places::open(&namespace.path().join("files.db"), namespace.path()).expect("a tree");
        pool.places.set(places).ok().expect("set once");
        let files = FileTable::new(pool.clone(), namespace.path().to_owned());
        let clock = Arc::new(AtomicU64::new(0));
        let (devices, replicas, segment_bytes) = (Devices::default(), ReplicasConfig::new(0), SEGMENT);
        let settings = Settings { tiering: section, stripes: None, replicas, devices, segment_bytes, concurrent: 2 };
        let adapt = adapt(&settings, &files, &state, &stats, &clock);
        pool.advisers.set(vec![adapt.recorder().clone()]).ok().expect("set once");
        World { namespace, media, pool, files, state, stats, clock, settings, adapt }
    }

    fn file(&self, name: &str) -> Arc<File> {
        let path = self.namespace.path().join("tree").join(name);
        let stub = Plain::options().read(true).write(true).create(true).truncate(false).open(path).expect("a stub");
        self.files.get_or_open(stub.into()).expect("a file")
    }

    /// The first so many segments on the slow tier.
    fn slow(&self, file: &File, many: usize) -> Vec<u64> {
        let map = self.map(file);
        (0..map.len() as u64).filter(|n| map.as_bytes()[*n as usize] == b's').take(many).collect()
    }

    /// A turn in which these segments are read, and one of 24 besides.
    fn read_mostly(&self, file: &Arc<File>, hot: &[u64], round: u64) {
        hot.iter().for_each(|n| self.read(file, *n));
        self.read(file, round % 24);
        self.step();
    }

    /// So many turns, with idle devices after every twenty.
    fn serve(&self, file: &Arc<File>, hot: &[u64], rounds: u64) {
        for round in 0..rounds {
            self.read_mostly(file, hot, round);
            if round % 20 == 19 {
                self.idle();
            }
        }
    }

    /// A file of that many segments, each with bytes of its own.
    fn written(&self, name: &str, segments: u64) -> (Arc<File>, Vec<u8>) {
        let file = self.file(name);
        let bytes: Vec<u8> = (0..segments * SEGMENT).map(|at| (at / 97) as u8 ^ name.as_bytes()[0]).collect();
        for (n, chunk) in bytes.chunks(SEGMENT as usize).enumerate() {
            file.write(n as u64 * SEGMENT, chunk).expect("well");
        }
        (file, bytes)
    }

    /// An application reads a segment.
    fn read(&self, file: &Arc<File>, segment: u64) {
        let access = Access { write: false, offset: segment * SEGMENT, len: SEGMENT };
        self.adapt.recorder().record(file, Happened::Accessed(access));
        file.read(access.offset, &mut [0; 4096]).expect("well");
    }

    /// Time passes without use of the devices; moves are carried out until there are none.
    fn idle(&self) -> usize {
        let mut carried = 0;
        for _ in 0..200 {
            self.clock.fetch_add(50_000_000, Ordering::Relaxed);
            self.step();
            carried += self.adapt.carry_now();
        }
        carried
    }

    /// The devices are used once in so many milliseconds, and nothing moves.
    fn is_busy(&self, times: u32, every_ms: u64, used: impl Fn()) {
        for _ in 0..times {
            self.clock.fetch_add(every_ms * 1_000_000, Ordering::Relaxed);
            used();
            self.step();
            assert_eq!(self.adapt.carry_now(), 0);
        }
    }

    fn step(&self) {
        self.adapt.step();
    }

    /// Where a file's segments lie: `F` and `s`.
    fn map(&self, file: &File) -> String {
        let layout = file.layout().expect("laid out");
        let of = |s: &policy::layout::Segment| if s.objects.iter().all(|o| o.target.0 < 2) { 'F' } else { 's' };
        layout.mirrors[0].segments.iter().map(of).collect()
    }

    fn fast_used(&self) -> u64 {
        use object::target::Medium;
        let used = |medium: &MemoryMedium| {
            let space = medium.space().expect("well");
            space.total_bytes - space.free_bytes
        };
        self.media[..2].iter().map(used).sum()
    }
}

fn adapt(
    settings: &Settings,
    files: &Arc<FileTable>,
    state: &Arc<dyn State>,
    stats: &Arc<Stats>,
    clock: &Arc<AtomicU64>,
) -> Arc<Adapt> {
    let shown = clock.clone();
    let mover = Arc::new(Mover::new(files.pool().clone(), state.clone(), None));
    let parts = Parts { files: files.clone(), mover, state: state.clone(), stats: stats.clone(), burst: None };
    let clock = Box::new(move || Time(shown.load(Ordering::Relaxed)));
    let adapt = Adapt::new(settings.clone(), None, parts, clock).expect("a state store");
    adapt.set_costs(costs());
    adapt
}

fn content(file: &Arc<File>) -> Vec<u8> {
    let mut bytes = vec![0; file.size() as usize];
    file.read(0, &mut bytes).expect("well");
    bytes
}

/// [S-101]
#[test]
fn hot_segments_move_up_and_every_byte_stays() {
    // The tuned planner wants to see a move's cost come back several times over, so it is shown more.
    for (policy, window) in [(TieringPolicy::WsRos, 64), (TieringPolicy::Tuned, 256)] {
        let window = Window::Requests(window);
        let world = World::new(volume::Tiering { proportional: false, window, ..section(policy) });
        let (file, mut bytes) = world.written("hot", 24);
        world.idle();
        let slow = world.slow(&file, 3);
        for round in 0..200 {
            world.read_mostly(&file, &slow, round);
            if round % 20 == 19 {
                world.idle();
                // A write in the middle of the moving part.
                let at = (slow[0] * SEGMENT + round * 13) as usize;
                bytes[at..at + 700].fill(round as u8);
                file.write(at as u64, &bytes[at..at + 700]).expect("well");
            }
        }
        let map = world.map(&file);
        assert!(slow.iter().all(|n| map.as_bytes()[*n as usize] == b'F'), "{policy:?}: {slow:?} of {map}");
        assert!(content(&file) == bytes, "{policy:?}");
        assert!(world.fast_used() <= FAST_BYTES, "half of two devices: {}", world.fast_used());
        let report = world.adapt.report().expect("measured");
        assert_eq!(report.fast_segments, map.matches('F').count(), "{policy:?}: {map}");
        assert!(world.stats.get(Metric::TieringPromoted) >= 3 && world.stats.get(Metric::TieringAccesses) >= 800);
        assert_eq!(world.stats.get(Metric::TieringMovedBytes) % SEGMENT, 0);
    }
}

#[test]
fn new_segments_are_dealt_by_speed_as_far_as_the_share_goes() {
    let world = World::new(section(TieringPolicy::Tuned));
    let (file, bytes) = world.written("new", 40);
    let map = world.map(&file);
    // Ten to one by speed, and the share has room for eight less what is kept free.
    assert!(map.starts_with("FFFF") && map.matches('F').count() <= 8, "{map}");
    assert!(content(&file) == bytes && world.fast_used() <= FAST_BYTES);
    let other = World::new(volume::Tiering { proportional: false, ..section(TieringPolicy::Tuned) });
    let (file, _) = other.written("new", 8);
    assert_eq!(other.map(&file).matches('F').count(), 4, "in turn: {}", other.map(&file));
}

#[test]
fn moves_wait_for_idle_devices_and_for_nothing_of_their_own() {
    let world = World::new(whole());
    let (file, _) = world.written("busy", 20);
    world.idle();
    let slow = (0..20).find(|n| world.map(&file).as_bytes()[*n as usize] == b's').expect("one");
    // A read every 20 ms: the devices are never idle for 100.
    world.is_busy(100, 20, || world.read(&file, slow));
    // Reads that do not come through the mount (a drain, a stage-out) are seen on the device.
    world.is_busy(20, 20, || assert_eq!(file.read(slow * SEGMENT, &mut [0; 4096]).expect("well"), 4096));
    assert!(world.idle() >= 1);
    assert_eq!(world.map(&file).as_bytes()[slow as usize], b'F');
}

#[test]
fn a_move_waits_for_new_opens_and_a_pause_begins_no_move() {
    // Nothing has to leave, so that one move is planned.
    let world = World::new(volume::Tiering { free_percent: 0, ..whole() });
    let (file, bytes) = world.written("polite", 20);
    world.idle();
    let slow = world.slow(&file, 1)[0];
    (0..64).for_each(|_| world.read(&file, slow));
    let later = |ms: u64| {
        world.clock.fetch_add(ms * 1_000_000, Ordering::Relaxed);
        world.step();
    };
    world.adapt.pause(true);
    (0..10).for_each(|_| later(50));
    let report = world.adapt.report().expect("measured");
    assert_eq!((report.waiting, report.moving, world.adapt.carry_now()), (1, 0, 0), "planned");
    world.adapt.pause(false);
    later(50);
    // The move was handed out; a read comes before it is carried out.
    world.read(&file, 0);
    std::thread::scope(|scope| {
        let carried = scope.spawn(|| world.adapt.carry_now());
        let began = std::time::Instant::now();
        while began.elapsed() < Duration::from_millis(150) {
            assert!(!carried.is_finished(), "it went on although somebody reads");
            std::thread::sleep(Duration::from_millis(10));
        }
        world.clock.fetch_add(100_000_000, Ordering::Relaxed);
        assert_eq!(carried.join().expect("no panic"), 1);
    });
    world.step();
    assert_eq!(world.map(&file).as_bytes()[slow as usize], b'F');
    assert!(content(&file) == bytes);
}

/// [S-100]
#[test]
fn a_device_that_fails_during_moves_costs_nothing_but_the_moves() {
    let world = World::new(whole());
    let (file, bytes) = world.written("ill", 20);
    world.idle();
    let before = world.map(&file);
    let slow: Vec<u64> = (0..20).filter(|n| before.as_bytes()[*n as usize] == b's').take(3).collect();
    let ill = Faults { nth: Some((2, Errno::IO)), ..Faults::default() };
    world.media[..2].iter().for_each(|medium| medium.set_faults(ill.clone()));
    for round in 0..32 {
        world.read(&file, slow[round % 3]);
        world.read(&file, slow[round % 3]);
    }
    world.idle();
    assert!(world.stats.get(Metric::TieringFailed) > 0, "the fault was met");
    world.media[..2].iter().for_each(|medium| medium.set_faults(Faults::default()));
    for target in [TargetId(0), TargetId(1)] {
        world.pool.targets.operate(target, object::target::Order::Restore).ok();
    }
    assert!(content(&file) == bytes);
    for round in 0..128 {
        world.read(&file, slow[round % 3]);
    }
    world.idle();
    assert!(slow.iter().all(|n| world.map(&file).as_bytes()[*n as usize] == b'F'), "{}", world.map(&file));
    assert!(content(&file) == bytes);
}

/// [S-101]
#[test]
fn after_a_restart_files_are_found_by_where_they_lie_and_gone_ones_are_forgotten() {
    let world = World::new(whole());
    let (file, bytes) = world.written("kept", 16);
    let (gone, _) = world.written("gone", 3);
    assert_eq!((&*world.map(&file), &*world.map(&gone)), ("FFssFFssFFssFFss", "FFs"));
    // A new daemon: it starts without any knowledge, and the file is not open.
    let next = adapt(&world.settings, &world.files, &world.state, &world.stats, &world.clock);
    let ids: BTreeMap<&str, u64> =
        [("kept", file.id().expect("laid out").0), ("gone", gone.id().expect("laid out").0)].into();
    let access = Access { write: false, offset: 2 * SEGMENT, len: 4096 };
    (0..32).for_each(|n| {
        let access = Access { offset: (n % 3) * SEGMENT, ..access };
        next.recorder().record(&gone, Happened::Accessed(access));
    });
    next.step();
    assert_eq!(next.tier(policy::tier::Location { file: ids["kept"], segment: 4 }), Tier::Slow, "not yet seen");
    next.found_in_tree(&file);
    assert_eq!(next.tier(policy::tier::Location { file: ids["kept"], segment: 4 }), Tier::Fast);
    drop(gone);
    std::fs::remove_file(world.namespace.path().join("tree/gone")).expect("there");
    (0..32).for_each(|_| next.recorder().record(&file, Happened::Accessed(access)));
    next.step();
    drop(file);
    std::fs::rename(world.namespace.path().join("tree/kept"), world.namespace.path().join("tree/moved"))
        .expect("there");
    for _ in 0..200 {
        world.clock.fetch_add(50_000_000, Ordering::Relaxed);
        next.step();
        next.carry_now();
    }
    let file = world.file("moved");
    assert!(content(&file) == bytes);
    assert_eq!(&world.map(&file)[2..3], "F", "found under its new name: {}", world.map(&file));
    let report = next.report().expect("measured");
    assert_eq!(report.fast_segments, world.map(&file).matches('F').count(), "{}", world.map(&file));
}

/// [S-102]
#[test]
fn slow_copies_stay_while_their_target_has_as_much_room_as_was_said() {
    for (percent, stay) in [(5, true), (90, false)] {
        let window = Window::Requests(256);
        let of = section(TieringPolicy::Tuned);
        let world = World::new(volume::Tiering { proportional: false, window, copies_free_percent: percent, ..of });
        let (file, bytes) = world.written("hot", 24);
        world.idle();
        // The file and what is kept of it leave half of the slow tier free at least, and never nine tenths.
        world.media[2..].iter().for_each(|medium| medium.set_capacity_bytes(36 * SEGMENT));
        let slow = world.slow(&file, 3);
        world.serve(&file, &slow, 200);
        assert!(slow.iter().all(|n| world.map(&file).as_bytes()[*n as usize] == b'F'), "{}", world.map(&file));
        world.step();
        let copies = world.adapt.report().expect("measured").copies;
        assert_eq!(copies > 0, stay, "{percent} %: {copies}");
        assert!(content(&file) == bytes);
    }
}

/// Copies that the machine and the mover know of, those that were made while idle, and segments on the fast tier.
fn copies(world: &World, file: &File) -> (usize, u64, usize) {
    let report = world.adapt.report().expect("measured");
    (report.copies, world.stats.get(Metric::TieringCopied), world.map(file).matches('F').count())
}

/// [S-102]
#[test]
fn what_was_placed_on_the_fast_tier_gets_a_slow_copy_when_it_was_left_alone_and_devices_are_idle() {
    let copy_after = Duration::from_secs(1);
    let world = World::new(volume::Tiering { copy_after, ..section(TieringPolicy::Tuned) });
    let (file, mut bytes) = world.written("new", 24);
    // A read every 50 ms from the slow tier: the devices are never idle for 100.
    let slow = world.map(&file).find('s').expect("the share is full") as u64;
    world.is_busy(100, 50, || world.read(&file, slow));
    assert_eq!(copies(&world, &file).0, 0);
    world.idle();
    let (there, made, on_fast) = copies(&world, &file);
    assert!(
        on_fast >= 4 && there == on_fast && made == on_fast as u64,
        "{there} copies, {made} made, {on_fast} on fast"
    );
    assert_eq!(world.stats.get(Metric::TieringCopiedBytes), made * SEGMENT);
    assert_eq!((world.idle(), content(&file) == bytes), (0, true), "each once");
    let fast = world.map(&file).find('F').expect("placed by speed") as u64;
    // A write ends one, and when it is over and done with another is made.
    let at = (fast * SEGMENT + 77) as usize;
    bytes[at..at + 5].fill(9);
    let access = Access { write: true, offset: at as u64, len: 5 };
    world.adapt.recorder().record(&file, Happened::Accessed(access));
    file.write(at as u64, &[9; 5]).expect("well");
    world.step();
    assert_eq!(copies(&world, &file).0, on_fast - 1);
    // So does one that tiering did not hear of.
    let other = world.map(&file).rfind('F').expect("several") as u64;
    file.punch(other * SEGMENT, 100).expect("well");
    bytes[(other * SEGMENT) as usize..][..100].fill(0);
    world.step();
    assert_eq!(copies(&world, &file).0, on_fast - 2);
    world.idle();
    assert_eq!(copies(&world, &file), (on_fast, made + 2, on_fast));
    assert!(content(&file) == bytes);
    // Segments that leave return to their copies.
    let returned = world.stats.get(Metric::TieringReturned);
    let slow = world.slow(&file, 3);
    world.serve(&file, &slow, 400);
    assert!(world.stats.get(Metric::TieringReturned) > returned, "{:?}", world.adapt.report());
    assert!(content(&file) == bytes && world.fast_used() <= FAST_BYTES);
}

/// A file may be written and closed before the first look, and stay unused afterwards. [S-102]
#[test]
fn what_was_closed_before_it_was_looked_at_gets_its_slow_copies_too() {
    let copy_after = Duration::from_secs(1);
    let world = World::new(volume::Tiering { copy_after, ..section(TieringPolicy::Tuned) });
    let (file, bytes) = world.written("closed", 8);
    let on_fast = world.map(&file).matches('F').count();
    drop(file);
    world.idle();
    let report = world.adapt.report().expect("measured");
    assert_eq!(
        (report.fast_segments, world.stats.get(Metric::TieringCopiedBytes)),
        (on_fast, on_fast as u64 * SEGMENT)
    );
    assert!(on_fast > 0 && content(&world.file("closed")) == bytes);
}

/// [S-102]
#[test]
fn copies_are_made_only_while_the_slow_tier_has_as_much_room_as_was_said() {
    for (percent, some, all) in [(5, true, true), (60, true, false), (95, false, false)] {
        let copy_after = Duration::ZERO;
        let world =
            World::new(volume::Tiering { copy_after, copies_free_percent: percent, ..section(TieringPolicy::Tuned) });
        let (file, bytes) = world.written("new", 24);
        let slow_bytes: u64 = world.map(&file).matches('s').count() as u64 * SEGMENT / 2;
        // Each slow target: twice what lies there and four segments more; at 60 % free there is room for some copies.
        world.media[2..].iter().for_each(|medium| medium.set_capacity_bytes(2 * slow_bytes + 8 * SEGMENT));
        world.idle();
        let (there, _, on_fast) = copies(&world, &file);
        assert!((there > 0, there == on_fast) == (some, all), "{percent} %: {there} of {on_fast}");
        assert_eq!(world.idle(), 0, "{percent} %: it settles");
        assert!(content(&file) == bytes);
    }
}

//! Tiering: one list of accesses through the simulator's machine and through the live one, and equal logs of what went
//! in and what was moved, at the same times.
//!
//! The simulator runs first. Then the live driver gets each event of its log at the same virtual time, over files on
//! targets in memory: accesses, ends of moves and of slow copies, and devices that become idle.

use engine::file::{Access, Adviser, File, FileTable, Happened, Pool};
use engine::mover::Mover;
use engine::stats::Stats;
use engine::volume::{self, TieringPolicy};
use meta::state::{SqliteState, State};
use node::adapt::{Adapt, Devices, Parts, Settings};
use object::target::{MemoryMedium, TargetSpec, Targets, TargetsOptions};
use policy::layout::Placement;
use policy::tier::cost::{Costs, DeviceCost};
use policy::tier::machine::{Action, Config, Event, Logged, Planner, Window};
use policy::tier::reorganize::Thresholds;
use policy::tier::{Location, Region, Tier};
use policy::volume::{Change, ReplicasConfig, Verb};
use policy::{TargetId, Time};
use sim::tier::{Arrivals, Requests, Scheme, Setup, run_logged};
use sim::trace::{Op, Record};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const BLOCK: u64 = 16 << 10;
const BLOCKS: u64 = 32;
/// Space for hot data: six blocks, a tenth of the two fast devices.
const FAST_BYTES: u64 = 6 * BLOCK;
/// The first pane ends when the file is written, since the model keeps room per device and the driver per tier.
const WINDOW: u64 = 192;

fn costs() -> Costs {
    // Eight to one, reading as writing, in powers of two: shares are exact.
    let device = |ns| DeviceCost::seconds_per_gb(ns, ns);
    Costs { fast: device(1.0), slow: device(8.0), fast_devices: 2, slow_devices: 2 }
}

/// The file is written once, then some blocks of it are read again and again: first these, then those, and so on.
fn accesses(seed: u64) -> Vec<Record> {
    let mut state = seed;
    let mut below = |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n
    };
    let record = |block: u64, op, length| Record { offset: block * BLOCK, length, op, ..Record::default() };
    let mut all: Vec<Record> = (0..BLOCKS).map(|block| record(block, Op::Write, BLOCK as u32)).collect();
    // The tuned planner has to see some hundred accesses come back before it trusts any to.
    for n in 0..2400 {
        let hot = [12, 22, 4, 27][n / 600];
        let block = if below(10) < 8 { hot + below(4) } else { below(BLOCKS) };
        all.push(record(block, Op::Read, 4096));
    }
    all
}

fn section(policy: TieringPolicy) -> volume::Tiering {
    volume::Tiering {
        policy,
        fast: 0,
        slow: 1,
        window: Window::Requests(WINDOW),
        hot: 3,
        cold: 2,
        free_percent: 50,
        read_wins: false,
        idle: Duration::ZERO,
        idle_rate: 0,
        busy_rate: u64::MAX,
        keep_copies: true,
        copy_after: Duration::ZERO,
        copies_free_percent: 5,
        on_access: true,
        share_percent: 10,
        locations: 4096,
        proportional: true,
        speeds: Vec::new(),
    }
}

fn simulated(policy: TieringPolicy, accesses: &[Record]) -> Vec<Logged> {
    let mut requests = Requests::default();
    accesses.iter().for_each(|record| requests.add(0, record, BLOCK));
    let thresholds = Thresholds { free_bytes: FAST_BYTES / 2, ..Thresholds::default() };
    let planner = match policy {
        TieringPolicy::WsRos => Planner::WsRos(thresholds),
        _ => Planner::Tuned,
    };
    let config = Config {
        window: Window::Requests(WINDOW),
        locations_max: 4096,
        block_bytes: BLOCK,
        fast_bytes: FAST_BYTES,
        costs: costs(),
        planner,
        idle: Time::ZERO,
        idle_bytes_per_s: None,
        busy_bytes_per_s: u64::MAX,
        moves_max: 1,
        keep_copies: matches!(policy, TieringPolicy::Tuned),
        copy_after: Some(Time::ZERO),
        on_access: matches!(policy, TieringPolicy::Tuned),
    };
    let arrivals = Arrivals::Closed { depth: 1, think: Time::from_millis(1) };
    let setup = Setup {
        costs: costs(),
        fast_bytes: FAST_BYTES,
        fast_share_percent: 100,
        block_bytes: BLOCK,
        arrivals,
        warm_up: 0,
        free_moves: false,
        rest: None,
        before: Time::ZERO,
        old: None,
        slow_bytes: None,
        copies_free_percent: 5,
        page_cache: None,
        check: true,
    };
    let log = run_logged(&setup, &Scheme::Reorganized { config, proportional: true }, &requests).1;
    // Each block is a file to the simulator, in the order in which they lie; live it is a segment of one.
    log.iter().map(|logged| named(logged, |of| Location { file: 0, segment: of.file })).collect()
}

/// The log entry with other names of locations.
fn named(logged: &Logged, name: impl Fn(Location) -> Location) -> Logged {
    let event = |event| match event {
        Event::Access { location, region, bytes, ends_request } => {
            Event::Access { location: name(location), region, bytes, ends_request }
        }
        Event::Placed { location, tier } => Event::Placed { location: name(location), tier },
        Event::Moved(location) => Event::Moved(name(location)),
        Event::Copied(location) => Event::Copied(name(location)),
        Event::Failed(location) => Event::Failed(name(location)),
        other => other,
    };
    match *logged {
        Logged::Event(at, of) => Logged::Event(at, event(of)),
        Logged::Action(at, Action::Copy(location)) => Logged::Action(at, Action::Copy(name(location))),
        Logged::Action(at, Action::Move(of)) => {
            Logged::Action(at, Action::Move(policy::tier::Move { location: name(of.location), ..of }))
        }
    }
}

/// The live driver over one file, with a clock that is set by hand.
struct Live {
    _namespace: tempfile::TempDir,
    clock: Arc<AtomicU64>,
    file: Arc<File>,
    adapt: Arc<Adapt>,
}

impl Live {
    fn new(policy: TieringPolicy) -> Live {
        let namespace = tempfile::tempdir().unwrap();
        ["tree", "side", "open"].iter().for_each(|name| std::fs::create_dir(namespace.path().join(name)).unwrap());
        let targets = Targets::new(TargetsOptions::inline());
        for n in 0..4u16 {
            let medium = MemoryMedium::new(u64::from(n));
            medium.set_capacity_bytes(5 * FAST_BYTES);
            targets.add(TargetSpec::new(TargetId(n), n as u8 / 2, Arc::new(medium)));
        }
        let next = AtomicU64::new(1 << 32);
        let pool = Arc::new(Pool::new(
            targets.clone(),
            move || next.fetch_add(1, Ordering::Relaxed),
            Placement {
                stripe_size: 4096,
                stripe_count: 2,
                single_bytes_max: BLOCK,
                segment_bytes: BLOCK,
                mirrors: 1,
                tier: None,
            },
        ));
        let state: Arc<dyn State> = Arc::new(SqliteState::in_memory().unwrap());
        let files = FileTable::new(pool.clone(), namespace.path().to_owned());
        let clock = Arc::new(AtomicU64::new(0));
        let shown = clock.clone();
        let mover = Arc::new(Mover::new(pool.clone(), state.clone(), None));
        let (tiering, devices) = (section(policy), Devices::default());
        let settings = Settings {
            tiering,
            stripes: None,
            replicas: ReplicasConfig::new(0),
            devices,
            segment_bytes: BLOCK,
            concurrent: 1,
        };
        let parts = Parts { files: files.clone(), mover, state, stats: Arc::new(Stats::new()), burst: None };
        let now = Box::new(move || Time(shown.load(Ordering::Relaxed)));
        let adapt = Adapt::new(settings, None, parts, now).unwrap();
        adapt.set_costs(costs());
        adapt.start_log();
        pool.advisers.set(vec![adapt.recorder().clone()]).ok().unwrap();
        let path = namespace.path().join("tree/file");
        let stub = std::fs::File::options().read(true).write(true).create_new(true).open(path).unwrap();
        let file = files.get_or_open(stub.into()).unwrap();
        Live { _namespace: namespace, clock, file, adapt }
    }

    fn access(&self, at: Time, location: Location, region: Region, bytes: u64) {
        self.clock.store(at.0, Ordering::Relaxed);
        let (offset, write) = (location.segment * BLOCK, region == Region::Write);
        if write {
            self.file.write(offset, &vec![location.segment as u8; bytes as usize]).unwrap();
        } else {
            let mut read = vec![0; bytes as usize];
            self.file.read(offset, &mut read).unwrap();
            assert!(read.iter().all(|byte| *byte == location.segment as u8), "{location:?} is not what was written");
        }
        self.adapt.recorder().record(&self.file, Happened::Accessed(Access { write, offset, len: bytes }));
        self.adapt.step();
    }

    fn look(&self, at: Time) {
        self.clock.store(at.0, Ordering::Relaxed);
        self.adapt.step();
    }

    fn ended(&self, at: Time, of: Location) {
        self.clock.store(at.0, Ordering::Relaxed);
        assert_eq!(self.adapt.carry_now_if(|change| is_of(change, of)), 1, "it is under way: {of:?}");
        self.adapt.step();
    }
}

fn is_of(change: &Change, of: Location) -> bool {
    let (Verb::MoveSegment { segment, .. } | Verb::CopySegment(segment)) = change.verb else { return false };
    segment == of.segment
}

fn live(policy: TieringPolicy, moments: &[Logged]) -> Vec<Logged> {
    let live = Live::new(policy);
    for moment in moments {
        match *moment {
            Logged::Event(at, Event::Access { location, region, bytes, .. }) => {
                live.access(at, location, region, bytes)
            }
            Logged::Event(at, Event::Moved(location) | Event::Copied(location)) => live.ended(at, location),
            // Copies are made at these moments; the live driver polls the devices on command.
            Logged::Event(at, Event::Idle(_)) | Logged::Action(at, Action::Copy(_)) => live.look(at),
            Logged::Event(_, Event::Failed(location)) => panic!("the simulator gave {location:?} up"),
            Logged::Event(..) | Logged::Action(..) => {}
        }
    }
    live.adapt.log()
}

/// The decisions of a log, without polls of devices and without the file's name.
fn decided(log: &[Logged]) -> Vec<Logged> {
    let is_told = |logged: &&Logged| match logged {
        Logged::Event(_, Event::Placed { tier, .. }) => *tier == Tier::Fast,
        Logged::Event(_, of) => matches!(of, Event::Access { .. } | Event::Moved { .. } | Event::Copied { .. }),
        Logged::Action(..) => true,
    };
    log.iter().filter(is_told).map(|logged| named(logged, |of| Location { file: 0, ..of })).collect()
}

#[test]
fn the_simulator_and_the_live_driver_move_the_same_at_the_same_times() {
    for policy in [TieringPolicy::WsRos, TieringPolicy::Tuned] {
        for seed in 1..4 {
            let simulated = simulated(policy, &accesses(seed));
            let (expected, logged) = (decided(&simulated), decided(&live(policy, &simulated)));
            for (n, (live, simulated)) in logged.iter().zip(&expected).enumerate() {
                assert_eq!(live, simulated, "{policy:?}, seed {seed}: line {n}");
            }
            assert_eq!(logged.len(), expected.len(), "{policy:?}, seed {seed}");
            let moves = expected.iter().filter(|logged| matches!(logged, Logged::Action(_, Action::Move(_)))).count();
            let placed =
                expected.iter().filter(|logged| matches!(logged, Logged::Event(_, Event::Placed { .. }))).count();
            assert!(moves >= 4 && placed >= 3, "{policy:?}, seed {seed}: {moves} moves, {placed} placed");
            let copied =
                expected.iter().filter(|logged| matches!(logged, Logged::Event(_, Event::Copied { .. }))).count();
            assert_eq!(copied >= 3, policy == TieringPolicy::Tuned, "{policy:?}, seed {seed}: {copied} copied");
        }
    }
}

/// The comparison would notice: another list is another log.
#[test]
fn other_accesses_are_another_log() {
    let of = |seed| decided(&simulated(TieringPolicy::Tuned, &accesses(seed)));
    assert_ne!(of(1), of(2));
}

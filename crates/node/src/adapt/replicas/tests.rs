//! Replicas over files in memory, with a clock that is set by hand.

use super::super::{Devices, Parts, Settings};
use super::*;
use engine::file::{FileTable, Pool};
use engine::stats::Stats;
use engine::volume::Config;
use meta::places::Places;
use meta::state::SqliteState;
use object::target::{MemoryMedium, Order, TargetSpec, Targets, TargetsOptions};
use policy::layout::Placement;
use policy::protect::replica::{Rank, Strategy};
use policy::volume::ReplicasConfig;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

const TOML: &str = "namespace = \"n\"\nstate = \"s\"\n[[target]]\nname = \"a\"\npath = \"a\"\n";
const BYTES: usize = 40_000;

/// Six targets, of which each file takes two, and a file with some bytes.
struct World {
    _dir: tempfile::TempDir,
    files: Arc<FileTable>,
    file: Arc<File>,
    id: FileId,
    state: Arc<dyn State>,
    stats: Arc<Stats>,
    clock: Arc<AtomicU64>,
    mover: Arc<Mover>,
}

impl World {
    fn new() -> World {
        let dir = tempfile::tempdir().expect("a directory");
        ["tree", "side", "open"].iter().for_each(|name| std::fs::create_dir(dir.path().join(name)).expect("made"));
        let targets = Targets::new(TargetsOptions::inline());
        for n in 0..6 {
            targets.add(TargetSpec::new(TargetId(n), 0, Arc::new(MemoryMedium::new(n.into()))));
        }
        let next = AtomicU64::new(1 << 32);
        let place = Placement {
            stripe_size: 4096,
            stripe_count: 2,
            single_bytes_max: 0,
            segment_bytes: 0,
            mirrors: 1,
            tier: None,
        };
        let pool = Arc::new(Pool::new(targets, move || next.fetch_add(1, Ordering::Relaxed), place));
        let places = Places::open(&dir.path().join("files.db"), dir.path()).expect("a tree");
        pool.places.set(places).ok().expect("set once");
        let files = FileTable::new(pool, dir.path().to_owned());
        let path = dir.path().join("tree/f");
        let stub = std::fs::File::options().read(true).write(true).create_new(true).open(path).expect("a stub");
        let file = files.get_or_open(stub.into()).expect("a file");
        file.write(0, &content()).expect("well");
        let state: Arc<dyn State> = Arc::new(SqliteState::in_memory().expect("a state store"));
        let (stats, clock) = (Arc::new(Stats::new()), Arc::default());
        let mover = Arc::new(Mover::new(files.pool().clone(), state.clone(), None));
        World { _dir: dir, id: file.id().expect("laid out"), file, files, state, stats, clock, mover }
    }

    /// The daemon's loop over the world, without running threads.
    fn adapt(&self) -> Arc<Adapt> {
        let config = Config::parse(Path::new("/volume.toml"), TOML).expect("a configuration");
        let mut replicas = ReplicasConfig::new(0);
        replicas.replication.strategy = Strategy::All;
        let (tiering, devices) = (config.tiering, Devices::default());
        let settings = Settings { tiering, stripes: None, replicas, devices, segment_bytes: 0, concurrent: 2 };
        let (files, mover, state) = (self.files.clone(), self.mover.clone(), self.state.clone());
        let parts = Parts { files, mover, state, stats: self.stats.clone(), burst: None };
        let clock = self.clock.clone();
        Adapt::new(settings, None, parts, Box::new(move || Time(clock.load(Ordering::Relaxed)))).expect("opens")
    }

    /// The loop of `adapt`, with a waiting job that has the file as its input, and a finished copy.
    fn with_replica(&self) -> Arc<Adapt> {
        let (adapt, job) = (self.adapt(), JobId(1));
        let submitted = replica::Event::Submitted { job, rank: Rank(1), nodes: 1, files: vec![self.id] };
        adapt.tell_of_jobs([replica::Event::System(8), submitted]);
        carry(&adapt);
        assert_eq!(self.mirrors().len(), 2);
        adapt
    }

    /// The targets of each mirror.
    fn mirrors(&self) -> Vec<Vec<TargetId>> {
        let layout = self.file.layout().expect("laid out");
        let of = |mirror: &policy::layout::Mirror| {
            mirror.segments.iter().flat_map(|s| &s.objects).map(|o| o.target).collect()
        };
        layout.mirrors.iter().map(of).collect()
    }

    /// Fails a target while two readers use it.
    fn fail(&self, adapt: &Adapt, target: TargetId) {
        self.files.pool().targets.operate(target, Order::Fail).expect("known");
        (0..2).for_each(|_| adapt.replicas().complain(&self.file, target));
    }

    fn pass(&self, adapt: &Adapt, span: Time) {
        self.clock.fetch_add(span.0, Ordering::Relaxed);
        adapt.step();
    }

    fn holds_its_bytes(&self) {
        let mut bytes = vec![0; BYTES];
        assert_eq!(self.file.read(0, &mut bytes).expect("well"), BYTES);
        assert!(bytes == content());
    }

    fn records(&self) -> Vec<String> {
        self.state.records("replica").expect("answers").into_iter().map(|(key, _)| key).collect()
    }
}

fn content() -> Vec<u8> {
    (0..BYTES).map(|at| (at / 61) as u8 | 1).collect()
}

/// Executes all queued jobs and the ones that follow from them.
fn carry(adapt: &Adapt) {
    for _ in 0..4 {
        adapt.carry_now();
    }
}

/// [S-071] [S-072]
#[test]
fn a_replica_takes_over_is_made_whole_and_goes_with_its_job() {
    let world = World::new();
    let adapt = world.with_replica();
    let before = world.mirrors();
    assert!(before[0].iter().all(|target| !before[1].contains(target)), "{before:?}");
    assert_eq!(world.records(), [format!("{:016x}", world.id.0)]);

    world.fail(&adapt, before[0][0]);
    assert_eq!(adapt.replicas.complaints.lock().len(), 1, "two readers say the same");
    carry(&adapt);
    assert!(adapt.replicas.complaints.lock().is_empty(), "the next reader is heard");
    assert_eq!(world.stats.get(Metric::Failovers), 1, "once, however many complain");
    assert_eq!(world.mirrors()[0], [before[1][0], before[0][1]]);
    world.holds_its_bytes();
    world.pass(&adapt, Time::from_secs(4));
    carry(&adapt);
    assert!(world.mirrors()[1].contains(&before[0][0]), "the delay leaves the devices to readers");
    world.pass(&adapt, Time::from_secs(1));
    carry(&adapt);
    assert_eq!(world.stats.get(Metric::ReplicasRebuilt), 1);
    assert!(world.mirrors().iter().flatten().all(|target| *target != before[0][0]));

    adapt.tell_of_jobs([replica::Event::Ended(JobId(1))]);
    carry(&adapt);
    assert_eq!((world.mirrors().len(), world.records()), (1, vec![]));
    world.holds_its_bytes();
}

#[test]
fn a_swap_waits_for_no_copy_not_even_one_of_its_file() {
    let world = World::new();
    let adapt = world.with_replica();
    world.fail(&adapt, world.mirrors()[0][0]);
    carry(&adapt);
    world.pass(&adapt, Time::from_secs(5));
    // The rebuild never starts: its carriers are all busy.
    adapt.start_carriers(Lane::Failover, "failover", 1);
    let second = world.mirrors()[0][1];
    world.fail(&adapt, second);
    while world.stats.get(Metric::Failovers) < 2 {
        std::thread::yield_now();
    }
    adapt.driver.jobs.end();
    assert!(!world.mirrors()[0].contains(&second));
    world.holds_its_bytes();
}

#[test]
fn of_the_mirrors_left_by_a_user_the_replica_goes_with_its_job() {
    let world = World::new();
    let adapt = world.with_replica();
    world.mover.add_mirror(&world.file, &world.file.pool().placement.clone()).expect("well");
    let users = world.mirrors()[2].clone();
    adapt.drop_mirror(&world.file, 0).expect("well");
    assert_eq!((adapt.replicas().mirror_of(world.id), world.records().len()), (Some(0), 1));
    adapt.tell_of_jobs([replica::Event::Ended(JobId(1))]);
    carry(&adapt);
    assert_eq!((world.mirrors(), world.records()), (vec![users], vec![]));
    world.holds_its_bytes();
}

/// [S-131]
#[test]
fn a_mirror_that_a_user_adds_beside_a_fork_is_no_fork() {
    let world = World::new();
    let (adapt, place) = (world.adapt(), world.file.pool().placement.clone());
    let forks = &adapt.recorder.forks;
    forks.add(&world.mover, &world.file, &place).expect("well");
    assert_eq!((world.mirrors().len(), forks.keep(world.id, 2)), (2, 1));
    adapt.add_mirror(&world.file, &place).expect("well");
    assert_eq!((world.mirrors().len(), forks.has(world.id), forks.keep(world.id, 2)), (2, false, 2));
    world.holds_its_bytes();
}

#[test]
fn what_a_version_before_recorded_is_taken_over_or_goes() {
    let world = World::new();
    world.mover.add_replica(&world.file).expect("well");
    let record = br#"{"path":"f","mirror":1,"since_ns":5}"#;
    let gone = FileId(world.id.0 + 999);
    for file in [world.id, gone] {
        world.state.record_put("replica", &format!("{:016x}", file.0), record).expect("kept");
    }
    let adapt = world.adapt();
    assert_eq!(adapt.replicas().mirror_of(world.id), Some(1));
    adapt.adopt_replicas();
    carry(&adapt);
    assert_eq!((world.mirrors().len(), world.records().len()), (2, 1), "of a file that is gone the record goes");
    adapt.tell_of_jobs([replica::Event::System(8), replica::Event::Tick]);
    carry(&adapt);
    assert_eq!((world.mirrors().len(), world.records()), (1, vec![]), "no job wants it");
    // A daemon that ended between the record and the copy.
    world.state.record_put("replica", &format!("{:016x}", world.id.0), record).expect("kept");
    let adapt = world.adapt();
    adapt.adopt_replicas();
    carry(&adapt);
    assert_eq!((world.mirrors().len(), world.records()), (1, vec![]));
}

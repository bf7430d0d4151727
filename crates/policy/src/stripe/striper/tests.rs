//! The striper as a whole: its actions under changing loads.

use super::*;
use crate::pattern::Request;
use crate::stripe::performance::Served;
use crate::stripe::profile::Counts;
use crate::stripe::profile::{Count, class_of};
use crate::stripe::rules;

const FILE: FileId = FileId(7);
const MIB: u64 = 1 << 20;

fn striper(mode: Mode, change: impl FnOnce(&mut Config)) -> Striper {
    let mut config = Config::new(mode, &Measured::disk(0.012, 0.008, 20e6, 20e6, 0.0), 8);
    change(&mut config);
    Striper::new(config, rules::parse(rules::ADAPTIVE).unwrap(), Time::ZERO)
}

/// One second of load, a decision, and its actions (the file is changed at once).
struct World {
    striper: Striper,
    forks: Vec<Shape>,
    bytes: u64,
    second: u64,
    /// Pattern of the last requests.
    recent: Vec<Request>,
    log: Vec<String>,
}

impl World {
    fn new(striper: Striper, unit_kib: u64) -> World {
        let forks = vec![Shape { devices: 8, unit_bytes: unit_kib << 10 }];
        World { striper, forks, bytes: 64 * MIB, second: 0, recent: Vec::new(), log: Vec::new() }
    }

    /// Reads for `seconds`, with the given number per second of that many KiB each, and writes of 4 KiB.
    fn run(&mut self, seconds: u64, load: &[(u64, u64)], writes: u64) {
        for _ in 0..seconds {
            self.second += 1;
            let now = Time::from_secs(self.second);
            let mut counts = Box::<Counts>::default();
            for (rate, kib) in load {
                counts[class_of(kib << 10)] = Count { reads: *rate, writes: 0, bytes: rate * (kib << 10) };
            }
            counts[0].writes += writes;
            counts[0].bytes += writes * 4096;
            let forks = self.forks.clone();
            let lies = Event::Lies { file: FILE, forks, keep: 1, bytes: self.bytes, movable: true, open: true };
            self.striper.handle(now, lies);
            self.striper.handle(now, Event::Asked { file: FILE, counts, users: 1, recent: self.recent.clone() });
            self.striper.handle(now, Event::Look);
            while let Some(action) = self.striper.poll() {
                let kib = |shape: &Shape| shape.unit_bytes >> 10;
                let (words, copied) = match &action {
                    Action::Restripe { fork, to, .. } => {
                        self.forks[*fork] = *to;
                        (format!("restripe {fork} {}", kib(to)), self.bytes)
                    }
                    Action::AddFork { to, .. } => {
                        self.forks.push(*to);
                        (format!("add {}", kib(to)), self.bytes)
                    }
                    Action::DropFork { fork, .. } => {
                        self.forks.remove(*fork);
                        (format!("drop {fork}"), 0)
                    }
                    Action::Place { shape, .. } => (format!("place {}", kib(shape)), 0),
                    Action::Route { .. } => ("route".to_owned(), 0),
                };
                if !matches!(action, Action::Place { .. } | Action::Route { .. }) {
                    let took = Time::from_millis(copied / 40_000);
                    self.striper.handle(now, Event::Ended { file: FILE, bytes: copied, took });
                }
                self.log.push(words);
            }
        }
    }

    fn changes(&self) -> Vec<&str> {
        self.log.iter().map(String::as_str).filter(|w| !w.starts_with("route") && !w.starts_with("place")).collect()
    }
}

#[test]
fn fixed_watches_and_changes_nothing() {
    let mut world = World::new(striper(Mode::Fixed(4), |_| {}), 1024);
    world.run(60, &[(3, 1024)], 0);
    assert!(world.log.is_empty() && world.striper.placement(Some(FILE)).is_none());
    let view = world.striper.view(Time::from_secs(60), FILE).unwrap();
    assert!((view.load.rate - 3.0).abs() < 0.5 && view.response_s > 0.05, "{view:?}");
}

#[test]
fn few_large_requests_make_it_wide_and_new_files_too() {
    for mode in [Mode::Model, Mode::Fuzzy, Mode::ModelFuzzy] {
        let mut world = World::new(striper(mode, |_| {}), 1024);
        world.run(30, &[(3, 1024)], 0);
        assert_eq!(world.changes().len(), 1, "{mode:?}: once, and then it is as it should be: {:?}", world.log);
        assert!(world.forks[0].spans(1e6) >= 4, "{mode:?}: {:?}", world.forks);
        let new = world.striper.placement(None).unwrap();
        assert!(new.spans(1e6) >= 4, "{mode:?}: {new:?}");
        assert!(world.log.iter().any(|words| words.starts_with("place")));
        let view = world.striper.view(Time::from_secs(30), FILE).unwrap();
        let (_, what, why) = view.last.unwrap();
        assert!(what == "restriped" && why.to_string().contains("requests/s of 1024 KiB"), "{why}");
    }
}

#[test]
fn many_small_requests_make_it_narrow() {
    for mode in [Mode::Model, Mode::Fuzzy, Mode::ModelFuzzy] {
        let mut world = World::new(striper(mode, |_| {}), 4);
        world.run(30, &[(150, 32)], 0);
        assert_eq!(world.forks[0].spans(32768.0), 1, "{mode:?}: {:?}", world.log);
    }
}

#[test]
fn rules_do_not_follow_chance() {
    let mut world = World::new(striper(Mode::Fuzzy, |config| config.window = Time::from_secs(2)), 1024);
    world.run(4, &[(8, 1024)], 0);
    let (before, width) = (world.changes().len(), world.forks[0].spans(1e6));
    // Above about thirty-three requests a second the rules would halve its width.
    for rate in [24, 34, 35, 36, 22, 29, 36, 36, 34, 24, 27, 35, 36, 36, 23] {
        world.run(1, &[(rate, 1024)], 0);
    }
    assert_eq!((world.changes().len(), world.forks[0].spans(1e6)), (before, width), "{:?}", world.log);
    world.run(20, &[(60, 1024)], 0);
    assert!(world.forks[0].spans(1e6) < width, "what lasts is followed: {:?}", world.log);
}

#[test]
fn the_rules_cut_requests_that_there_are_and_not_their_mean() {
    let mut world = World::new(striper(Mode::Fuzzy, |_| {}), 1024);
    // Every other request is of 4 KiB: the mean is half a megabyte, a size that no request has.
    world.run(30, &[(3, 1024)], 3);
    let unit = world.forks[0].unit_bytes;
    let width = u64::from(world.forks[0].spans(f64::from(1 << 20)));
    assert!(width >= 4 && unit * width == MIB, "a megabyte is cut into {width} equal parts: {:?}", world.log);
}

#[test]
fn a_copy_that_costs_more_than_it_gains_is_not_made() {
    let mut world = World::new(striper(Mode::Model, |config| config.horizon = Time::from_secs(2)), 1024);
    world.bytes = 4096 * MIB;
    world.run(30, &[(3, 1024)], 0);
    assert!(world.changes().is_empty(), "{:?}", world.log);
    // Costs of copies are measured: here they take fifty times the time from the devices' rates.
    let mut world = World::new(striper(Mode::Model, |config| config.horizon = Time::from_secs(10)), 1024);
    let took = Time::from_secs(200);
    (0..8).for_each(|_| world.striper.handle(Time::ZERO, Event::Ended { file: FILE, bytes: 64 * MIB, took }));
    world.run(30, &[(3, 1024)], 0);
    assert!(world.changes().is_empty(), "{:?}", world.log);
}

#[test]
fn two_kinds_of_requests_get_a_fork_each_while_there_is_space() {
    let mix = [(140, 64), (20, 512)];
    let mut world = World::new(striper(Mode::Model, |config| config.forks = 2), 256);
    world.run(40, &mix, 0);
    assert_eq!(world.forks.len(), 2, "{:?}", world.log);
    assert!(world.log.iter().any(|words| words == "route"), "reads choose: {:?}", world.log);
    assert_ne!(world.forks[0], world.forks[1]);
    world.striper.handle(Time::from_secs(40), Event::Space(0.05));
    world.run(3, &mix, 0);
    assert_eq!(world.forks.len(), 1, "space is returned: {:?}", world.log);
    world.run(30, &mix, 0);
    assert_eq!(world.forks.len(), 1, "and not taken again while it is scarce");
}

#[test]
fn a_file_that_is_written_keeps_no_forks() {
    let mix = [(140, 64), (20, 512)];
    let mut world = World::new(striper(Mode::Model, |config| config.forks = 2), 256);
    world.run(40, &mix, 60);
    assert_eq!(world.forks.len(), 1, "{:?}", world.log);
    world.run(40, &mix, 0);
    assert_eq!(world.forks.len(), 2, "{:?}", world.log);
    world.run(40, &mix, 400);
    assert_eq!(world.forks.len(), 1, "{:?}", world.log);
}

#[test]
fn memory_is_bounded_and_the_busy_stay() {
    let mut striper = striper(Mode::Model, |config| config.files_max = 4);
    for n in 0..100u64 {
        let mut counts = Box::<Counts>::default();
        counts[0].reads = 1;
        striper.handle(
            Time::from_millis(n),
            Event::Asked { file: FileId(n), counts: counts.clone(), users: 1, recent: Vec::new() },
        );
        striper.handle(Time::from_millis(n), Event::Asked { file: FileId(0), counts, users: 1, recent: Vec::new() });
    }
    assert_eq!(striper.len(), 4);
    assert!(striper.view(Time::ZERO, FileId(0)).is_some() && striper.view(Time::ZERO, FileId(50)).is_none());
    striper.handle(Time::ZERO, Event::Gone(FileId(0)));
    assert_eq!(striper.len(), 3);
}

#[test]
fn what_the_requests_look_like_counts_for_the_rules() {
    let look = |classifier: Chosen, step: u64| {
        let change = |config: &mut Config| (config.classifier, config.widths) = (classifier, (1..=8).collect());
        let mut world = World::new(striper(Mode::Fuzzy, change), 600);
        let offset = |n: u64| if step > 0 { n * step } else { (n * n + 17).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 30 };
        world.recent = (0..64).map(|n| Request { write: false, offset: offset(n), len: 600 << 10 }).collect();
        world.run(30, &[(50, 600)], 0);
        let view = world.striper.view(Time::from_secs(30), FILE).unwrap();
        (world.forks[0].spans(f64::from(600 << 10)), view.pattern.unwrap().to_string())
    };
    for classifier in [Chosen::default(), Chosen::Thumb(crate::pattern::rules::RulesOfThumb)] {
        let (sequential, random) = (look(classifier.clone(), 600 << 10), look(classifier.clone(), 0));
        assert_eq!(sequential.1, "read-only, sequential, uniform sizes");
        assert_eq!(random.1, "read-only, random, uniform sizes");
        assert!(sequential.0 > random.0, "{sequential:?} {random:?}");
    }
}

/// [S-180] Rules may demand a width under which the devices cannot bear the load: the striper chooses a narrower one
/// that they can.
#[test]
fn rules_never_lead_into_an_unstable_width() {
    const WIDE: &str = "\
input RequestRate
  ANY trapezoid 0 0 1 1
input DiskPerformance
  LOW trapezoid 0 0 1/4 1/2
output RequestWidth
  ONE triangle 0 0.02 0.04
  ALL triangle 0.96 0.98 1
";
    // 32 KiB should take 11.6 ms. Over all eight devices 150 requests/s keep each busy 1.5 s in a second, over four 0.8
    // s. If they take twice as long as in the model, two are the most.
    let served = |took_ns| Served { operations: 100, bytes: 100 << 15, took_ns, queued: 100 };
    let all = "if RequestRate is ANY then RequestWidth is ALL";
    let all_if_slow =
        "if RequestRate is ANY then RequestWidth is ONE\nif DiskPerformance is LOW then RequestWidth is ALL";
    for (mode, took_ms, most, rule) in
        [(Mode::Fuzzy, 1164, 4, all), (Mode::Fuzzy, 2328, 2, all), (Mode::ModelFuzzy, 2328, 2, all_if_slow)]
    {
        let config = Config::new(mode, &Measured::disk(0.012, 0.008, 20e6, 20e6, 0.0), 8);
        let rules = rules::parse(&format!("{WIDE}{rule}")).unwrap();
        let mut world = World::new(Striper::new(config, rules, Time::ZERO), 1024);
        let near = served(took_ms * 1_000_000);
        world.striper.handle(Time::ZERO, Event::Served { near, far: Served::default() });
        world.run(60, &[(150, 32)], 0);
        let new = world.striper.placement(None).unwrap();
        for shape in [world.forks[0], new] {
            let at = Parameters { rate: 150.0, request_blocks: 8.0, ..world.striper.config.parameters };
            let wide = shape.spans(32768.0);
            assert!(at.predict(wide).request_s.is_finite(), "{mode:?}: {wide} wide, {:?}", world.log);
            assert_eq!(wide, most, "{mode:?}, {took_ms}: as wide as they can bear: {:?}", world.log);
        }
    }
}

/// The model follows the measured speed of devices once it is off, and the rules do not react to nominal performance.
#[test]
fn slower_devices_make_requests_narrower() {
    let spans = |mode, took_ms: u64| {
        let mut world = World::new(striper(mode, |_| {}), 1024);
        let served =
            Served { operations: 100, bytes: 100 * (300 << 10), took_ns: 100 * took_ms * 1_000_000, queued: 100 };
        world.striper.handle(Time::ZERO, Event::Served { near: served, far: Served::default() });
        world.run(30, &[(12, 600)], 0);
        world.forks[0].spans(600.0 * 1024.0)
    };
    // 300 KiB should take 25 ms.
    for mode in [Mode::Model, Mode::ModelFuzzy, Mode::Fuzzy] {
        assert!(spans(mode, 250) < spans(mode, 25), "{mode:?}: {} {}", spans(mode, 250), spans(mode, 25));
        assert_eq!(spans(mode, 28), spans(mode, 25), "{mode:?}: nearly as measured");
    }
    assert_eq!(spans(Mode::ModelFuzzy, 25), spans(Mode::Model, 25));
}

/// A load that never changes, whose counts do by chance: the layout follows it once.
#[test]
fn a_layout_does_not_follow_chance() {
    let config = Config::of(Mode::Model, Parameters { devices: 24, ..Parameters::default() }, 1e-7);
    let mut world = World::new(Striper::new(config, Rules::default(), Time::ZERO), 1024);
    world.forks[0].devices = 24;
    let mut state = 1u64;
    for _ in 0..600 {
        // Ten a second on average: the sum of twenty draws of zero or one.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        world.run(1, &[(u64::from((state >> 44).count_ones()), 4096)], 0);
    }
    assert!((1..=2).contains(&world.changes().len()), "{:?}", world.log);
}

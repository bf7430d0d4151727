//! Several processes on one file in all ways that there are, while it is moved: a read sees every write that was
//! acknowledged before it began. In each `io` mode, on striped, single and mirrored files, and on a plain file system
//! to compare with.
//!
//! The seed is printed; `ENTREPOT_SEED` repeats one (as far as processes do), `ENTREPOT_STEPS` is the number of
//! operations in each mode and on each kind of file.

#[path = "mount/processes/mod.rs"]
mod processes;
#[allow(dead_code)]
#[path = "mount/volume.rs"]
mod volume;

use engine::file::File;
use engine::mover::Mover;
use engine::stats::Metric;
use engine::volume::Io;
use meta::state::SqliteState;
use policy::cache::LevelConfig;
use policy::layout::{Layout, Placement, Reason};
use processes::{Kind, Random, Round};
use std::sync::Arc;

/// One of the processes: this very program, started again.
#[test]
fn process() {
    assert!(!processes::is_process());
}

fn seed() -> u64 {
    std::env::var("ENTREPOT_SEED").map_or(1, |seed| seed.parse().expect("ENTREPOT_SEED is a number"))
}

/// Operations on one kind of file in one mode.
fn steps() -> u64 {
    std::env::var("ENTREPOT_STEPS").map_or(6_000, |steps| steps.parse().expect("ENTREPOT_STEPS is a number"))
}

const PROCESSES: u64 = 4;

/// Rounds of both kinds, with and without a process that has the file open throughout.
fn rounds(maps_read_only: bool) -> impl Iterator<Item = Round> {
    let (steps, seed) = (steps(), seed());
    let in_round = (steps / 4).clamp(PROCESSES, 20_000);
    (0..steps.div_ceil(in_round)).map(move |number| Round {
        seed: seed * 1000 + number,
        kind: if number % 2 == 0 { Kind::Mapped } else { Kind::Direct },
        processes: PROCESSES,
        steps: in_round / PROCESSES,
        held: number % 4 < 2,
        // With a constant writer every open reads through the page cache.
        maps_read_only: maps_read_only || number % 4 < 2,
        late: false,
    })
}

/// Moves of the file during the round.
struct Moves {
    mover: Mover,
    place: Placement,
    /// Whether the file stays one object.
    single: bool,
    random: Random,
    done: usize,
}

impl Moves {
    fn one(&mut self, file: &Arc<File>) {
        let Some(layout) = file.layout() else { return };
        let placed = |random: &mut Random| {
            let stripe_count = if self.single { 1 } else { 1 + random.below(3) as usize };
            Placement { stripe_count, mirrors: 1, ..self.place.clone() }
        };
        let moved = match self.random.below(3) {
            0 => self.mover.replace_target(file, some_target(&layout), Reason::Drained(some_target(&layout))).map(drop),
            1 if layout.mirrors.len() > self.place.mirrors => {
                let which = self.random.below(layout.mirrors.len() as u64) as usize;
                self.mover.drop_mirror(file, which).map(drop)
            }
            1 => self.mover.add_mirror(file, &placed(&mut self.random)).map(drop),
            _ => self.mover.restripe(file, 0, &placed(&mut self.random)).map(drop),
        };
        self.done += usize::from(moved.is_ok());
    }
}

fn some_target(layout: &Layout) -> policy::TargetId {
    layout.mirrors[0].segments[0].objects[0].target
}

fn on_a_volume(wanted: volume::Wanted, maps_read_only: bool) {
    if volume::cannot_mount() {
        return;
    }
    let (io, place) = (wanted.options.io, wanted.placement.clone());
    let single = place.stripe_count == 1 && wanted.cache.is_none();
    let dir = tempfile::tempdir().unwrap();
    let volume = volume::Volume::start(dir.path(), wanted);
    if single {
        // Its object is made with the file, so that the kernel has it from the first open on.
        let layout = b"stripe_count=1";
        rustix::fs::setxattr(&volume.at, "user.entrepot.layout", layout, rustix::fs::XattrFlags::empty()).unwrap();
    }
    let mover = Mover::new(volume.files.pool().clone(), Arc::new(SqliteState::in_memory().unwrap()), None);
    let mut moves = Moves { mover, place, single, random: Random(seed() | 1), done: 0 };
    for round in rounds(maps_read_only) {
        eprintln!("{io:?}, {}, {round:?}", if single { "single" } else { "striped or mirrored" });
        let stub = dir.path().join("namespace/tree/f");
        let meanwhile = || {
            std::thread::sleep(std::time::Duration::from_millis(2));
            let Ok(stub) = std::fs::OpenOptions::new().read(true).write(true).open(&stub) else { return };
            if let Ok(file) = volume.files.get_or_open(stub.into()) {
                moves.one(&file);
            }
        };
        let run = processes::run(round, &volume.at.join("f"), &dir.path().join("shared"), meanwhile);
        run.unwrap_or_else(|error| panic!("{io:?}: {error}"));
    }
    eprintln!("{} moves", moves.done);
    // Files with passthrough are not moved.
    assert!(single || moves.done > 0, "something was moved");
    assert!(!single || volume.stats.get(Metric::PassthroughOpens) > 0, "the kernel read and wrote by itself");
}

fn wanted(io: Io, stripe_count: usize, mirrors: usize) -> volume::Wanted {
    let mut wanted = volume::Wanted::default();
    wanted.options.io = io;
    wanted.placement = Placement { stripe_count, mirrors, ..wanted.placement };
    wanted
}

/// Contents of a mapping of a file that is read past the page cache are not promised while it has no writer.
const DIRECT_MAPS: bool = false;

/// [S-140]
#[test]
fn processes_agree_on_striped_files() {
    on_a_volume(wanted(Io::Auto, 4, 1), true);
    on_a_volume(wanted(Io::Cached, 4, 1), true);
    on_a_volume(wanted(Io::Direct, 4, 1), DIRECT_MAPS);
}

/// [S-140]
#[test]
fn processes_agree_on_files_of_one_object() {
    on_a_volume(wanted(Io::Auto, 1, 1), true);
    on_a_volume(wanted(Io::Cached, 1, 1), true);
    on_a_volume(wanted(Io::Direct, 1, 1), true);
}

/// [S-140]
#[test]
fn processes_agree_on_mirrored_files() {
    on_a_volume(wanted(Io::Auto, 2, 2), true);
    on_a_volume(wanted(Io::Cached, 2, 2), true);
    on_a_volume(wanted(Io::Direct, 2, 2), DIRECT_MAPS);
}

/// [S-090] [S-140]
#[test]
fn processes_agree_before_a_block_cache() {
    let mut wanted = wanted(Io::Auto, 4, 1);
    wanted.cache = Some(LevelConfig::new(64, policy::words::prefetch("stream").unwrap()));
    on_a_volume(wanted, DIRECT_MAPS);
}

#[test]
fn processes_agree_on_the_file_system_underneath() {
    let dir = tempfile::tempdir().unwrap();
    for round in rounds(true) {
        processes::run(round, &dir.path().join("f"), &dir.path().join("shared"), wait).unwrap();
    }
}

/// The canary: a process whose writes come a little after they were acknowledged is found out.
#[test]
fn a_write_that_comes_late_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    for round in rounds(true).map(|round| Round { late: true, ..round }) {
        let run = processes::run(round, &dir.path().join("f"), &dir.path().join("shared"), wait);
        let told = run.expect_err("the first process lies");
        assert!(told.contains("of none of the versions") || told.contains("is not of version"), "{told}");
    }
}

fn wait() {
    std::thread::sleep(std::time::Duration::from_millis(2));
}

//! Copies inside the kernel against copies through the process, between real directories and where one side is none.

use crate::file::{File, Pool};
use crate::mover::{Mover, Step};
use crate::state::SqliteState;
use crate::stats::{Metric, Stats};
use crate::stub::memory::MemoryStub;
use crate::target::{
    DirectoryMedium, Identity, InlineSlots, Medium, MemoryMedium, TargetSpec, Targets, TargetsOptions,
};
use crate::volume::VolumeId;
use policy::TargetId;
use policy::layout::Placement;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Three targets of tier 0 and three of tier 1, each tier of directories or of memory; a file, and who moves it.
struct World {
    file: Arc<File>,
    pool: Arc<Pool>,
    state: Arc<SqliteState>,
    stats: Arc<Stats>,
    _dirs: tempfile::TempDir,
}

impl World {
    fn new(directories: [bool; 2]) -> World {
        let dirs = tempfile::tempdir().unwrap();
        let targets = Targets::new(TargetsOptions { slots: Arc::new(InlineSlots::new(4)), ..TargetsOptions::inline() });
        for number in 0..6u16 {
            let tier = number / 3;
            let medium: Arc<dyn Medium> = if directories[usize::from(tier)] {
                let path = dirs.path().join(number.to_string());
                std::fs::create_dir(&path).unwrap();
                let identity = Identity { volume: VolumeId(1), target: TargetId(number), name: format!("t{number}") };
                DirectoryMedium::format(&path, &identity).unwrap();
                let medium = DirectoryMedium::new(&path, identity);
                medium.probe().unwrap();
                Arc::new(medium)
            } else {
                Arc::new(MemoryMedium::new(u64::from(number)))
            };
            targets.add(TargetSpec::new(TargetId(number), tier as u8, medium));
        }
        let next = AtomicU64::new(1 << 32);
        let next_id = move || next.fetch_add(1, Ordering::Relaxed);
        let pool = Arc::new(Pool::new(targets, next_id, shape(0, 65_536, 3)));
        let file = File::open(Arc::new(MemoryStub::new()), pool.clone()).unwrap();
        let state = Arc::new(SqliteState::in_memory().unwrap());
        World { file, pool, state, stats: Arc::default(), _dirs: dirs }
    }

    fn mover(&self) -> Mover {
        Mover::new(self.pool.clone(), self.state.clone(), None).with_stats(self.stats.clone())
    }

    /// Bytes moved, and those of them inside the kernel.
    fn moved(&self) -> (u64, u64) {
        (self.stats.get(Metric::MoverBytes), self.stats.get(Metric::MoverKernelBytes))
    }

    fn read(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.file.size() as usize];
        assert_eq!(self.file.read(0, &mut bytes).unwrap(), bytes.len());
        bytes
    }
}

fn shape(tier: u8, stripe_size: u64, stripe_count: usize) -> Placement {
    Placement { stripe_size, stripe_count, single_bytes_max: 0, segment_bytes: 0, mirrors: 1, tier: Some(tier) }
}

/// No two bytes near each other are equal, nor two at the same place of two stripes.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let step = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x as u8
    };
    std::iter::repeat_with(step).take(len).collect()
}

#[test]
fn what_the_kernel_copies_is_the_same_to_the_byte() {
    const SIZE: usize = (5 << 20) + 4321;
    // Stripes of the copy: the same, smaller, larger, and such that pieces end in the middle of pages of the other.
    for (in_kernel, stripe, count) in
        [(true, 65_536, 3), (true, 4096, 2), (true, 1 << 20, 1), (true, 12_288, 3), (false, 12_288, 3)]
    {
        let mut bytes = noise(SIZE, stripe);
        // A hole in the middle, whose ends lie in the middle of blocks.
        bytes[(1 << 20) + 77..3 << 20].fill(0);
        let copy = || {
            let world = World::new([true, true]);
            world.file.write(0, &bytes[..(1 << 20) + 77]).unwrap();
            world.file.write(3 << 20, &bytes[3 << 20..]).unwrap();
            let mover = world.mover().with_copies_in_kernel(in_kernel);
            mover.add_mirror(&world.file, &shape(1, stripe, count)).unwrap();
            let (moved, inside) = world.moved();
            assert!(moved > 2 << 20 && moved < SIZE as u64, "the hole is not copied: {moved}");
            mover.drop_mirror(&world.file, 0).unwrap();
            assert!(world.read() == bytes, "stripes of {stripe}, {in_kernel}");
            inside == if in_kernel { moved } else { 0 }
        };
        // A kernel short of memory takes pages back out of the pipe; what is left is copied through the process then.
        assert!((0..5).any(|_| copy()), "stripes of {stripe}, {in_kernel}");
    }
}

#[test]
fn where_one_side_is_no_file_bytes_are_read_and_written() {
    for directories in [[true, false], [false, true], [false, false]] {
        let world = World::new(directories);
        let bytes = noise((3 << 20) + 5, 7);
        world.file.write(0, &bytes).unwrap();
        let mover = world.mover();
        mover.add_mirror(&world.file, &shape(1, 12_288, 2)).unwrap();
        assert_eq!(world.moved(), (bytes.len() as u64, 0), "{directories:?}");
        mover.drop_mirror(&world.file, 0).unwrap();
        assert!(world.read() == bytes, "{directories:?}");
    }
}

/// Pages are in the pipe by reference: what is written or cut while they are there must not be missed. [S-024]
#[test]
fn what_is_written_or_cut_during_a_copy_inside_the_kernel_is_in_it() {
    let mut inside = 0;
    for seed in 1..6 {
        let world = World::new([true, true]);
        let model = Arc::new(parking_lot::Mutex::new(noise(4 << 20, seed)));
        world.file.write(0, &model.lock()).unwrap();
        let (file, inner, turns) = (world.file.clone(), model.clone(), AtomicU64::new(0));
        let hook = move |step| {
            // The first pass has four chunks; in the last one the mover keeps everybody out.
            if step != Step::ChunkCopied || turns.load(Ordering::Relaxed) == 3 {
                return Ok(());
            }
            let turn = seed * 10 + turns.fetch_add(1, Ordering::Relaxed);
            let mut model = inner.lock();
            if turn.is_multiple_of(3) {
                let size = (turn * 7_654_321 % (5 << 20)) + 1;
                file.truncate(size)?;
                model.resize(size as usize, 0);
            } else {
                let at = (turn * 1_234_567) as usize % model.len();
                let data = noise(10_000, turn);
                file.write(at as u64, &data)?;
                let end = model.len().max(at + data.len());
                model.resize(end, 0);
                model[at..at + data.len()].copy_from_slice(&data);
            }
            Ok(())
        };
        let mover = world.mover().with_crash_hook(Arc::new(hook));
        mover.add_mirror(&world.file, &shape(1, 12_288, 2)).unwrap();
        inside += world.moved().1;
        world.mover().drop_mirror(&world.file, 0).unwrap();
        assert!(world.read() == *model.lock(), "seed {seed}");
    }
    assert!(inside > 0);
}

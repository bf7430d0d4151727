//! Layout changes beside opens that the kernel serves by itself, and beside mappings that outlive them: each
//! acknowledged write is seen and stays, and the change waits.

use super::volume::{Volume, Wanted, cannot_mount};
use super::{PAGE, open};
use engine::file::File as Stored;
use engine::mover::Mover;
use engine::stats::Metric;
use meta::state::SqliteState;
use object::target::Order;
use policy::TargetId;
use policy::layout::{Placement, Reason};
use rustix::fs::OFlags;
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

const LEN: usize = 1_000_000;
const APPEND: i32 = OFlags::APPEND.bits() as i32;

/// A volume with a file of one object.
struct Scene {
    mover: Mover,
    volume: Volume,
    path: PathBuf,
    _dir: tempfile::TempDir,
}

impl Scene {
    /// `None` where FUSE is missing. With `stripe_count` 1 the object takes all growth, else only the first bytes.
    fn new(stripe_count: usize) -> Option<Scene> {
        if cannot_mount() {
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let mut wanted = Wanted::default();
        let single_bytes_max = 2 << 20;
        wanted.placement = Placement { stripe_count, single_bytes_max, ..wanted.placement };
        let volume = Volume::start(dir.path(), wanted);
        let mover = Mover::new(volume.files.pool().clone(), Arc::new(SqliteState::in_memory().unwrap()), None);
        let path = volume.at.join("f");
        fs::write(&path, vec![b'a'; LEN]).unwrap();
        Some(Scene { mover, volume, path, _dir: dir })
    }

    /// Opens until the kernel serves the open: the writer's close comes to the daemon a little later.
    fn first(&self, access: OFlags) -> File {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let file = open(&self.path, access, 0);
            if self.volume.stats.get(Metric::PassthroughOpens) > 0 {
                return file;
            }
            drop(file);
            assert!(Instant::now() < until, "the kernel serves no file");
        }
    }

    fn stored(&self) -> Arc<Stored> {
        let stub = self.volume.dir.join("namespace/tree/f");
        let stub = fs::OpenOptions::new().read(true).write(true).open(stub).unwrap();
        self.volume.files.get_or_open(stub.into()).unwrap()
    }

    fn target(&self) -> TargetId {
        self.stored().layout().unwrap().mirrors[0].segments[0].objects[0].target
    }

    /// Moves the file off its target.
    fn moves(&self) -> object::Result<()> {
        let target = self.target();
        self.mover.replace_target(&self.stored(), target, Reason::Drained(target)).map(drop)
    }

    fn refuses_to_move(&self) {
        let refused = self.moves().expect_err("the kernel uses the object");
        assert!(matches!(refused, object::Error::Busy(_)), "{refused}");
        let another = Placement { stripe_count: 1, ..Wanted::default().placement };
        let refused = self.mover.add_mirror(&self.stored(), &another).expect_err("the kernel uses the object");
        assert!(matches!(refused, object::Error::Busy(_)), "{refused}");
    }

    /// All opens and mappings are gone: the file moves as soon as the daemon got the last close.
    fn moves_soon(&self) {
        let (from, until) = (self.target(), Instant::now() + Duration::from_secs(60));
        while let Err(error) = self.moves() {
            assert!(matches!(error, object::Error::Busy(_)) && Instant::now() < until, "{error}");
            std::thread::yield_now();
        }
        assert_ne!(self.target(), from);
    }

    fn read(&self, at: u64, len: usize) -> String {
        read(&File::open(&self.path).unwrap(), at, len)
    }
}

fn read(file: &File, at: u64, len: usize) -> String {
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, at).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// A shared mapping.
struct Map {
    at: *mut u8,
    len: usize,
}

impl Map {
    fn new(file: &File, len: usize) -> Map {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, used within its length until it is dropped.
        let at = unsafe { rustix::mm::mmap(std::ptr::null_mut(), len, access, MapFlags::SHARED, file, 0).unwrap() };
        Map { at: at.cast(), len }
    }

    fn get(&self, at: usize) -> u8 {
        assert!(at < self.len);
        // SAFETY: within the mapping.
        unsafe { self.at.add(at).read_volatile() }
    }

    fn store(&self, at: usize, byte: u8) {
        assert!(at < self.len);
        // SAFETY: within the mapping; only this thread stores.
        unsafe { self.at.add(at).write_volatile(byte) };
        // SAFETY: the whole mapping.
        unsafe { rustix::mm::msync(self.at.cast(), self.len, MsyncFlags::SYNC).unwrap() };
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: nothing uses it any more.
        unsafe { rustix::mm::munmap(self.at.cast(), self.len).unwrap() };
    }
}

/// [S-345] [S-010] [S-021] [S-033]
#[test]
fn writes_of_an_open_made_during_a_drain_stay() {
    let Some(scene) = Scene::new(1) else { return };
    let first = scene.first(OFlags::RDWR);
    scene.volume.targets.operate(scene.target(), Order::Drain).unwrap();
    let second = open(&scene.path, OFlags::RDWR, 0);
    drop(first);
    for _ in 0..20 {
        scene.refuses_to_move();
    }
    second.write_all_at(b"SECOND", 0).unwrap();
    let third = open(&scene.path, OFlags::RDWR, 0);
    assert_eq!(read(&third, 0, 6), "SECOND");
    third.write_all_at(b"THIRD", 10).unwrap();
    third.sync_all().unwrap();
    assert_eq!(read(&second, 10, 5), "THIRD");
    drop((second, third));
    scene.moves_soon();
    assert_eq!((scene.read(0, 6), scene.read(10, 5)), ("SECOND".into(), "THIRD".into()));
}

/// [S-345] [S-010] [S-020]
#[test]
fn a_log_whose_reader_left_is_written_on_where_all_see_it() {
    for stripe_count in [1, 4] {
        let Some(scene) = Scene::new(stripe_count) else { return };
        let reader = scene.first(OFlags::RDONLY);
        let log = open(&scene.path, OFlags::RDWR, APPEND);
        drop(reader);
        for _ in 0..20 {
            scene.refuses_to_move();
        }
        std::io::Write::write_all(&mut &log, b"appended").unwrap();
        assert_eq!(scene.read(LEN as u64, 8), "appended");
        let third = open(&scene.path, OFlags::RDWR, 0);
        third.write_all_at(b"WRITTEN", 100).unwrap();
        third.sync_all().unwrap();
        assert_eq!(read(&log, 100, 7), "WRITTEN");
        drop(third);
        assert_eq!(scene.read(100, 7), "WRITTEN");
        drop(log);
        scene.moves_soon();
        assert_eq!((scene.read(100, 7), scene.read(LEN as u64, 8)), ("WRITTEN".into(), "appended".into()));
    }
}

/// [S-345] [S-140]
#[test]
fn a_mapping_beside_growth_shows_the_whole_file() {
    let Some(scene) = Scene::new(4) else { return };
    let reader = scene.first(OFlags::RDONLY);
    let writer = open(&scene.path, OFlags::RDWR, 0);
    let map = Map::new(&writer, 8 * LEN);
    drop(reader);
    writer.set_len(8 * LEN as u64).unwrap();
    writer.write_all_at(b"g", 7 * LEN as u64).unwrap();
    assert_eq!((map.get(7 * LEN), map.get(LEN / 2)), (b'g', b'a'));
    assert_eq!(scene.read(7 * LEN as u64, 1), "g");
    map.store(3, b'M');
    assert_eq!((scene.read(3, 1), read(&writer, 3, 1)), ("M".into(), "M".into()));
    drop((map, writer));
    scene.moves_soon();
    assert_eq!((scene.read(3, 1), scene.read(7 * LEN as u64, 1)), ("M".into(), "g".into()));
}

/// The file of a mapping is the object's, so the last close comes while the mapping lives.
/// [S-345] [S-140]
#[test]
fn a_mapping_that_outlives_all_opens_keeps_the_file_where_it_is() {
    for stripe_count in [1, 4] {
        let Some(scene) = Scene::new(stripe_count) else { return };
        let reader = scene.first(OFlags::RDONLY);
        let writer = open(&scene.path, OFlags::RDWR, 0);
        let map = Map::new(&writer, LEN);
        drop((reader, writer));
        let until = Instant::now() + Duration::from_secs(60);
        while scene.stored().is_open() {
            assert!(Instant::now() < until, "the closes do not come");
            std::thread::yield_now();
        }
        for number in 0..20u8 {
            scene.refuses_to_move();
            map.store(5, b'A' + number);
            assert_eq!(scene.read(5, 1).as_bytes(), [b'A' + number]);
        }
        // An open that may not be passed through joins as well.
        let log = open(&scene.path, OFlags::RDWR, APPEND);
        map.store(6, b'6');
        assert_eq!(read(&log, 6, 1), "6");
        drop((log, map));
        scene.moves_soon();
        assert_eq!((scene.read(5, 1), scene.read(6, 1)), ("T".into(), "6".into()));
    }
}

/// [S-346]
#[test]
fn splice_serves_a_writer_beside_a_reader() {
    for drains in [false, true] {
        let Some(scene) = Scene::new(4) else { return };
        let reader = scene.first(OFlags::RDONLY);
        if drains {
            scene.volume.targets.operate(scene.target(), Order::Drain).unwrap();
        }
        let writer = open(&scene.path, OFlags::RDWR, 0);
        let (out, into) = rustix::pipe::pipe().unwrap();
        for number in 1..20u64 {
            writer.write_all_at(&number.to_be_bytes(), PAGE as u64).unwrap();
            for file in [&reader, &writer] {
                let (mut offset, mut bytes) = (PAGE as u64, [0; 8]);
                let flags = rustix::pipe::SpliceFlags::empty();
                rustix::pipe::splice(file, Some(&mut offset), &into, None, 8, flags).unwrap();
                rustix::io::read(&out, &mut bytes).unwrap();
                assert_eq!(u64::from_be_bytes(bytes), number);
            }
        }
    }
}

//! Tests of the table against renames and removals: reported, unreported, and while no daemon ran.

use engine::file::{File, FileTable, Pool};
use meta::places::{CHANGES_MAX, Places};
use object::target::{DirectoryMedium, Identity, Medium, TargetSpec, Targets, TargetsOptions};
use object::volume_id::VolumeId;
use policy::FileId;
use policy::TargetId;
use policy::layout::{Placement, Reason};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A namespace with one target, and a daemon's objects for it.
struct World {
    places: Arc<Places>,
    files: Arc<FileTable>,
    next: Arc<AtomicU64>,
    home: tempfile::TempDir,
}

impl World {
    fn new() -> World {
        let home = tempfile::tempdir().expect("a directory");
        for part in ["ns/tree", "ns/side", "ns/open", "target"] {
            fs::create_dir_all(home.path().join(part)).expect("a directory");
        }
        World::on(home, Arc::new(AtomicU64::new(1)))
    }

    /// Starts a daemon on an existing namespace.
    fn on(home: tempfile::TempDir, next: Arc<AtomicU64>) -> World {
        let identity = Identity { volume: VolumeId(1), target: TargetId(0), name: "t0".into() };
        let at = home.path().join("target");
        DirectoryMedium::format(&at, &identity).expect("formatted");
        let medium = DirectoryMedium::new(&at, identity);
        medium.probe().expect("it is a target");
        let targets = Targets::new(TargetsOptions::inline());
        targets.add(TargetSpec::new(TargetId(0), 0, Arc::new(medium)));
        let placement = Placement {
            stripe_size: 4096,
            stripe_count: 1,
            single_bytes_max: 0,
            segment_bytes: 0,
            mirrors: 1,
            tier: None,
        };
        let numbers = next.clone();
        let pool = Pool::new(targets, move || numbers.fetch_add(1, Ordering::Relaxed), placement);
        let places = Places::open(&home.path().join("files.db"), &home.path().join("ns")).expect("opens");
        drop(pool.places.set(places.clone()));
        let files = FileTable::new(Arc::new(pool), home.path().join("ns"));
        World { places, files, next, home }
    }

    /// Restarts the daemon after a kill, or (`clean`) after an end that wrote all changes.
    fn again(self, clean: bool) -> World {
        let World { places, files, next, home } = self;
        if clean {
            places.write_noted();
        }
        drop((places, files));
        World::on(home, next)
    }

    fn tree(&self, path: &str) -> PathBuf {
        self.home.path().join("ns/tree").join(path)
    }

    fn open(&self, path: &str) -> Arc<File> {
        let file = self.files.open_at(self.places.tree(), path).expect("opens");
        file.expect("is there")
    }

    /// Makes a file with a layout; returns its number.
    fn made(&self, path: &str) -> FileId {
        fs::create_dir_all(self.tree(path).parent().expect("in a directory")).expect("a directory");
        fs::write(self.tree(path), []).expect("a stub");
        let file = self.open(path);
        file.lay_out(10, &self.files.pool().placement, Reason::Requested).expect("well");
        file.id().expect("it has a layout")
    }

    fn found(&self, id: FileId) -> Option<FileId> {
        self.files.find(id).map(|file| file.id().expect("it has a layout"))
    }
}

#[test]
fn a_file_is_found_where_it_was_laid_out_without_a_walk_also_after_a_restart() {
    let world = World::new();
    let (one, two) = (world.made("a/b/one"), world.made("two"));
    assert_eq!(world.places.path_of(one), Some("a/b/one".into()));
    assert_eq!((world.found(one), world.found(two)), (Some(one), Some(two)));
    let world = world.again(true);
    assert!(world.files.in_use(one).is_none());
    assert_eq!((world.found(one), world.found(two), world.places.walks()), (Some(one), Some(two), 0));
}

#[test]
fn a_renamed_directory_takes_what_is_below_it_along() {
    let world = World::new();
    let id = world.made("run/step/out");
    let inode = |path: &str| rustix::fs::stat(world.tree(path)).expect("is there").st_ino;
    fs::rename(world.tree("run/step"), world.tree("done")).expect("well");
    world.places.directory_is(inode("done"), inode(""), OsStr::new("done"));
    assert_eq!(world.places.path_of(id), Some("done/out".into()));
    let world = world.again(true);
    assert_eq!((world.found(id), world.places.walks()), (Some(id), 0));
}

#[test]
fn what_was_renamed_unseen_costs_one_walk() {
    let world = World::new();
    let (id, other) = (world.made("a/one"), world.made("a/two"));
    let world = world.again(true);
    fs::rename(world.tree("a"), world.tree("b")).expect("well");
    assert_eq!((world.found(id), world.places.walks()), (Some(id), 1));
    assert_eq!((world.found(other), world.places.walks()), (Some(other), 1));
    assert_eq!(world.places.path_of(other), Some("b/two".into()));
}

#[test]
fn a_removed_file_costs_one_walk_in_the_life_of_a_daemon_and_none_where_it_is_known() {
    let world = World::new();
    let (id, unseen) = (world.made("one"), world.made("two"));
    let world = world.again(true);
    fs::remove_file(world.tree("two")).expect("well");
    assert_eq!((world.found(unseen), world.places.walks()), (None, 1));
    let file = world.open("one");
    fs::remove_file(world.tree("one")).expect("well");
    file.remove_objects().expect("well");
    drop(file);
    assert_eq!((world.found(id), world.found(unseen), world.found(FileId(77))), (None, None, None));
    assert_eq!(world.places.walks(), 1);
}

#[test]
fn what_a_killed_daemon_had_not_written_is_found_by_a_walk() {
    let world = World::new();
    let early = world.made("early");
    let world = world.again(true);
    let late = world.made("deep/down/late");
    let world = world.again(false);
    assert_eq!((world.found(early), world.places.walks()), (Some(early), 0));
    assert_eq!((world.found(late), world.places.walks()), (Some(late), 1));
    assert!(world.places.is_whole());
}

#[test]
fn a_table_that_is_missing_damaged_or_of_another_namespace_is_made_anew() {
    for damage in ["missing", "damaged", "cut", "another's"] {
        let world = World::new();
        let ids = ["a/one", "a/two", "three"].map(|path| world.made(path));
        let world = world.again(true);
        let World { places, files, next, home } = world;
        drop((places, files));
        let table = home.path().join("files.db");
        match damage {
            "missing" => fs::remove_file(&table).expect("well"),
            "damaged" => fs::write(&table, [7; 9000]).expect("well"),
            "cut" => fs::File::options().write(true).open(&table).expect("opens").set_len(5000).expect("well"),
            _ => {
                // The tree was restored from a backup: every inode is new, and the names have changed.
                fs::rename(home.path().join("ns/tree"), home.path().join("old")).expect("well");
                fs::create_dir(home.path().join("ns/tree")).expect("well");
                fs::rename(home.path().join("old/a"), home.path().join("ns/tree/three")).expect("well");
                fs::rename(home.path().join("old/three"), home.path().join("ns/tree/a")).expect("well");
            }
        }
        let world = World::on(home, next);
        assert_eq!(ids.map(|id| world.found(id)), ids.map(Some), "{damage}");
        assert_eq!(world.places.walks(), 1, "{damage}");
    }
}

#[test]
fn a_path_that_leads_to_another_file_is_not_believed() {
    let world = World::new();
    let (one, two) = (world.made("one"), world.made("two"));
    let root = rustix::fs::stat(world.tree("")).expect("is there").st_ino;
    let world = world.again(true);
    world.places.file_is(one, root, OsStr::new("two"));
    assert_eq!((world.found(one), world.found(two)), (Some(one), Some(two)));
    assert_eq!(world.files.noted(FileId(99)).map(|file| file.id()), None);
}

#[test]
fn more_changes_than_are_kept_cost_a_walk_and_no_memory() {
    let world = World::new();
    let id = world.made("one");
    let world = world.again(true);
    assert!(world.found(FileId(1 << 40)).is_none() && world.places.is_whole());
    for number in 0..=CHANGES_MAX as u64 {
        world.places.file_is_gone(FileId((1 << 32) + number));
    }
    assert_eq!(world.places.noted(), CHANGES_MAX);
    assert!(!world.places.is_whole());
    let late = world.made("late");
    let world = world.again(true);
    assert_eq!((world.found(late), world.found(id)), (Some(late), Some(id)));
    assert_eq!(world.places.walks(), 1);
}

#[test]
fn messages_call_a_closed_file_by_the_path_that_it_has_now() {
    let world = World::new();
    let id = world.made("d/a");
    assert_eq!(world.files.in_use(id).map(drop), None, "nobody has it open");
    assert_eq!(world.files.pool().name_of(id), "d/a");
    let directory = fs::metadata(world.tree("d")).expect("there").ino();
    fs::rename(world.tree("d/a"), world.tree("d/b")).expect("renamed");
    world.places.file_is(id, directory, OsStr::new("b"));
    assert_eq!(world.files.pool().name_of(id), "d/b");
    assert_eq!(world.files.pool().name_of(FileId(99)), format!("file {}", FileId(99)));
}

//! Volumes in temporary directories that lose their state: what is restored, what is refused, a crash at each step.

mod rebuilt;

use super::*;
use engine::volume::{NoServers, Volume, init};
use meta::state::{SqliteState, State as _};
use meta::stub::Stub;
use meta::stub::real::FdStub;
use object::target::{Order, State};
use policy::layout::{Layout, Mirror, MirrorState, OPEN_END, Object, ObjectState, Segment};
use policy::{FileId, ObjectId, TargetId};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

struct World {
    dir: Arc<tempfile::TempDir>,
    file: PathBuf,
}

impl World {
    /// A volume with a file `d/f`, striped over `fast0` and `fast1`, with the numbers of its objects.
    fn new() -> (World, Vec<ObjectId>) {
        let dir = tempfile::tempdir().unwrap();
        let file = init(&dir.path().join("v"), None).unwrap();
        let world = World { dir: Arc::new(dir), file };
        drop(world.open());
        let volume = world.open();
        let objects = world.make_file(&volume, "f", &["fast0", "fast1"]);
        (world, objects)
    }

    fn make_file(&self, volume: &Volume, name: &str, on: &[&str]) -> Vec<ObjectId> {
        let file = FileId(volume.next_id().unwrap());
        let object = |name: &&str| {
            let (id, target) = (ObjectId(volume.next_id().unwrap()), volume.targets().by_name(name).unwrap());
            target.run(move |medium| medium.create(id)?.write_at(0, b"bytes")).unwrap();
            Object { id, target: target.id(), state: ObjectState::Complete, merged: None }
        };
        let objects: Vec<Object> = on.iter().map(object).collect();
        let ids = objects.iter().map(|object| object.id).collect();
        let segment = Segment { start: 0, end: OPEN_END, stripe_size: 65536, objects };
        let mirrors = vec![Mirror { state: MirrorState::InSync, segments: vec![segment] }];
        let layout = Layout { file, generation: 1, mirrors, history: Default::default() };
        let tree = self.at("namespace/tree");
        fs::create_dir_all(tree.join("d")).unwrap();
        let made = fs::File::options().read(true).write(true).create_new(true).open(tree.join("d").join(name)).unwrap();
        let stub = FdStub::new(made.into(), &self.at("namespace"));
        stub.set_layout(&layout).unwrap();
        stub.set_size(10).unwrap();
        ids
    }

    fn at(&self, name: &str) -> PathBuf {
        self.file.parent().unwrap().join(name)
    }

    fn open(&self) -> Volume {
        Volume::open(Config::load(&self.file).unwrap(), &NoServers).unwrap()
    }

    fn refusal_to_open(&self) -> Option<String> {
        Volume::open(Config::load(&self.file).unwrap(), &NoServers).err().map(|problems| problems.to_string())
    }

    fn lose_state(&self) {
        for name in ["state.db", "state.db-wal"] {
            drop(fs::remove_file(self.at("state").join(name)));
        }
    }

    fn rebuild(&self, wish: &Wish) -> Result<Rebuilt, Problems> {
        rebuild_state(&Config::read(&self.file).unwrap(), &NoServers, wish, true)
    }

    fn dies_after(&self, step: Step) -> String {
        let dies = |now: Step| if now == step { Err(crate::Error::State("it dies".into())) } else { Ok(()) };
        let died = rebuild(&Config::read(&self.file).unwrap(), &NoServers, &Wish::default(), Some(&dies));
        died.expect_err("it dies").to_string()
    }

    /// Checks that a rebuild is refused and changes no file; returns the message.
    fn refuses(&self, wish: &Wish) -> String {
        let before = self.all();
        let refused = self.rebuild(wish).expect_err("refused").to_string();
        assert!(refused.contains("nothing was changed"), "{refused}");
        assert_eq!(self.all(), before, "{refused}");
        refused
    }

    /// Names and contents of all files but the locks.
    fn all(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let (mut all, mut todo) = (Vec::new(), vec![self.at("")]);
        while let Some(dir) = todo.pop() {
            for entry in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
                if entry.is_dir() {
                    todo.push(entry);
                } else if !entry.ends_with("lock") {
                    all.push((entry.clone(), fs::read(&entry).unwrap()));
                }
            }
        }
        all.sort();
        all
    }

    fn targets(&self, volume: &Volume) -> Vec<(TargetId, String, State)> {
        volume.targets().all().iter().map(|t| (t.id(), t.name().to_owned(), t.state())).collect()
    }
}

fn lost(names: &[&str]) -> Wish {
    Wish { lost: names.iter().map(|name| (*name).to_owned()).collect(), ..Wish::default() }
}

fn is_there(volume: &Volume, target: &str, object: ObjectId) -> bool {
    let target = volume.targets().by_name(target).unwrap();
    target.run(move |medium| medium.open(object)?.len()) == Ok(5)
}

/// [S-220] [S-221]
#[test]
fn a_state_comes_back_from_namespace_and_targets_wherever_the_rebuild_dies() {
    for died in [None].into_iter().chain(Step::ALL.map(Some)) {
        let (world, objects) = World::new();
        let volume = world.open();
        let (before, epoch) = (world.targets(&volume), volume.epoch());
        drop(volume);
        world.lose_state();
        if let Some(step) = died {
            assert!(world.dies_after(step).contains("it dies"));
            let refused = world.refusal_to_open();
            match step {
                Step::Named => assert_eq!(refused, None, "the new one counts"),
                _ => assert!(refused.expect("refused").contains("another state"), "neither of the two"),
            }
            if step == Step::Named {
                continue;
            }
        }
        let rebuilt = world.rebuild(&Wish::default()).unwrap();
        assert_eq!((rebuilt.files, rebuilt.laid_out, rebuilt.epoch, rebuilt.unread.1), (1, 1, epoch, 0), "{rebuilt:?}");
        assert_eq!((rebuilt.objects["fast0"], rebuilt.objects["fast2"]), (1, 0));
        // No daemon has opened the state, so a rebuild may be repeated.
        world.rebuild(&Wish::default()).unwrap();
        let volume = world.open();
        assert_eq!(world.targets(&volume), before, "{died:?}");
        assert!(volume.epoch() > epoch && is_there(&volume, "fast0", objects[0]));
        assert_eq!(volume.unknown_epochs().unwrap(), Some(0..volume.epoch()), "no name is sure");
        drop(volume);
        assert!(world.refuses(&Wish::default()).contains("in use already"));
    }
}

/// [S-221]
#[test]
fn nobody_loses_a_state_that_is_there_or_in_use() {
    let (world, _) = World::new();
    let before = fs::read(world.at("namespace/state.id")).unwrap();
    let refused = world.rebuild(&Wish::default()).unwrap_err().to_string();
    assert!(refused.contains("in use already") && refused.contains("state load --replace"), "{refused}");
    let volume = world.open();
    let refused = world.rebuild(&Wish::default()).unwrap_err().to_string();
    assert!(refused.contains(&format!("open already, in process {}", std::process::id())), "{refused}");
    drop(volume);
    // A state that exists but cannot be read is kept as well.
    world.lose_state();
    fs::write(world.at("state/state.db"), vec![7; 9000]).unwrap();
    let refused = world.rebuild(&Wish::default()).unwrap_err().to_string();
    assert!(refused.contains("state.db cannot be used"), "{refused}");
    assert_eq!(fs::read(world.at("namespace/state.id")).unwrap(), before);
    world.lose_state();
    // A refused start leaves an empty store.
    assert!(world.refusal_to_open().unwrap().contains("another state"));
    world.rebuild(&Wish::default()).unwrap();
}

/// [S-221]
#[test]
fn a_dry_run_says_what_would_be_and_changes_nothing() {
    let (world, _) = World::new();
    world.lose_state();
    let before = world.all();
    let config = Config::read(&world.file).unwrap();
    let said = rebuild_state(&config, &NoServers, &Wish::default(), false).unwrap();
    assert_eq!((said.rows, said.targets.len()), (None, 6));
    assert_eq!(world.all(), before);
    assert!(!world.at("state/state.db").exists());
}

/// [S-220]
#[test]
fn a_target_that_is_away_is_refused_and_then_a_failed_one() {
    for is_empty in [false, true] {
        let (world, objects) = World::new();
        world.lose_state();
        fs::rename(world.at("targets/fast1"), world.at("targets/away")).unwrap();
        if is_empty {
            fs::create_dir(world.at("targets/fast1")).unwrap();
        }
        let refused = world.refuses(&Wish::default());
        assert!(refused.contains("\"fast1\" cannot be checked") && refused.contains("--lost fast1"), "{refused}");
        assert!(refused.contains("1 files, such as d/f"), "{refused}");
        assert!(world.refuses(&lost(&["fast0"])).contains("is not lost"));
        let rebuilt = world.rebuild(&lost(&["fast1"])).unwrap();
        assert_eq!(rebuilt.files_on["fast1"], 1);
        let volume = world.open();
        let target = volume.targets().by_name("fast1").unwrap();
        assert_eq!((target.state(), target.id()), (State::Failed, TargetId(2)));
        assert!(!world.at("targets/fast1/target.id").exists(), "it is not made anew");
        assert!(volume.order_target("fast1", Order::Restore).is_err());
        // The target was not lost after all.
        drop(fs::remove_dir(world.at("targets/fast1")));
        fs::rename(world.at("targets/away"), world.at("targets/fast1")).unwrap();
        assert_eq!(volume.order_target("fast1", Order::Restore), Ok(State::Ok));
        assert!(is_there(&volume, "fast1", objects[1]));
    }
}

/// [S-220]
#[test]
fn a_number_that_only_files_name_is_given_to_no_other_target() {
    let (world, _) = World::new();
    let volume = world.open();
    fs::create_dir(world.at("extra")).unwrap();
    volume.add_target("extra", &world.at("extra"), "fast").unwrap();
    let number = volume.targets().by_name("extra").unwrap().id();
    world.make_file(&volume, "g", &["extra"]);
    volume.remove_target("extra", true).unwrap();
    drop(volume);
    world.lose_state();
    let refused = world.refuses(&Wish::default());
    assert!(refused.contains(&format!("is number {number}")) && refused.contains("d/g"), "{refused}");
    assert!(refused.contains("1 of them have neither another mirror in sync nor a source"), "{refused}");
    world.rebuild(&lost(&[&number.to_string()])).unwrap();
    let volume = world.open();
    assert_eq!(volume.targets().get(number).unwrap().state(), State::Failed);
    fs::remove_dir_all(world.at("extra")).unwrap();
    fs::create_dir(world.at("extra")).unwrap();
    volume.add_target("extra", &world.at("extra"), "fast").unwrap();
    assert!(volume.targets().by_name("extra").unwrap().id() > number);
    volume.remove_target(&format!("lost-{number}"), true).unwrap();
}

/// [S-221]
#[test]
fn targets_that_changed_places_or_are_of_another_volume_are_refused() {
    let (world, _) = World::new();
    world.lose_state();
    let text = fs::read_to_string(&world.file).unwrap();
    let swapped =
        text.replace("targets/fast0", "X").replace("targets/fast1", "targets/fast0").replace('X', "targets/fast1");
    fs::write(&world.file, &swapped).unwrap();
    assert!(world.refuses(&Wish::default()).contains("fast1 is target \"fast1\" of this volume, not \"fast0\""));
    fs::write(&world.file, &text).unwrap();
    let identity = fs::read_to_string(world.at("targets/fast2/target.id")).unwrap();
    let (other, _) = World::new();
    fs::copy(other.at("targets/fast2/target.id"), world.at("targets/fast2/target.id")).unwrap();
    assert!(world.refuses(&Wish::default()).contains("of another volume"));
    // A copy of a target under another name.
    fs::write(world.at("targets/fast2/target.id"), identity.replace("target = 3", "target = 1")).unwrap();
    assert!(world.refuses(&Wish::default()).contains("both target number 1"));
    fs::write(world.at("targets/fast2/target.id"), identity).unwrap();
    fs::rename(world.at("namespace"), world.at("unmounted")).unwrap();
    assert!(world.refuses(&Wish::default()).contains("the namespace, is not there"));
    fs::rename(world.at("unmounted"), world.at("namespace")).unwrap();
    world.rebuild(&Wish::default()).unwrap();
}

/// [S-220]
#[test]
fn numbers_go_on_above_what_layouts_targets_and_namespace_have_seen() {
    let (world, objects) = World::new();
    world.lose_state();
    let target = world.at("targets/capacity2");
    fs::write(target.join("epoch"), "40").unwrap();
    assert_eq!(world.rebuild(&Wish::default()).unwrap().epoch, 40);
    let late = ObjectId(60 << 32);
    fs::write(target.join("objects/00").join(late.to_string()), b"late").unwrap();
    assert_eq!(world.rebuild(&Wish::default()).unwrap().epoch, 60);
    // An epoch that only a layout names.
    let stub = fs::File::options().read(true).write(true).open(world.at("namespace/tree/d/f")).unwrap();
    let stub = FdStub::new(stub.into(), &world.at("namespace"));
    let mut layout = stub.layout().unwrap().unwrap();
    layout.mirrors[0].segments[0].objects[1].id = ObjectId(80 << 32);
    stub.set_layout(&layout).unwrap();
    assert_eq!(world.rebuild(&Wish::default()).unwrap().epoch, 80);
    fs::write(world.at("namespace/epoch"), "100").unwrap();
    assert_eq!(world.rebuild(&Wish::default()).unwrap().epoch, 100);
    let volume = world.open();
    assert_eq!(volume.next_id().unwrap(), 101 << 32);
    assert!(is_there(&volume, "fast0", objects[0]));
}

/// [S-220]
#[test]
fn a_damaged_layout_is_named_and_costs_no_other_file() {
    let (world, _) = World::new();
    world.lose_state();
    rustix::fs::setxattr(
        world.at("namespace/tree/d/f"),
        meta::stub::real::LAYOUT_ATTRIBUTE,
        b"nonsense",
        rustix::fs::XattrFlags::empty(),
    )
    .unwrap();
    let rebuilt = world.rebuild(&Wish::default()).unwrap();
    assert_eq!(rebuilt.unread.1, 1);
    assert!(rebuilt.unread.0[0].starts_with("d/f: "), "{rebuilt:?}");
    assert!(rebuilt.epoch > 1000, "it may have named later numbers");
    drop(world.open());
    let state = SqliteState::open(&Path::new(&world.at("state")).join("state.db")).unwrap();
    assert_eq!(state.targets().unwrap().len(), 6);
}

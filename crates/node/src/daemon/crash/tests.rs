//! Moves interrupted on real directories: the next start settles them, whatever happened to the file in between.

use super::*;

use engine::mover::Step;
use engine::recovery::{Checker, Repair};
use engine::stage::Stop;
use engine::stage::world::World;
use meta::places::Places;
use policy::ObjectId;
use policy::layout::Placement;
use rustix::fs::XattrFlags;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const SIZE: usize = 400_000;

fn open(files: &Arc<FileTable>, path: &Path) -> Arc<File> {
    let fd = std::fs::File::options().read(true).write(true).create(true).truncate(false).open(path);
    files.get_or_open(fd.expect("there").into()).expect("opens")
}

/// Moves a mirrored file; the daemon dies at `step`, after `then` changed the file. Returns the file's path.
fn die_at(world: &World, step: Step, then: impl Fn(&Path, &Arc<File>) + Send + Sync + 'static) -> PathBuf {
    let (volume, files) = world.parts();
    let path = world.tree.join(format!("{step:?}"));
    let file = open(&files, &path);
    let shape = Placement { stripe_size: 65536, stripe_count: 2, mirrors: 2, ..files.pool().placement.clone() };
    file.set_layout_request(&shape).expect("laid out");
    file.write(0, &vec![5; SIZE]).expect("written");
    let from = file.layout().expect("laid out").mirrors[0].segments[0].objects[0].target;
    let (at, moved) = (path.clone(), file.clone());
    let hook = move |now| {
        if now == step {
            then(&at, &moved);
            return Err(Error::State("died".into()));
        }
        Ok(())
    };
    let mover = Mover::new(files.pool().clone(), volume.state().clone(), None).with_crash_hook(Arc::new(hook));
    mover.replace_target(&file, from, policy::layout::Reason::Drained(from)).expect_err("it died");
    std::mem::forget(file); // a daemon that is killed closes nothing in order
    path
}

/// The next daemon's start; the journal must be empty after it. Returns the remaining objects.
fn start_again(world: &World) -> (Arc<FileTable>, BTreeSet<ObjectId>) {
    let started = start(world);
    let (volume, _) = world.parts();
    assert!(volume.state().journal().expect("journal").is_empty());
    started
}

/// Removes the objects that no file names, as the search after an unclean end does. Returns the remaining ones.
fn search(world: &World, files: Arc<FileTable>) -> BTreeSet<ObjectId> {
    let (volume, _) = world.parts();
    let mover = Arc::new(Mover::new(files.pool().clone(), volume.state().clone(), None));
    let side = volume.side().try_clone_to_owned().expect("side");
    let config = policy::protect::recovery::Config::default();
    let repair = Repair::start(config, files.pool().clone(), world.memory.clone(), side, volume.stats().clone());
    let checker = Checker { volume, files, repair, mover, starts: Arc::default(), behalf: None };
    checker.remove_left(&Stop::default()).expect("everything was seen");
    checker.repair.stop();
    objects_there(world)
}

fn objects_there(world: &World) -> BTreeSet<ObjectId> {
    let list = |t: Arc<object::target::Target>| t.run(|medium| medium.list()).expect("list");
    world.parts().0.targets().all().into_iter().flat_map(list).collect()
}

/// Work of the next daemon at its start.
fn start(world: &World) -> (Arc<FileTable>, BTreeSet<ObjectId>) {
    let (volume, files) = world.parts();
    let pool = files.pool().clone();
    let files = FileTable::new(pool.clone(), volume.config().namespace.clone());
    let mover = Mover::new(pool, volume.state().clone(), None);
    settle(&volume, &files, &mover, true).expect("settled");
    for target in volume.targets().all() {
        mover.collect_garbage(target.id()).expect("as the daemon does at its start");
    }
    (files, objects_there(world))
}

/// Objects of a file that is whole.
fn objects_of(files: &Arc<FileTable>, path: &Path) -> BTreeSet<ObjectId> {
    let file = open(files, path);
    let mut bytes = vec![0; SIZE];
    assert_eq!(file.read(0, &mut bytes).expect("whole"), SIZE, "{path:?}");
    assert!(bytes.iter().all(|b| *b == 5), "{path:?}");
    file.layout().expect("laid out").objects().map(|(_, o)| o.id).collect()
}

/// [S-024]
#[test]
fn a_move_is_found_also_when_somebody_closed_the_file_meanwhile() {
    let world = World::new();
    let die = |step: Step| {
        die_at(&world, step, move |_, file| {
            // At these two steps the mover excludes all writers.
            if !matches!(step, Step::CaughtUp | Step::Synced) {
                file.settle_mark();
            }
        })
    };
    let paths = Step::ALL.map(die);
    let marks = marks(&world.parts().0).expect("marks").len();
    assert!(marks >= Step::ALL.len() - 2, "all but the last keep their mark: {marks}");
    let (files, there) = start_again(&world);
    let named: BTreeSet<ObjectId> = paths.iter().flat_map(|path| objects_of(&files, path)).collect();
    assert_eq!(there, named);
}

const STEPS: [Step; 3] = [Step::Journalled, Step::Copied, Step::Durable];

fn unmark(file: &Arc<File>) {
    let mark = InUse { file: file.id().expect("laid out"), node: None };
    file.stub().mark_in_use(mark, meta::stub::Mark::None).expect("unmarked");
}

/// [S-024]
#[test]
fn a_move_whose_mark_is_gone_leaves_the_file_whole_and_nothing_after_the_search_for_orphans() {
    let world = World::new();
    let paths = STEPS.map(|step| die_at(&world, step, |_, file| unmark(file)));
    let (files, _) = start_again(&world);
    let named: BTreeSet<ObjectId> = paths.iter().flat_map(|path| objects_of(&files, path)).collect();
    assert_eq!(search(&world, files), named);

    paths.iter().for_each(|path| std::fs::remove_file(path).expect("unlinked"));
    for step in STEPS {
        die_at(&world, step, |path, file| {
            std::fs::remove_file(path).expect("unlinked");
            unmark(file);
        });
    }
    let (files, _) = start_again(&world);
    assert_eq!(search(&world, files), BTreeSet::new(), "of those that were moved and unlinked nothing is left");
}

#[test]
fn a_start_finds_files_of_interrupted_moves_at_their_recorded_places_and_walks_no_tree() {
    let world = World::new();
    let (volume, files) = world.parts();
    let pool = files.pool().clone();
    let dir = tempfile::tempdir().expect("dir");
    let places = Places::open(&dir.path().join("places"), &volume.config().namespace).expect("table");
    drop(pool.places.set(places.clone()));
    let recorded = die_at(&world, Step::Copied, |_, file| unmark(file));
    let lost = die_at(&world, Step::Durable, |path, file| {
        unmark(file);
        std::fs::remove_file(path).expect("unlinked");
    });
    // The walk fails, because one name is no stub.
    std::fs::write(world.tree.join("bad"), b"").expect("stub");
    rustix::fs::setxattr(world.tree.join("bad"), "user.entrepot.layout", b"no layout", XattrFlags::empty())
        .expect("attribute");
    let files = FileTable::new(pool.clone(), volume.config().namespace.clone());
    let mover = Mover::new(pool, volume.state().clone(), None);
    let recovered = settle_journal(&volume, &files, &mover, false).expect("settled");
    assert_eq!((recovered.moves, recovered.to_search, recovered.unknown), (1, 1, 0));
    assert!(volume.state().journal().expect("journal").is_empty());
    drop(places);
    assert!(recorded.exists() && !lost.exists());
}

/// [S-207]
#[test]
fn a_move_of_another_node_takes_no_object_of_a_file_that_is_renamed_meanwhile() {
    let world = World::new();
    let path = die_at(&world, Step::Copied, |_, file| unmark(file));
    let hidden = world.tree.parent().expect("namespace").join("hidden");
    std::fs::rename(&path, &hidden).expect("not seen by a walk");
    let (volume, files) = world.parts();
    let files = FileTable::new(files.pool().clone(), volume.config().namespace.clone());
    let mover = Mover::new(files.pool().clone(), volume.state().clone(), None);
    let recovered = settle_journal(&volume, &files, &mover, true).expect("settled");
    assert_eq!((recovered.moves, recovered.to_search, recovered.unknown), (0, 1, 0));
    assert!(volume.state().journal().expect("journal").is_empty());
    std::fs::rename(&hidden, &path).expect("the walk would have missed it");
    let named = objects_of(&files, &path);
    assert_eq!(search(&world, files), named);
}

fn put_back(world: &World) {
    world.parts().0.state().record_put("state", "unknown", b"{\"start\":0,\"end\":1}").expect("noted");
}

/// [S-213]
#[test]
fn marks_of_a_node_that_is_over_go_and_those_of_others_stay() {
    let world = World::new();
    let [named, replaced, used] = ["named", "replaced", "used"].map(|name| world.tree.join(name));
    let (volume, files) = world.parts();
    let shape = Placement { stripe_count: 1, mirrors: 2, ..files.pool().placement.clone() };
    let of = |path: &Path, node| {
        let file = open(&files, path);
        file.set_layout_request(&shape).expect("laid out");
        file.write(0, &[5; 70_000]).expect("written");
        file.settle_mark();
        let mark = InUse { file: file.id().expect("laid out"), node: Some(Node(node)) };
        let mark = world.tree.with_file_name("open").join(mark.to_string());
        std::fs::hard_link(path, &mark).expect("marked");
        (file, mark)
    };
    let in_sync = |file: &Arc<File>| file.whole_mirrors();
    let (named, named_mark) = of(&named, 7);
    let (_, replaced_mark) = of(&replaced, 7);
    let (used, used_mark) = of(&used, 8);
    std::fs::remove_file(&replaced).expect("unlinked");
    assert!(settle_marks_of(&|node| node == Node(7), &volume, &files).expect("settled"));
    assert_eq!((in_sync(&named), in_sync(&used)), (1, 2), "the mirrors of one that its node wrote may differ");
    let there = [named_mark, replaced_mark, used_mark].map(|mark| mark.exists());
    assert_eq!(there, [false, false, true]);
}

/// [S-162]
#[test]
fn a_mark_that_lost_its_link_to_the_name_does_not_take_the_objects_of_the_file() {
    let world = World::new();
    let path = die_at(&world, Step::Copied, |_, _| ());
    let (volume, _) = world.parts();
    let (_, mark) = marks(&volume).expect("marks").remove(0);
    let mark = world.tree.with_file_name("open").join(mark.to_str().expect("digits"));
    let copy = |from: &Path, to: &Path| {
        let copied = std::process::Command::new("cp").arg("--preserve=all").arg(from).arg(to).status();
        assert!(copied.expect("cp").success());
    };
    std::fs::remove_file(&mark).expect("removed");
    copy(&path, &mark);
    put_back(&world);
    let (files, _) = start(&world);
    objects_of(&files, &path);
    assert!(!mark.exists());
}

/// [S-162]
#[test]
fn garbage_and_journal_of_another_time_take_nothing_that_a_file_names_or_may_name() {
    let world = World::new();
    let path = die_at(&world, Step::Copied, |_, _| ());
    let (volume, files) = world.parts();
    let mine: Vec<_> =
        open(&files, &path).layout().expect("laid out").objects().map(|(_, o)| (o.target, o.id)).collect();
    volume.state().garbage_add(&mine).expect("noted");
    let lost = world.tree.join("lost");
    std::fs::rename(&path, &lost).expect("renamed");
    // The file of the move is no longer in this namespace, and another one has its place.
    let other = die_at(&world, Step::Durable, |_, file| unmark(file));
    let hidden = world.tree.parent().expect("namespace").join("hidden");
    std::fs::rename(&other, &hidden).expect("gone");
    put_back(&world);
    let (files, there) = start(&world);
    objects_of(&files, &lost);
    assert_eq!(volume.state().journal().expect("journal").len(), 1, "nobody knows what became of the other file");
    std::fs::rename(&hidden, &other).expect("a later backup has it");
    assert!(objects_of(&files, &other).is_subset(&there));

    // While a stub is damaged the names are unknown: no garbage is removed.
    rustix::fs::removexattr(&lost, meta::stub::real::LAYOUT_ATTRIBUTE).expect("it has a layout");
    volume.state().garbage_add(&mine).expect("noted");
    assert!(mine.iter().all(|(_, object)| start(&world).1.contains(object)));
}

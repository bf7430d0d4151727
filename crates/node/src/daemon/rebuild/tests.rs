//! Passes over a real volume in a temporary directory.

use super::*;
use engine::stage::world::World;
use meta::places::Places;
use object::target::Order;
use policy::layout::Placement;
use policy::protect::repair_order::turn;

const SIZE: usize = 400_000;

struct Mirrored {
    world: World,
    volume: Arc<Volume>,
    files: Arc<FileTable>,
    mover: Mover,
    names: DurableNames,
}

fn new() -> Mirrored {
    let world = World::new();
    let (volume, files) = world.parts();
    let namespace = &volume.config().namespace;
    let places = Places::open(&namespace.with_file_name("files.db"), namespace).expect("a tree");
    drop(files.pool().places.set(places));
    let mover = Mover::new(files.pool().clone(), volume.state().clone(), None);
    let names = DurableNames::open(volume.state().clone(), files.pool().clone(), "one").expect("names");
    Mirrored { world, volume, files, mover, names }
}

impl Mirrored {
    fn file(&self, name: &str) -> Arc<File> {
        let mut options = std::fs::File::options();
        let fd = options.read(true).write(true).create(true).truncate(false).open(self.world.tree.join(name));
        self.files.get_or_open(fd.expect("there").into()).expect("opens")
    }

    /// A closed file with two mirrors of two stripes each.
    fn write(&self, name: &str, byte: u8) {
        self.write_bytes(name, &[byte; SIZE]);
        self.file(name).sync_now(false).expect("synced");
    }

    fn write_bytes(&self, name: &str, bytes: &[u8]) {
        let file = self.file(name);
        let shape =
            Placement { stripe_size: 65536, stripe_count: 2, mirrors: 2, ..self.files.pool().placement.clone() };
        file.set_layout_request(&shape).expect("laid out");
        file.write(0, bytes).expect("written");
    }

    fn order(&self, target: TargetId, order: Order) {
        self.volume.targets().operate(target, order).expect("known");
    }

    fn pass(&self) -> Rebuilt {
        pass(&self.volume, &self.files, &self.mover, &self.names, &Starts::default(), |_| true).expect("a walk")
    }

    fn is_healthy(&self, name: &str) -> bool {
        let layout = self.file(name).layout().expect("laid out");
        layout.in_sync_count() == 2 && failed_targets(&layout, self.volume.targets()).is_empty()
    }
}

/// [S-035]
#[test]
fn what_a_failed_target_held_is_made_anew_elsewhere() {
    let m = new();
    for (n, name) in ["a", "b", "c"].into_iter().enumerate() {
        m.write(name, n as u8 + 1);
    }
    assert_eq!(m.pass(), Rebuilt::default(), "nothing is wrong");
    let victim = m.file("b").layout().expect("laid out").mirrors[0].segments[0].objects[1].target;
    m.order(victim, Order::Fail);
    assert!(!m.is_healthy("b"));
    let rebuilt = m.pass();
    assert!(rebuilt.files >= 1 && rebuilt.is_complete(), "{rebuilt:?}");
    for (n, name) in ["a", "b", "c"].into_iter().enumerate() {
        assert!(m.is_healthy(name), "{name}");
        assert!(m.world.read(name) == vec![n as u8 + 1; SIZE]);
    }
    assert_eq!(m.pass(), Rebuilt::default(), "once is enough");
    let garbage = m.volume.state().garbage_of(victim, 100).expect("state");
    assert!(!garbage.is_empty(), "what the failed target holds is removed when it is back");
}

/// [S-376]
#[test]
fn files_without_a_mirror_that_can_be_read_are_counted() {
    let m = new();
    for name in ["a", "b", "c"] {
        m.write(name, 1);
    }
    let order = |order: Order| m.volume.targets().all().iter().for_each(|target| m.order(target.id(), order));
    order(Order::Fail);
    assert_eq!(m.pass().away, FilesAway { files: 3, bytes: 3 * SIZE as u64 });
    order(Order::Restore);
    assert_eq!(m.pass().away, FilesAway::default());
}

/// [S-185]
#[test]
fn what_a_waiting_job_reads_is_rebuilt_first() {
    let m = new();
    let names = ["a", "b", "c"];
    names.iter().for_each(|name| m.write(name, 1));
    for target in m.file("a").layout().expect("laid out").objects().filter(|(at, _)| at.mirror == 0) {
        m.order(target.1.target, Order::Fail);
    }
    let hurt: Vec<_> = names.into_iter().filter(|name| !m.is_healthy(name)).collect();
    assert!(hurt.len() > 1, "{hurt:?}");
    let last = hurt[hurt.len() - 1];
    let (starts, id) = (Starts::default(), m.file(last).id().expect("laid out"));
    starts.set([(id, policy::Time(0))].into());
    let first_only = |rebuilt: &Rebuilt| rebuilt.files == 0;
    pass(&m.volume, &m.files, &m.mover, &m.names, &starts, first_only).expect("a walk");
    assert_eq!(hurt.iter().filter(|name| m.is_healthy(name)).collect::<Vec<_>>(), [&last]);
}

#[test]
fn the_order_of_repair_goes_over_all_files_of_a_pass() {
    let m = new();
    let names: Vec<_> = (0..300).map(|n| format!("f{n}")).collect();
    for (n, name) in names.iter().enumerate() {
        m.write_bytes(name, &vec![1; 70_000 + n * 37 % 300 * 512]);
    }
    m.order(m.file("f0").layout().expect("laid out").mirrors[0].segments[0].objects[0].target, Order::Fail);
    let starts = Starts::default();
    let needed = names.iter().rev().filter(|name| !m.is_healthy(name)).take(3).enumerate();
    starts.set(needed.map(|(n, name)| (m.file(name).id().expect("laid out"), policy::Time(n as u64))).collect());
    let damaged = |name| damage(&m.file(name), m.volume.targets(), &starts);
    let mut expected: Vec<_> = names.iter().filter_map(|name| Some((damaged(name)?, name))).collect();
    expected.sort_by_key(|(candidate, _)| turn(candidate));
    assert!(expected.len() > 128, "{} files", expected.len());
    let look = |rebuilt: &Rebuilt| {
        let (done, left) = expected.split_at(rebuilt.files as usize);
        assert!(done.last().is_none_or(|(_, name)| m.is_healthy(name)));
        assert!(left.first().is_none_or(|(_, name)| !m.is_healthy(name)));
        true
    };
    pass(&m.volume, &m.files, &m.mover, &m.names, &starts, look).expect("a walk");
    assert!(names.iter().all(|name| m.is_healthy(name)));
}

#[test]
fn a_stale_mirror_of_a_closed_file_is_resynced() {
    let m = new();
    m.write("a", 1);
    let victim = m.file("a").layout().expect("laid out").mirrors[1].segments[0].objects[0].target;
    m.order(victim, Order::Fail);
    m.file("a").write(0, &[9; 70_000]).expect("the other mirror takes it");
    m.order(victim, Order::Restore);
    assert_eq!(m.file("a").layout().expect("laid out").in_sync_count(), 1);
    assert_eq!(m.pass(), Rebuilt { files: 1, ..Rebuilt::default() });
    assert!(m.is_healthy("a"));
    let mirror = m.file("a").layout().expect("laid out").mirrors[0].segments[0].objects[0].target;
    m.order(mirror, Order::Fail);
    assert!(m.world.read("a")[..70_000] == [9; 70_000], "the mirror that was stale has it");
}

#[test]
fn without_room_elsewhere_it_is_said_and_done_when_a_target_is_back() {
    let m = new();
    m.write("a", 1);
    let layout = m.file("a").layout().expect("laid out");
    let kept: BTreeSet<_> = layout.objects().filter(|(at, _)| at.mirror == 0).map(|(_, o)| o.target).collect();
    let all: Vec<_> = m.volume.targets().all().iter().map(|t| t.id()).collect();
    for target in all.iter().filter(|t| !kept.contains(t)) {
        m.order(*target, Order::Fail);
    }
    for target in &kept {
        m.order(*target, Order::Drain);
    }
    let rebuilt = m.pass();
    assert_eq!((rebuilt.files, rebuilt.failed), (0, 1));
    assert!(rebuilt.why.expect("a reason").starts_with("a: "));
    for target in all.iter().filter(|t| !kept.contains(t)) {
        m.order(*target, Order::Restore);
    }
    assert!(m.pass().is_complete());
    assert!(m.is_healthy("a"));
}

/// [S-025]
#[test]
fn what_was_never_durable_comes_back_empty_once() {
    let mut m = new();
    let (volume, pool) = (m.volume.clone(), m.files.pool().clone());
    let restart = |boot: &str| DurableNames::open(volume.state().clone(), pool.clone(), boot).expect("names");
    let write = |m: &Mirrored, name: &str| {
        let file = m.file(name);
        file.write(0, &vec![7; SIZE]).expect("written");
        file.layout().expect("it outgrew its stub").mirrors[0].segments[0].objects[0]
    };
    let lose = |object: policy::layout::Object| {
        let target = volume.targets().get(object.target).expect("known");
        target.run(move |medium| medium.remove(object.id)).expect("removed");
    };
    let reads = |m: &Mirrored, name: &str| m.file(name).read(0, &mut vec![0; SIZE]);
    let old = write(&m, "old");
    m.names.pass().expect("the number of now");
    m.names.pass().expect("what was created before it");
    let new = write(&m, "new");
    lose(old);
    lose(new);
    m.names = restart("one");
    assert_eq!(m.pass(), Rebuilt::default(), "the same start of the machine: both are lost");
    m.names = restart("two");
    assert!(m.names.any_rolled_back());
    assert_eq!(m.pass(), Rebuilt { files: 1, ..Rebuilt::default() });
    m.names.made().expect("remembered");
    assert_eq!(reads(&m, "new").expect("never written"), SIZE);
    reads(&m, "old").expect_err("lost");
    let again = write(&m, "new");
    lose(again);
    m.names = restart("two");
    assert!(!m.names.any_rolled_back());
    assert_eq!(m.pass(), Rebuilt::default(), "a second time it is lost");
    reads(&m, "new").expect_err("lost");

    write(&m, "last");
    m.names.finish().expect("a clean end");
    m.names = restart("three");
    assert!(!m.names.any_rolled_back(), "everything was durable");
}

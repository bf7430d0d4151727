//! Records that are too large for every attribute, on a real file system.

use super::record::POINTER;
use super::*;
use crate::stub::{Pointer, Record, Records};
use policy::layout::{Mirror, MirrorState, OPEN_END, Object, Segment};
use policy::{FileId, ObjectId, TargetId};
use std::process::Command;

struct Place {
    dir: tempfile::TempDir,
    /// Set if a file system is mounted on it.
    mounted: bool,
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.mounted {
            let _ = Command::new("umount").arg("-l").arg(self.dir.path()).status();
        }
    }
}

impl Place {
    fn new() -> Place {
        Place::on(tempfile::tempdir().expect("dir"), false)
    }

    /// A place on an ext4 whose inodes have one block for attributes; `None` where that is impossible.
    fn on_ext4() -> Option<Place> {
        let (dir, around) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
        let image = around.path().join("image");
        std::fs::File::create(&image).and_then(|f| f.set_len(8 << 20)).expect("image");
        let did = |command: &mut Command| command.output().is_ok_and(|done| done.status.success());
        let made = did(Command::new("/usr/sbin/mkfs.ext4").args(["-q", "-O", "^ea_inode"]).arg(&image));
        if !made || !did(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(dir.path())) {
            eprintln!("skipped: needs root, mkfs.ext4 and a loop device");
            return None;
        }
        Some(Place::on(dir, true))
    }

    fn on(dir: tempfile::TempDir, mounted: bool) -> Place {
        for name in ["side", "open"] {
            std::fs::create_dir(dir.path().join(name)).expect("dir");
        }
        std::fs::write(dir.path().join("f"), b"").expect("stub");
        Place { dir, mounted }
    }

    fn stub(&self) -> FdStub {
        let fd = std::fs::File::options().read(true).write(true).open(self.dir.path().join("f")).expect("stub");
        FdStub::new(fd.into(), self.dir.path())
    }

    fn side(&self) -> PathBuf {
        self.dir.path().join("side").join(format!("{}.layout", FileId(7)))
    }
}

/// A layout of `segments` segments over 256 targets each, with numbers far from each other.
fn layout(generation: u64, segments: u64) -> Layout {
    let object = |s: u64, i: u64| Object::whole(ObjectId(8 + (s * 256 + (i * 37) % 256) * 1_000), TargetId(i as u16));
    let segment = |s: u64| Segment {
        start: s << 30,
        end: if s + 1 == segments { OPEN_END } else { (s + 1) << 30 },
        stripe_size: 1 << 20,
        objects: (0..256).map(|i| object(s, i)).collect(),
    };
    let mirrors = vec![Mirror { state: MirrorState::InSync, segments: (0..segments).map(segment).collect() }];
    Layout { file: FileId(7), generation, mirrors, history: Default::default() }
}

/// [S-024]
#[test]
fn a_record_too_large_for_an_attribute_lies_beside() {
    let place = Place::new();
    let large = layout(3, 100);
    assert!(large.encode().len() > ATTRIBUTE_BYTES_MAX, "{}", large.encode().len());
    place.stub().set_layout(&large).expect("set");
    let pointer = place.stub().attribute(LAYOUT_ATTRIBUTE).expect("attribute").expect("a pointer");
    assert_eq!((pointer.len(), &pointer[..4]), (20, &POINTER[..]));
    assert_eq!(place.stub().layout().expect("read").as_ref(), Some(&large));
    place.stub().sync().expect("sync");

    // The next record replaces the side file; the pointer stays.
    let next = layout(4, 101);
    place.stub().set_layout(&next).expect("set");
    assert_eq!(place.stub().attribute(LAYOUT_ATTRIBUTE).expect("attribute"), Some(pointer));
    assert_eq!(place.stub().layout().expect("read"), Some(next));

    // A small record returns to the attribute, and the side file is ignored.
    let small = layout(5, 1);
    place.stub().set_layout(&small).expect("set");
    std::fs::write(place.side(), b"old").expect("write");
    assert_eq!(place.stub().layout().expect("read"), Some(small));

    // After small and large records, pointer and side file are of one generation.
    let again = layout(6, 100);
    place.stub().set_layout(&again).expect("set");
    assert_eq!(place.stub().layout().expect("read"), Some(again));
    place.stub().discard(InUse { file: FileId(7), node: None }).expect("discard");
    assert!(!place.side().exists());
}

#[test]
fn a_side_file_that_is_older_foreign_or_cut_off_is_refused() {
    let place = Place::new();
    place.stub().set_layout(&layout(9, 100)).expect("set");
    let whole = std::fs::read(place.side()).expect("record");
    let refused = |record: &[u8]| {
        std::fs::write(place.side(), record).expect("write");
        place.stub().layout().expect_err("refused").to_string()
    };
    assert!(refused(&layout(8, 100).encode()).contains("older"));
    assert!(refused(&Layout { file: FileId(6), ..layout(9, 100) }.encode()).contains("older"));
    refused(&whole[..whole.len() / 2]);
    std::fs::remove_file(place.side()).expect("remove");
    place.stub().layout().expect_err("it is missing");
    // A crash between the renaming and the new pointer leaves a newer side file, which is valid.
    let newer = layout(10, 100);
    std::fs::write(place.side(), newer.encode()).expect("write");
    assert_eq!(place.stub().layout().expect("read"), Some(newer));
}

/// [S-156]
#[test]
fn a_stub_full_of_other_attributes_still_gets_a_layout() {
    let Some(place) = Place::on_ext4() else { return };
    let fill = |stub: &FdStub| {
        (0..1000).find_map(|n| {
            let set = || fs::fsetxattr(&*stub.fd(), format!("user.mine{n}").as_str(), &[7; 20], XattrFlags::CREATE);
            set().err().map(|errno| (n, errno))
        })
    };
    let stub = place.stub();
    fs::fsetxattr(&*stub.fd(), LAYOUT_ATTRIBUTE, ROOM, XattrFlags::CREATE).expect("room is kept first");
    assert_eq!(stub.layout().expect("read"), None, "room is no layout");
    let (count, errno) = fill(&stub).expect("the block is full some time");
    assert_eq!(errno, Errno::NOSPC);
    assert!(count > 10, "{count}");
    for generation in 1..4 {
        let layout = layout(generation, generation);
        stub.set_layout(&layout).expect("there is room");
        stub.sync().expect("well");
        assert_eq!(place.stub().layout().expect("read"), Some(layout));
    }
}

/// [S-204]
#[test]
fn a_record_is_created_once_and_the_pointer_tells_a_late_one_apart() {
    let place = Place::new();
    let stub = place.stub();
    assert_eq!((stub.pointer().unwrap(), stub.record(1).unwrap()), (Pointer::None, None));
    let small = Record { stamp: 7, layout: Some(layout(1, 1)) };
    let beside = Record { stamp: 8, layout: Some(layout(2, 100)) };
    assert!(stub.create_record(1, &small).unwrap() && stub.create_record(2, &beside).unwrap());
    assert!(!stub.create_record(2, &Record { stamp: 9, layout: None }).unwrap(), "it exists");
    stub.point(2, 8).unwrap();
    let other = place.stub();
    assert_eq!(other.pointer().unwrap(), Pointer::To { generation: 2, stamp: 8 });
    assert_eq!((other.record(1).unwrap(), other.record(2).unwrap()), (Some(small.clone()), Some(beside)));
    let directory = std::fs::File::open(place.dir.path()).unwrap();
    assert_eq!(number_at(&directory, "f".as_ref()).unwrap(), Some(FileId(7)));
    let sides = || std::fs::read_dir(place.dir.path().join("side")).unwrap().count();
    assert_eq!(sides(), 2, "records that are too large for an attribute");
    stub.create_record(3, &Record { stamp: 11, layout: None }).unwrap();
    stub.remove_records(3).unwrap();
    assert_eq!((stub.record(1).unwrap(), stub.record(2).unwrap(), sides()), (None, None, 0));
    assert_eq!(stub.listed_generation().unwrap(), Some(3));
    // A frozen node creates its record late.
    assert!(stub.create_record(2, &Record { stamp: 10, ..small }).unwrap());
    assert_eq!(stub.record(2).unwrap().map(|record| record.stamp), Some(10), "the pointer has another");
}

#[test]
fn the_record_of_one_node_goes_with_the_first_pointer_and_a_cut_is_marked_with_its_size() {
    let place = Place::new();
    let stub = place.stub();
    stub.set_layout(&layout(4, 1)).unwrap();
    assert_eq!(stub.pointer().unwrap(), Pointer::Plain(Box::new(layout(4, 1))));
    stub.create_record(5, &Record { stamp: 1, layout: Some(layout(5, 1)) }).unwrap();
    stub.point(5, 1).unwrap();
    stub.remove_records(5).unwrap();
    assert_eq!(stub.pointer().unwrap(), Pointer::To { generation: 5, stamp: 1 });
    assert_eq!(stub.cut_to().unwrap(), None);
    stub.set_cut_to(Some(1 << 40)).unwrap();
    assert_eq!(place.stub().cut_to().unwrap(), Some(1 << 40));
    stub.set_cut_to(None).unwrap();
    stub.set_cut_to(None).unwrap();
    assert_eq!(stub.cut_to().unwrap(), None);
}

fn set(stub: &FdStub, name: &str, value: &[u8]) {
    fs::fsetxattr(&*stub.fd(), format!("user.entrepot.{name}"), value, XattrFlags::empty()).expect("attribute");
}

fn small(generation: u64) -> Layout {
    let mut layout = layout(generation, 1);
    layout.mirrors[0].segments[0].objects.truncate(2);
    layout
}

/// Names of attributes, without the common prefix.
fn attributes(stub: &FdStub) -> Vec<String> {
    let list = stub.names(1).expect("names");
    let mut names: Vec<String> = crate::stub::names::texts(&list)
        .filter_map(|name| Some(name.strip_prefix("user.entrepot.")?.to_owned()))
        .collect();
    names.sort();
    names
}

/// [S-331]
#[test]
fn a_stub_with_marks_of_nodes_is_upgraded_to_a_pointer_and_one_record() {
    // Marks, and whether the size comes from the objects.
    let cases: [(&[&str], bool); 4] = [
        (&[], false),
        (&["writer.3.1", "copy.4", "change.6"], false),
        (&["writer.3.1", "grows.3.1.5"], true),
        (&["grows.3.1.4", "cut.5"], false),
    ];
    for (marks, grows) in cases {
        let place = Place::new();
        let stub = place.stub();
        stub.set_size(1000).expect("size");
        set(&stub, "layout.4", &small(4).encode());
        set(&stub, "layout.5", &small(5).encode());
        set(&stub, "source", b"kept");
        marks.iter().for_each(|mark| set(&stub, mark, b"1"));
        for _ in 0..2 {
            stub.upgrade().expect("upgraded");
            assert_eq!(stub.pointer().expect("pointer"), Pointer::To { generation: 5, stamp: 0 });
            assert_eq!(stub.record(5).expect("record"), Some(Record { stamp: 0, layout: Some(small(5)) }));
            assert_eq!(stub.cut_to().expect("mark"), (!grows).then_some(1000), "{marks:?}");
            let cut = if grows { vec![] } else { vec!["cut"] };
            assert_eq!(attributes(&stub), [cut, vec!["layout", "layout.5", "source"]].concat(), "{marks:?}");
        }
    }
}

/// [S-331]
#[test]
fn a_stub_of_one_node_is_upgraded_and_one_without_layout_stays() {
    let place = Place::new();
    let stub = place.stub();
    stub.write_at(0, b"in the stub").expect("bytes");
    set(&stub, "change.1", b"3 drains");
    stub.upgrade().expect("upgraded");
    assert_eq!((stub.pointer().expect("pointer"), attributes(&stub)), (Pointer::None, vec![]));
    for layout in [small(3), layout(3, 200)] {
        stub.set_layout(&layout).expect("set");
        stub.upgrade().expect("upgraded");
        assert_eq!(stub.newest_layout().expect("layout"), Some(layout));
        assert_eq!(stub.cut_to().expect("mark"), Some(11));
        stub.remove_record(3).expect("removed");
    }
}

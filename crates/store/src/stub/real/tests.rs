//! Records that outgrow every attribute, on a real file system.

use super::*;
use policy::layout::{Mirror, MirrorState, OPEN_END, Object, Segment};
use policy::{ObjectId, TargetId};

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().expect("dir");
        for name in ["side", "open"] {
            std::fs::create_dir(dir.path().join(name)).expect("dir");
        }
        std::fs::write(dir.path().join("f"), b"").expect("stub");
        Place { dir }
    }

    fn stub(&self) -> FdStub {
        let fd = std::fs::File::options().read(true).write(true).open(self.dir.path().join("f")).expect("stub");
        FdStub::new(fd.into(), self.dir.path())
    }

    fn side(&self) -> PathBuf {
        self.dir.path().join("side").join(format!("{}.layout", FileId(7)))
    }
}

/// A layout of so many segments over 256 targets each, with numbers far from each other.
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

    // A small one goes back into the attribute, and what lies beside is not looked at.
    let small = layout(5, 1);
    place.stub().set_layout(&small).expect("set");
    std::fs::write(place.side(), b"old").expect("write");
    assert_eq!(place.stub().layout().expect("read"), Some(small));

    // From small to large again: pointer and side file are of one generation.
    let again = layout(6, 100);
    place.stub().set_layout(&again).expect("set");
    assert_eq!(place.stub().layout().expect("read"), Some(again));
    place.stub().discard(FileId(7)).expect("discard");
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
    // A crash after the renaming and before the pointer was set leaves a newer one: it is right.
    let newer = layout(10, 100);
    std::fs::write(place.side(), newer.encode()).expect("write");
    assert_eq!(place.stub().layout().expect("read"), Some(newer));
}

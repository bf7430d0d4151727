//! Two nodes over stubs of a real file system.

use super::*;
use meta::stub::real::{FdStub, number_at};
use std::path::Path;

fn stub(dir: &Path) -> Arc<dyn Stub> {
    let fd = std::fs::File::options().read(true).write(true).create(true).truncate(false).open(dir.join("f"));
    Arc::new(FdStub::sharing(Arc::new(fd.expect("opens").into()), dir, true))
}

fn namespace() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    ["side", "open"].iter().for_each(|name| std::fs::create_dir(dir.path().join(name)).expect("a directory"));
    dir
}

/// [S-201]
#[test]
fn two_nodes_write_move_append_and_truncate() {
    let (dir, world) = (namespace(), World::new());
    let [a, b] = [1, 2].map(|number| world.node_on(number, PLACE, stub(dir.path())));
    a.writes(0, 1, 500);
    b.writes(500, 2, 20_000);
    let directory = std::fs::File::open(dir.path()).unwrap();
    assert_eq!(number_at(&directory, "f".as_ref()).unwrap(), b.file.id());
    a.moves();
    b.writes(0, 3, 10);
    assert_eq!(a.file.append(&[4; 10]).unwrap(), 20_500);
    assert_eq!(b.file.append(&[5; 10]).unwrap(), 20_510);
    a.file.truncate(20_515).unwrap();
    let all = expected(&[(3, 10), (1, 490), (2, 20_000), (4, 10), (5, 5)]);
    assert!(a.bytes() == all && b.bytes() == all);
    // Without the nodes the stub shows the same.
    let (layout, size) = (a.file.layout(), all.len() as u64);
    drop((a, b));
    let left = stub(dir.path());
    assert_eq!(
        (left.size().unwrap(), left.layout().unwrap().map(|left| left.mirrors)),
        (size, layout.map(|of| of.mirrors.clone()))
    );
    let c = world.node_on(3, PLACE, left);
    assert!(c.bytes() == all);
}

/// [S-201]
#[test]
fn a_file_of_one_node_is_taken_over_with_its_record() {
    let (dir, world) = (namespace(), World::new());
    let alone = {
        let world = World::new();
        let one = world.node(1);
        one.writes(0, 1, 20_000);
        Layout::clone(&one.file.layout().unwrap())
    };
    // The objects of that layout exist on no target here, so they are holes.
    let before = stub(dir.path());
    before.set_layout(&alone).unwrap();
    before.set_size(20_000).unwrap();
    let [a, b] = [1, 2].map(|number| world.node_on(number, PLACE, stub(dir.path())));
    assert_eq!((a.file.layout().unwrap().generation, a.file.size()), (alone.generation, 20_000));
    drop(b.file.exclusive().unwrap());
    b.file.refresh().unwrap();
    // This node is admitted after the claim, which ends after the pointer is set.
    a.file.refresh().unwrap();
    let pointer = before.pointer().unwrap();
    assert!(matches!(pointer, Pointer::To { generation, .. } if generation == alone.generation + 1), "{pointer:?}");
    assert_eq!(a.file.layout().unwrap().mirrors, alone.mirrors);
}

//! How many calls a request makes of targets, and how often a file changes hands.

use super::*;

/// [S-201]
#[test]
fn of_two_nodes_that_want_the_same_change_of_a_file_one_makes_it() {
    let world = World::new();
    let place = Placement { single_bytes_max: 8192, ..PLACE };
    let (a, b) = (world.node(1), world.node(2));
    [&a, &b].iter().for_each(|one| one.file.set_placement(place.clone()));
    a.writes(0, 1, 900);
    let mut written = vec![1; 900];
    // Out of the stub, and into the next segment.
    for (byte, size) in [(2, 7000), (3, 50_000)] {
        let offset = written.len() as u64;
        a.file.keep_others_out().unwrap();
        std::thread::scope(|scope| {
            // Whenever it comes to look, it finds what it needs.
            let other = scope.spawn(|| b.writes(offset, byte, size));
            a.writes(offset, byte, size);
            a.file.let_others_in();
            let before = world.stub.look().unwrap().marks.generation;
            other.join().expect("no panic");
            let look = world.stub.look().unwrap();
            assert_eq!((look.marks.generation, look.marks.claim), (before, None), "the other has not claimed it");
        });
        written.resize(written.len() + size, byte);
        assert!(a.bytes() == written && b.bytes() == written, "{size}");
    }
    let layout = b.file.layout().unwrap();
    assert!(layout.mirrors[0].segments.len() > 1, "it grew: {layout:?}");
}

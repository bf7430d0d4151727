//! Number of calls that a request makes to targets, and of changes of the node that holds a file.

use super::*;

#[test]
fn a_large_read_goes_as_several_where_the_kernel_would_send_one_request_after_the_other() {
    const BYTES: usize = 3 << 20;
    let world = World::new();
    let a = world.node(1);
    let all: Vec<u8> = (0..BYTES).map(|n| (n / 3) as u8).collect();
    a.file.write(0, &all).unwrap();
    let read = |offset: usize, len: usize| {
        let ops = || (0..3).map(|id| a.file.pool.targets.get(TargetId(id)).unwrap().counters().ops.get()).sum::<u64>();
        let (before, mut buffer) = (ops(), vec![0xee; len]);
        assert_eq!(a.file.read(offset as u64, &mut buffer).unwrap(), len.min(BYTES - offset));
        assert!(buffer[..len.min(BYTES - offset)] == all[offset..BYTES.min(offset + len)], "{offset} {len}");
        ops() - before
    };
    // Two objects with stripes of 4 KiB: half of the range from each.
    assert_eq!(read(5000, 2 << 20), 2);
    world.media.iter().for_each(MemoryMedium::set_cuts_requests);
    assert_eq!(read(5000, 2 << 20), 8, "four of each");
    assert_eq!(read(5000, 1 << 20), 4);
    assert_eq!(read(0, 500_000), 2, "what is small goes at once");
    assert_eq!(read(BYTES - (1 << 20) - 77, 2 << 20), 4, "up to the end");
}

/// [S-201]
#[test]
fn of_two_nodes_that_want_the_same_change_of_a_file_one_makes_it() {
    let world = World::new();
    let place = Placement { single_bytes_max: 8192, ..PLACE };
    let (a, b) = (world.node(1), world.node(2));
    [&a, &b].iter().for_each(|one| one.file.set_placement(place.clone()));
    a.writes(0, 1, 900);
    let mut written = vec![1; 900];
    // One extension moves the bytes out of the stub, the other one needs the next segment.
    for (byte, size) in [(2, 7000), (3, 50_000)] {
        let offset = written.len() as u64;
        a.file.keep_others_out().unwrap();
        std::thread::scope(|scope| {
            // When the other node looks, the change that it needs has been made.
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

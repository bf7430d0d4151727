//! The medium in memory: sparse bytes, faults by seed, crashes.

use super::*;
use crate::target::MISSED_DEADLINE;

const ID: ObjectId = ObjectId(0x1_0000_0001);

fn written(seed: u64) -> (MemoryMedium, Arc<dyn Handle>) {
    let medium = MemoryMedium::new(seed);
    let handle = medium.create(ID).unwrap();
    handle.write_at(5000, b"hello").unwrap();
    (medium, handle)
}

#[test]
fn bytes_holes_and_lengths() {
    let (medium, handle) = written(1);
    let mut buf = [7u8; 10];
    assert_eq!(handle.read_at(4998, &mut buf).unwrap(), 7);
    assert_eq!(&buf[..7], b"\0\0hello");
    assert_eq!(handle.seek_data(0), Ok(4096));
    assert_eq!(handle.seek_hole(4096), Ok(5005), "the end counts as a hole");
    assert_eq!(handle.seek_data(5005), Err(Errno::NXIO));
    handle.set_len(5002).unwrap();
    handle.set_len(6000).unwrap();
    assert_eq!(&medium.peek(ID).unwrap()[5000..5005], b"he\0\0\0", "cut bytes do not come back");
    handle.punch(4096, 4096).unwrap();
    assert_eq!((handle.len(), handle.allocated()), (Ok(6000), Ok(0)));
    handle.allocate(0, 8192).unwrap();
    assert_eq!((handle.len(), handle.allocated()), (Ok(8192), Ok(8192)));
}

#[test]
fn space_is_counted_and_limited() {
    let (medium, handle) = written(1);
    medium.set_capacity_bytes(2 * 4096);
    assert_eq!(medium.space().unwrap().free_bytes, 4096);
    assert_eq!(handle.write_at(8192, &[1; 8192]), Err(Errno::NOSPC));
    handle.write_at(8192, &[1; 4096]).unwrap();
    assert_eq!(medium.space().unwrap().free_bytes, 0);
    medium.remove(ID).unwrap();
    assert_eq!(medium.space().unwrap().free_bytes, 8192);
}

#[test]
fn synced_bytes_and_names_survive_every_crash() {
    for seed in 0..64 {
        let (medium, handle) = written(seed);
        handle.sync().unwrap();
        medium.sync_names().unwrap();
        handle.write_at(0, &[9; 4096]).unwrap();
        medium.crash();
        assert_eq!(&medium.peek(ID).unwrap()[5000..], b"hello", "seed {seed}");
        assert_eq!(handle.read_at(0, &mut [0]), Err(Errno::IO), "a handle of the life before");
    }
}

#[test]
fn a_crash_keeps_or_loses_what_was_not_synced() {
    let (mut names_kept, mut bytes_kept, mut removals_undone) = (0, 0, 0);
    for seed in 0..64 {
        let (medium, _) = written(seed);
        medium.crash();
        names_kept += u32::from(medium.peek(ID).is_some());

        let (medium, handle) = written(seed);
        medium.sync_names().unwrap();
        handle.sync().unwrap();
        handle.write_at(0, &[9; 4096]).unwrap();
        medium.crash();
        bytes_kept += u32::from(medium.peek(ID).unwrap()[0] == 9);

        medium.remove(ID).unwrap();
        medium.crash();
        removals_undone += u32::from(medium.peek(ID).is_some());
    }
    for count in [names_kept, bytes_kept, removals_undone] {
        assert!((1..64).contains(&count), "both outcomes occur: {count} of 64");
    }
}

#[test]
fn the_same_seed_gives_the_same_faults() {
    let run = |seed| {
        let medium = MemoryMedium::new(seed);
        let handle = medium.create(ID).unwrap();
        medium.set_faults(Faults { io_chance: 9000, nospace_chance: 9000, deadline_chance: 9000, ..Faults::default() });
        (0..200).map(|i| handle.write_at(i, b"x")).collect::<Vec<_>>()
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
    for errno in [Errno::IO, Errno::NOSPC, MISSED_DEADLINE] {
        assert!(run(3).contains(&Err(errno)));
    }
}

#[test]
fn the_nth_operation_fails_once() {
    let (medium, handle) = written(1);
    medium.set_faults(Faults { nth: Some((2, Errno::ROFS)), ..Faults::default() });
    let results: Vec<_> = (0..3).map(|_| handle.len().err()).collect();
    assert_eq!(results, [None, Some(Errno::ROFS), None]);
}

#[test]
fn a_torn_write_lands_in_part() {
    let (medium, handle) = written(5);
    medium.set_faults(Faults { torn_chance: u16::MAX, ..Faults::default() });
    let mut lengths = std::collections::BTreeSet::new();
    for _ in 0..20 {
        handle.set_len(0).unwrap();
        assert_eq!(handle.write_at(0, &[1; 1000]), Err(Errno::IO));
        lengths.insert(medium.peek(ID).unwrap().len());
    }
    assert!(lengths.len() > 5 && lengths.iter().all(|&len| len < 1000), "{lengths:?}");
}

#[test]
fn a_medium_that_is_gone_comes_back_as_it_was() {
    let (medium, handle) = written(1);
    medium.set_gone(true);
    assert_eq!(handle.len(), Err(Errno::NODEV));
    assert_eq!(medium.probe(), Err(Errno::NODEV));
    assert!(medium.space().is_err());
    medium.set_gone(false);
    assert_eq!(handle.len(), Ok(5005));
}

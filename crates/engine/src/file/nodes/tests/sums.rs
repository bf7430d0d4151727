//! Checksums of a file that another node changes.

use super::*;

/// [S-225]
#[test]
fn what_another_node_writes_ends_checksums_those_that_count_and_those_to_come() {
    type Change = fn(&One);
    const CHANGES: [Change; 4] = [
        |b| b.writes(5, 9, 100),
        |b| assert!(b.file.append(&[9; 10]).is_ok()),
        |b| b.file.truncate(b.file.size() - 100).expect("cut"),
        |b| b.file.punch(0, 4096).expect("punched"),
    ];
    let made = || Ok(());
    for change in CHANGES {
        let (world, a, b) = two();
        a.writes(0, 1, 10_000);
        b.writes(10_000, 2, 10_000); // sets its writer mark, which stays
        assert!(a.file.begin_sums("first").expect("begun"));
        assert!(world.stub.sums().expect("read").is_none(), "they do not count yet");
        change(&b);
        assert!(!a.file.end_sums("first", "text", made).expect("asked"), "it changed in between");
        assert!(a.file.begin_sums("second").expect("begun"));
        assert!(a.file.end_sums("second", "text", made).expect("asked"));
        assert_eq!(world.stub.sums().expect("read"), Some(("second".into(), "text".into())));
        change(&b);
        assert!(!world.stub.has_sums().expect("read"));
    }
}

/// [S-225]
#[test]
fn a_node_that_stands_still_before_its_checksums_count_comes_too_late() {
    let (world, a, b) = two();
    a.writes(0, 1, 10_000);
    assert!(a.file.begin_sums("first").expect("begun"));
    let meanwhile = || {
        world.over(1);
        b.writes(5, 9, 100);
        Ok(())
    };
    assert!(!a.file.end_sums("first", "text", meanwhile).expect("asked"));
    assert!(!world.stub.has_sums().expect("read"));
}

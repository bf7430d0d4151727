//! Objects with wrong bytes or lengths, and their right copy.

use super::*;

/// [S-163]
#[test]
fn an_object_that_lost_its_end_is_found_and_comes_back_from_the_source() {
    let c = new();
    c.staged("a", 22);
    let object = *c.layout("a").objects().nth(1).expect("object").1;
    c.on_object(object, |handle| handle.set_len(handle.len().expect("length") - 5000).expect("cut"));
    let report = c.check(false);
    assert_eq!(kinds(&report), [FindingKind::ObjectShort], "{report:?}");
    assert_eq!(report.findings[0].object, object.id.to_string());
    let report = c.check(true);
    assert!(report.is_healthy(), "{report:?}");
    assert!(c.world.read("a") == data(SIZE, 22));
    assert!(c.deep(false).findings.is_empty());
}

#[test]
fn a_check_that_compares_no_bytes_keeps_no_paths() {
    let c = new();
    c.staged("a", 21);
    let found = c.checker.look(&CheckOptions::default(), &|_| (), &crate::stage::Stop::default()).expect("seen");
    assert!(found.report.objects > 0 && found.to_compare.is_empty());
}

/// [S-163]
#[test]
fn changed_bytes_of_a_staged_file_are_found_by_their_checksums_and_come_back_from_the_source() {
    let c = new();
    let remote = c.staged("a", 23);
    let fetched_before = remote.reads().len();
    let object = *c.layout("a").objects().nth(1).expect("object").1;
    c.damage(object);
    assert!(c.check(false).findings.is_empty(), "lengths and names are right");
    let report = c.deep(false);
    assert_eq!(kinds(&report), [FindingKind::Damaged], "{report:?}");
    assert_eq!((report.findings[0].path.as_str(), report.findings[0].object.clone()), ("a", object.id.to_string()));
    assert_eq!((report.compared_bytes, remote.reads().len()), (SIZE as u64, fetched_before), "looking fetches nothing");
    let report = c.deep(true);
    assert!(report.is_healthy(), "{report:?}");
    assert!(c.world.read("a") == data(SIZE, 23));
    assert!(c.deep(false).findings.is_empty());
}

/// [S-045]
#[test]
fn bytes_written_after_the_checksums_were_read_are_not_mended() {
    use crate::recovery::check::right::Right;
    let c = new();
    c.staged("a", 25);
    let file = c.open_file("a").expect("there");
    let (layout, size) = (file.layout().expect("objects"), file.size());
    let (at, object) = layout.objects().next().expect("object");
    let record = file.source().expect("read").expect("staged");
    let stripe_bytes = crate::source::Record::parse(&record).expect("a record").stripe_bytes;
    let sums = crate::stage::sums::Sums::open(c.checker.volume.side(), layout.file, stripe_bytes, size);
    let sums = sums.expect("read").expect("made by the stage-in");
    let right = Right::new((sums, None), size, &file, &c.checker.repair).expect("a proof");
    file.write(0, &[0xab; 100]).expect("written");
    let mended = c.checker.mover.mend(&file, &[(at, object.id)], &right);
    assert!(matches!(mended, Err(crate::Error::Busy(_))), "{mended:?}");
    let mut there = [0; 100];
    file.read(0, &mut there).expect("read");
    assert!(there == [0xab; 100], "the source's bytes are back");
}

/// [S-163]
#[test]
fn of_mirrors_that_differ_the_one_that_the_checksums_prove_is_kept() {
    let c = new();
    let remote = c.staged("a", 24);
    let file = c.open_file("a").expect("there");
    c.checker.mover.add_mirror(&file, &c.checker.files.pool().placement.clone()).expect("mirrored");
    drop(file);
    let object = *c.layout("a").objects().find(|(at, _)| at.mirror == 0).expect("object").1;
    c.damage(object);
    remote.fail(Some(crate::source::SourceError::Permanent("gone".into())));
    let report = c.deep(true);
    assert_eq!(kinds(&report), [FindingKind::Damaged]);
    assert!(report.is_healthy(), "{report:?}");
    assert!(c.world.read("a") == data(SIZE, 24));
    assert_eq!(c.layout("a").in_sync_count(), 2);
    assert!(c.deep(false).findings.is_empty());
}

/// [S-163]
#[test]
fn mirrors_that_differ_with_nobody_to_say_which_is_right_are_named_and_left_alone() {
    let c = new();
    drop(mirrored(&c));
    let layout = c.layout("m");
    c.damage(layout.mirrors[1].segments[0].objects[0]);
    assert!(c.check(true).findings.is_empty());
    let report = c.deep(true);
    assert_eq!(kinds(&report), [FindingKind::MirrorsDiffer, FindingKind::MirrorsDiffer], "{report:?}");
    assert!(!report.is_healthy() && report.findings.iter().all(|f| f.path == "m" && !f.target.is_empty()));
    assert_eq!(c.layout("m"), layout);
}

/// [S-163]
#[test]
fn two_stubs_that_name_the_same_objects_are_both_in_danger() {
    let c = new();
    drop(mirrored(&c));
    let copy =
        std::process::Command::new("cp").arg("--preserve=all").args(["m", "n"]).current_dir(&c.world.tree).status();
    assert!(copy.expect("cp").success());
    let report = c.check(true);
    assert!(
        report.findings.len() == 4 && report.findings.iter().all(|f| f.kind == FindingKind::NamedTwice),
        "{report:?}"
    );
    assert!(report.findings.iter().all(|f| f.inode != 0) && !report.is_healthy());
    assert!(c.world.read("m") == data(300_000, 7));
}

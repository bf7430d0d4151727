//! Results out: files and directories, filters, and copies that are not whole.

use super::*;
use crate::source::SourceError;

#[test]
fn results_out_files_and_directories() {
    let world = World::new();
    let bytes = data(9_000_001, 11);
    world.memory.add("mem://h/a", &bytes);
    std::fs::create_dir_all(world.tree.join("r/sub")).expect("dir");
    world.stage(&["mem://h/a"], "r/sub/a b").expect("staged");
    let out = |path: &str, uri: &str| world.stage_out(&results(path, uri, Compare::Content));
    assert_eq!(out("r/sub/a b", "mem://o/result").expect("out").bytes, 9_000_001);
    assert!(world.memory.bytes("mem://o/result").expect("there") == bytes);
    symlink("sub", world.tree.join("r/l")).expect("link");
    let staged = out("r", "mem://o/all").expect("out");
    assert_eq!((staged.files, staged.notes.len()), (1, 1));
    assert!(world.memory.bytes("mem://o/all/sub/a%20b").expect("there") == bytes);
    let blocked = world.memory.add("mem://o/blocked", b"");
    blocked.fail(Some(SourceError::Permanent("forbidden".into())));
    assert!(out("r/sub/a b", "mem://o/blocked").is_err());
    assert!(out("../x", "mem://o/x").is_err());
    assert!(out("r/sub/a b", "ftp://u:hush@o/x").is_err());
}

/// [S-313]
#[test]
fn what_a_filter_leaves_out_is_not_sent_and_not_taken_for_sent() {
    let world = World::new();
    std::fs::create_dir_all(world.tree.join("r/tmp")).expect("dir");
    for name in ["r/a.nc", "r/tmp/b.nc", "r/notes.txt"] {
        world.memory.add("mem://h/a", &data(200_000, 1));
        world.stage(&["mem://h/a"], name).expect("staged");
    }
    let pattern = |text: &str| text.parse::<Pattern>().expect("a pattern");
    let chosen = Chosen { include: vec![pattern("*.nc")], exclude: vec![pattern("tmp/**")] };
    let what = StageOut { chosen, ..results("r", "mem://o/r", Compare::Content) };
    let stop = Stop::default();
    let look = |what: &StageOut| world.stager.transfer(&who(), QUIET, &stop).look_out(what).expect("looked");
    let note = "2 files are left out by --include and --exclude, and stay";
    let row = |there| Row { path: "r/a.nc".into(), bytes: 200_000, there };
    let looked = look(&what);
    assert_eq!((looked.list, looked.notes, looked.there_files), (vec![row(There::Nothing)], vec![note.into()], 0));
    assert!(world.memory.bytes("mem://o/r/a.nc").is_none(), "a look sends nothing");

    let staged = world.stager.transfer(&who(), QUIET, &stop).stage_out(&what).expect("out");
    assert_eq!((staged.files, staged.notes), (1, vec![note.to_string()]));
    let there = |name: &str| world.memory.bytes(&format!("mem://o/r/{name}")).is_some();
    assert!(there("a.nc") && !there("tmp/b.nc") && !there("notes.txt"));
    // A purge checks whether a file is at its destination: these are not.
    let sent = |name: &str| {
        let id = world.file(name).id().expect("objects");
        world.stager.offloaded().get(id).expect("state").is_some()
    };
    assert_eq!(["r/a.nc", "r/tmp/b.nc", "r/notes.txt"].map(sent), [true, false, false]);
    assert_eq!(look(&what).list, [row(There::Sent)]);
    let all = look(&results("r", "mem://o/r", Compare::Content));
    assert_eq!((all.files, all.bytes, all.there_files, all.there_bytes), (3, 600_000, 1, 200_000));
    // A mistaken pattern is found before anything is sent.
    let none = StageOut { chosen: Chosen { include: vec![pattern("*.h5")], ..Chosen::default() }, ..what.clone() };
    let refused =
        world.stager.transfer(&who(), QUIET, &stop).stage_out(&none).expect_err("nothing is left").to_string();
    assert!(refused.contains("none of its 3 files"), "{refused}");
    let file = StageOut { path: "r/a.nc".into(), ..what };
    assert!(world.stager.transfer(&who(), QUIET, &stop).stage_out(&file).is_err(), "a file is not many");
}

/// [S-046]
#[test]
fn a_copy_that_is_not_what_was_sent_is_no_success() {
    let world = World::new();
    let bytes = data(5_000_001, 14);
    world.memory.add("mem://h/a", &bytes);
    world.stage(&["mem://h/a"], "a").expect("staged");
    let out = || world.stage_out(&results("a", "mem://o/a", Compare::Content));
    world.memory.add("mem://o/a", b"an earlier result");
    world.memory.garble_uploads(true);
    let refused = out().expect_err("one bit is another").to_string();
    assert_eq!(world.memory.bytes("mem://o/a").as_deref(), Some(&b"an earlier result"[..]), "it never had the name");
    assert!(world.memory.bytes("mem://o/a.part").is_none(), "and is removed");
    let sized = world.stage_out(&results("a", "mem://o/sized", Compare::Size));
    sized.expect("of the right size");
    assert!(refused.contains("the received bytes differ from the sent ones"), "{refused}");
    world.memory.garble_uploads(false);
    out().expect("well again");
    assert!(world.memory.bytes("mem://o/a").expect("there") == bytes);
}

/// [S-046]
#[test]
fn a_file_that_is_written_while_it_is_copied_is_not_sent() {
    let world = World::new();
    world.memory.add("mem://h/a", &data(5 << 20, 12));
    world.stage(&["mem://h/a"], "a").expect("staged");
    let file = world.file("a");
    world.memory.on_append(Box::new(move || file.write(5, b"more").expect("written")));
    let result = world.stage_out(&results("a", "mem://o/a", Compare::Content));
    assert!(matches!(result, Err(StageError::Moving(_))), "{result:?}");
    assert!(world.memory.bytes("mem://o/a").is_none());
}

/// [S-073]
#[test]
fn a_file_that_is_replaced_while_it_is_copied_is_not_sent() {
    let world = World::new();
    let (old, new) = (data(200_000, 21), data(300_000, 22));
    for (name, bytes) in [("a", &old), ("a.new", &new)] {
        world.memory.add("mem://h/a", bytes);
        world.stage(&["mem://h/a"], name).expect("staged");
    }
    let [from, to] = ["a.new", "a"].map(|name| world.tree.join(name));
    world.memory.on_append(Box::new(move || drop(std::fs::rename(&from, &to))));
    let out = || world.stage_out(&results("a", "mem://o/a", Compare::Content));
    let refused = out().expect_err("it is an old version").to_string();
    assert!(refused.contains("it was replaced"), "{refused}");
    assert_eq!(world.memory.uris(), ["mem://h/a"], "nothing of it is left");
    out().expect("the new one");
    assert!(world.memory.bytes("mem://o/a").expect("there") == new);
}

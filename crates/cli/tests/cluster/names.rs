//! Names of directories that a node may keep for a while, if the volume says so.

use crate::hosts::hosts;
use crate::real::{out, until_within};
use crate::volume::{Shared, State};
use std::fs;
use std::io::Write;
use std::time::{Duration, UNIX_EPOCH};

/// [S-415]
#[test]
fn a_directory_replaced_elsewhere_is_seen_after_the_timeout_and_a_file_at_once() {
    let Some(hosts) = hosts() else { return };
    let shared = Shared::new(&hosts, "names", State::Redis, "[mount]\nnames = \"cached\"\n");
    let (writer, reader) = (shared.node(0), shared.node(1));
    [&writer, &reader].iter().for_each(|node| node.up());
    let doctor = out(&writer.run(&["doctor"]));
    assert!(doctor.contains("its client keeps nothing from other nodes"), "{doctor}");
    // A time that a program sets stays, although the size may be set later than the bytes.
    let (timed, of_1970) =
        (fs::File::create(writer.path("timed")).expect("create"), UNIX_EPOCH + Duration::from_secs(1));
    (&timed).write_all(&[7; 300_000]).expect("write");
    timed.set_modified(of_1970).expect("a time");
    drop(timed);
    let about = fs::metadata(reader.path("timed")).expect("metadata");
    assert_eq!((about.len(), about.modified().expect("a time")), (300_000, of_1970));
    assert_eq!(fs::read(reader.path("timed")).expect("read").len(), 300_000);
    assert_eq!(fs::metadata(reader.path("timed")).and_then(|about| about.modified()).expect("a time"), of_1970);
    fs::create_dir(writer.path("of")).expect("a directory");
    fs::write(writer.path("of/file"), "first").expect("write");
    let read = |name: &str| fs::read_to_string(reader.path(name));
    assert_eq!(read("of/file").expect("read"), "first");
    // A file is found by its present name and bytes.
    fs::write(writer.path("of/other"), "second, longer").expect("write");
    fs::rename(writer.path("of/other"), writer.path("of/file")).expect("rename");
    assert_eq!(read("of/file").expect("read"), "second, longer");
    fs::rename(writer.path("of"), writer.path("before")).expect("rename");
    fs::create_dir(writer.path("of")).expect("a directory");
    fs::write(writer.path("of/file"), "third").expect("write");
    until_within(5, "the new directory has its name", || {
        let seen = read("of/file").expect("read");
        assert!(seen == "third" || seen == "second, longer", "{seen}");
        seen == "third"
    });
    assert_eq!(read("before/file").expect("read"), "second, longer");
    [&writer, &reader].iter().for_each(|node| node.down());
}

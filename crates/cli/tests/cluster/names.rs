//! Names of directories that a node may keep for a while, if the volume says so.

use crate::hosts::hosts;
use crate::real::{out, until_within};
use crate::volume::{Shared, State};
use std::fs;

/// [S-415]
#[test]
fn a_directory_replaced_elsewhere_is_seen_after_the_timeout_and_a_file_at_once() {
    let Some(hosts) = hosts() else { return };
    let shared = Shared::new(&hosts, "names", State::Redis, "[mount]\nnames = \"cached\"\n");
    let (writer, reader) = (shared.node(0), shared.node(1));
    [&writer, &reader].iter().for_each(|node| node.up());
    let doctor = out(&writer.run(&["doctor"]));
    assert!(doctor.contains("its client keeps nothing from other nodes"), "{doctor}");
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

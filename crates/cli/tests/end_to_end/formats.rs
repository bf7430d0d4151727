//! On-disk formats outlive the program: a volume of an earlier one is served whole, one of a newer one is refused and
//! left as it is.

use crate::real::{Volume, code, err, out};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Archives of volumes, named by date. The `make.sh` beside them made each one with the program of its date.
const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/formats");
/// The files of a sample, as they are named in their bytes, and their sizes.
const FILES: &[(&str, &str, usize)] = &[
    ("small", "small", 1000),
    ("d/hard", "small", 1000),
    ("d/soft", "small", 1000),
    ("d/whole", "whole", 300_000),
    ("d/e/striped", "striped", 9_000_000),
    ("mirrored/twice", "twice", 400_000),
    ("narrow/merged1", "merged1", 500_000),
    ("narrow/merged2", "merged2", 500_000),
    ("staged", "staged", 200_000),
];

fn samples() -> Vec<PathBuf> {
    let all = std::fs::read_dir(SAMPLES).expect("samples").map(|entry| entry.expect("entry").path());
    let samples: Vec<_> = all.filter(|path| path.extension().is_some_and(|end| end == "xz")).collect();
    assert!(!samples.is_empty());
    samples
}

/// A sample in the place of a volume, which is down.
fn unpack(sample: &Path) -> Option<Volume> {
    let volume = Volume::up()?;
    volume.ok(&["down"]);
    let home = volume.toml.parent().expect("a directory");
    std::fs::remove_dir_all(home).expect("remove");
    std::fs::create_dir(home).expect("mkdir");
    let mut tar = Command::new("tar");
    tar.args(["--xattrs", "--xattrs-include=user.*", "--strip-components=1", "-xJpf"]).arg(sample);
    let done = tar.arg("-C").arg(home).output().expect("tar");
    assert_eq!(code(&done), 0, "{}", err(&done));
    Some(volume)
}

fn bytes(name: &str, size: usize) -> Vec<u8> {
    format!("{name}\n").bytes().cycle().take(size).collect()
}

fn assert_whole(volume: &Volume) {
    for (path, name, size) in FILES {
        let found = std::fs::read(volume.at.join(path)).expect("a file");
        assert!(found == bytes(name, *size), "{path}: {} bytes, and not those of {size}", found.len());
    }
    let mut hole = vec![0; 5_000_000];
    hole[2_500_000..2_500_003].copy_from_slice(b"end");
    assert!(std::fs::read(volume.at.join("hole")).expect("a file") == hole);
}

/// [S-261]
#[test]
fn a_volume_of_an_earlier_program_is_served_whole_and_goes_on() {
    for sample in samples() {
        let Some(volume) = unpack(&sample) else { return };
        volume.up_again();
        assert_whole(&volume);
        let whole = volume.at.join("d/whole");
        let mut mine = [0; 8];
        let len = rustix::fs::getxattr(&whole, "user.mine", &mut mine[..]).expect("an attribute");
        assert_eq!(&mine[..len], b"kept");
        assert_eq!(std::fs::metadata(&whole).expect("stat").mode() & 0o7777, 0o640);
        assert_eq!(std::fs::metadata(volume.at.join("small")).expect("stat").nlink(), 2);
        assert_eq!(std::fs::read_link(volume.at.join("d/soft")).expect("a link"), Path::new("../small"));
        let source = out(&volume.run(&["explain", "staged"]));
        assert!(source.contains("file://"), "{source}");
        volume.ok(&["check", "--deep"]);
        // The volume can be written as before, and has the file at the next start.
        std::fs::write(volume.at.join("new"), bytes("new", 5_000_000)).expect("write");
        volume.ok(&["layout", "split", "narrow/merged1"]);
        volume.ok(&["layout", "add-mirror", "d/e/striped"]);
        volume.ok(&["down"]);
        volume.up_again();
        assert_whole(&volume);
        assert!(std::fs::read(volume.at.join("new")).expect("a file") == bytes("new", 5_000_000));
        volume.ok(&["check", "--deep"]);
    }
}

type Found = (PathBuf, u32, (i64, i64), Vec<u8>);

/// Every name below a directory with its mode, its bytes, and when these were written. SQLite makes a file beside the
/// state for as long as it reads it, so the times of directories tell nothing.
fn all_of(directory: &Path) -> Vec<Found> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("entry").path();
        let stat = std::fs::symlink_metadata(&path).expect("stat");
        let (written, inside) = match stat.is_file() {
            true => ((stat.mtime(), stat.mtime_nsec()), std::fs::read(&path).expect("a file")),
            false => ((0, 0), Vec::new()),
        };
        found.push((path.clone(), stat.mode(), written, inside));
        if stat.is_dir() {
            found.extend(all_of(&path));
        }
    }
    found.sort();
    found
}

/// Checks that `up` prints the refusal once and changes nothing.
fn assert_refused(volume: &Volume, what: &str) {
    let home = volume.toml.parent().expect("a directory");
    let before = all_of(home);
    let mut up = Command::new("timeout");
    up.arg("60").arg(&volume.binary).arg("up").arg(&volume.toml).arg("--at").arg(&volume.at);
    let done = up.output().expect("runs");
    let said = err(&done);
    assert_eq!(code(&done), 2, "{what}: {said}");
    assert_eq!(said.matches("written by a newer entrepot").count(), 1, "{what}: {said}");
    assert!(said.contains("the volume is not opened") && said.contains("Use the entrepot that wrote it"), "{said}");
    let names = |all: &[Found]| all.iter().map(|one| one.0.clone()).collect::<Vec<_>>();
    let after = all_of(home);
    assert_eq!(names(&before), names(&after), "{what}");
    let changed: Vec<_> = before.iter().zip(&after).filter(|(a, b)| a != b).map(|(a, _)| &a.0).collect();
    assert!(changed.is_empty(), "{what}: {changed:?}");
}

/// Writes something into a file for as long as `then` runs.
fn with(file: &Path, text: &[u8], then: impl FnOnce()) {
    let before = std::fs::read(file).ok();
    std::fs::create_dir_all(file.parent().expect("a directory")).expect("mkdir");
    std::fs::write(file, text).expect("write");
    then();
    match before {
        Some(before) => std::fs::write(file, before).expect("write"),
        None => std::fs::remove_file(file).expect("remove"),
    }
}

/// [S-262]
#[test]
fn what_a_newer_program_wrote_is_refused_at_every_place_and_nothing_is_changed() {
    let Some(volume) = unpack(&samples()[0]) else { return };
    let home = volume.toml.parent().expect("a directory").to_owned();
    let refused = |what: &str| assert_refused(&volume, what);
    with(&home.join("namespace/format"), b"3\n", || refused("namespace"));
    let id = home.join("targets/fast1/target.id");
    let text = std::fs::read_to_string(&id).expect("an identity");
    // The other fields of a newer version may be anything.
    with(&id, format!("format = 2\nrest = {{ is = \"new\" }}\n{text}").as_bytes(), || refused("target"));
    with(&id, b"format = 3\n", || refused("a target of which nothing else is known"));
    let state = home.join("state/state.db");
    let mut database = std::fs::read(&state).expect("a state");
    // SQLite keeps `user_version` there.
    database[60..64].copy_from_slice(&99u32.to_be_bytes());
    with(&state, &database, || refused("state"));
    let toml = std::fs::read_to_string(&volume.toml).expect("volume.toml");
    let shared = format!("state_store = \"redis://127.0.0.1:1/\"\n{toml}");
    let lease = br#"{"format": 99, "host": "n7", "beats": []}"#;
    with(&volume.toml, shared.as_bytes(), || {
        with(&home.join("namespace/nodes/7.12"), lease, || refused("node"));
    });
    std::fs::remove_dir_all(home.join("namespace/nodes")).expect("remove");
    volume.up_again();
    assert_whole(&volume);
}

/// [S-262]
#[test]
fn a_file_whose_layout_a_newer_program_wrote_is_an_error_and_check_repairs_nothing_of_it() {
    let Some(volume) = unpack(&samples()[0]) else { return };
    let stub = volume.toml.with_file_name("namespace/tree/d/e/striped");
    let mut record = vec![0; 4096];
    let len = rustix::fs::getxattr(&stub, "user.entrepot.layout", &mut record[..]).expect("a record");
    record.truncate(len);
    let (first, newer) = (record.clone(), 99);
    record[4] = newer;
    let write = |record: &[u8]| {
        rustix::fs::setxattr(&stub, "user.entrepot.layout", record, rustix::fs::XattrFlags::REPLACE).expect("setxattr");
    };
    write(&record);
    volume.up_again();
    let read = std::fs::read(volume.at.join("d/e/striped")).expect_err("nobody knows where its bytes are");
    assert_eq!(read.raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()));
    let checked = volume.run(&["check", "--repair"]);
    let said = out(&checked) + &err(&checked);
    assert!(code(&checked) != 0 && said.contains("version 99"), "{said}");
    assert!(said.contains("use the entrepot that wrote it") && !said.contains("remove it"), "{said}");
    let mut after = vec![0; 4096];
    let len = rustix::fs::getxattr(&stub, "user.entrepot.layout", &mut after[..]).expect("a record");
    assert_eq!(after[..len], record);
    volume.ok(&["down"]);
    write(&first);
    volume.up_again();
    assert_whole(&volume);
    volume.ok(&["check", "--deep"]);
}

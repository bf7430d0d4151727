//! Scrubs of a volume that is in use: bits that flip on a target, a scrub that is stopped, and one that comes by
//! itself.

use crate::real::{Volume, code, drop_caches_of, err, noise, until, until_within};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

fn stage(volume: &Volume, name: &str, data: &[u8]) -> PathBuf {
    let source = volume.dir.path().join(format!("{name}.source"));
    fs::write(&source, data).expect("write");
    volume.ok(&["stage", "in", &format!("file://{}", source.display()), name]);
    source
}

/// Path and id of the first object of a file.
fn object_of(volume: &Volume, name: &str) -> (PathBuf, String) {
    let layout = volume.json(&["layout", name]);
    let object = &layout["mirrors"][0]["segments"][0]["objects"][0];
    let word = |key: &str| object[key].as_str().unwrap_or_else(|| panic!("{key} in {layout:#}")).to_owned();
    let (target, id) = (word("target"), word("object"));
    let objects = volume.toml.parent().expect("home").join("targets").join(&target).join("objects");
    let dirs = fs::read_dir(&objects).expect("objects").flatten();
    let path = dirs.map(|dir| dir.path().join(&id)).find(|path| path.exists());
    (path.unwrap_or_else(|| panic!("{id} in {}", objects.display())), target)
}

fn flip(path: &PathBuf, at: u64) {
    let file = fs::File::options().read(true).write(true).open(path).expect("object");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("read");
    file.write_all_at(&[byte[0] ^ 0x10], at).expect("write");
}

fn status(volume: &Volume) -> Value {
    let said = volume.run(&["scrub", "--status", "--output", "json"]);
    serde_json::from_slice(&said.stdout).unwrap_or_else(|_| panic!("{}", err(&said)))
}

fn begin(volume: &Volume, words: &[&str]) -> Child {
    let mut command = Command::new(&volume.binary);
    command.env("ENTREPOT_VOLUME", &volume.toml).arg("scrub").args(words).current_dir("/");
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary runs")
}

/// [S-223]
#[test]
fn a_bit_that_flips_on_a_target_is_mended_from_the_source_or_reported() {
    let Some(volume) = Volume::up() else { return };
    let data = noise(9 << 20);
    let source = stage(&volume, "a", &data);
    fs::write(volume.at.join("written"), &data).expect("write");
    let (object, _) = object_of(&volume, "a");
    flip(&object, 54_321);
    let pass = volume.json(&["scrub", "--rate", "0"]);
    assert_eq!((&pass["found"], &pass["mended"], &pass["files"]), (&1.into(), &1.into(), &2.into()), "{pass:#}");
    drop_caches_of(&volume.at.join("a"));
    assert!(fs::read(volume.at.join("a")).expect("read") == data);
    assert_eq!(volume.json(&["scrub", "--rate", "0"])["found"], 0);
    fs::remove_file(source).expect("removed");
    let (object, target) = object_of(&volume, "a");
    flip(&object, 54_321);
    let said = volume.run(&["scrub", "--rate", "0", "--output", "json"]);
    assert_eq!(code(&said), 7, "{}", err(&said));
    let pass: Value = serde_json::from_slice(&said.stdout).expect("JSON");
    let finding = &pass["findings"][0];
    assert_eq!((finding["path"].as_str(), finding["target"].as_str()), (Some("a"), Some(&*target)), "{pass:#}");
    assert!(finding["range"]["start"].as_u64() < finding["range"]["end"].as_u64(), "{pass:#}");
    assert_eq!(pass["mended"], 0);
    assert_eq!(code(&volume.run(&["scrub", "--status"])), 7, "it is remembered");
    let mut as_it_is = data;
    drop_caches_of(&volume.at.join("a"));
    let read = fs::read(volume.at.join("a")).expect("it is read as before");
    let differs: Vec<usize> = (0..read.len()).filter(|at| read[*at] != as_it_is[*at]).collect();
    assert_eq!(differs.len(), 1);
    as_it_is[differs[0]] ^= 0x10;
    assert!(read == as_it_is);
    if rustix::process::geteuid().is_root() {
        assert_eq!(code(&volume.run_as_nobody(&["scrub"])), 4, "the operator's alone");
    }
}

/// [S-222]
#[test]
fn one_scrub_at_a_time_that_goes_on_after_an_interrupt_and_a_crash() {
    const FILES: u64 = 6;
    let Some(volume) = Volume::up() else { return };
    for n in 0..FILES {
        stage(&volume, &format!("f{n}"), &noise(3 << 20));
    }
    let mut slow = begin(&volume, &["--rate", "4MiB"]);
    until("some files are done", || status(&volume)["files"].as_u64() > Some(1));
    let second = volume.run(&["scrub"]);
    assert_eq!((code(&second), status(&volume)["under_way"].as_bool()), (6, Some(true)), "{}", err(&second));
    kill_process(Pid::from_child(&slow), Signal::INT).expect("Ctrl-C");
    assert_eq!(slow.wait().expect("ends").code(), Some(130));
    until("it stopped", || status(&volume)["under_way"] == false);
    let stopped = status(&volume);
    let done = stopped["files"].as_u64().expect("files");
    assert!((2..FILES).contains(&done) && stopped["ended_ms"].is_null(), "{stopped:#}");
    assert_eq!(stopped["after"], format!("f{}", done - 1));
    // A bit that flips behind the pass waits for the next one.
    flip(&object_of(&volume, "f0").0, 77);
    flip(&object_of(&volume, "f5").0, 77);
    let mut slow = begin(&volume, &["--rate", "1MiB"]);
    until("it goes on", || status(&volume)["under_way"] == true);
    volume.kill();
    slow.wait().expect("ends");
    volume.up_again();
    let pass = volume.json(&["scrub", "--rate", "0"]);
    let number = |key: &str| pass[key].as_u64().expect("a number");
    assert_eq!((number("files"), number("found"), number("mended")), (FILES, 1, 1), "{pass:#}");
    assert!(pass["ended_ms"].is_u64());
    let next = volume.json(&["scrub", "--rate", "0"]);
    assert_eq!((&next["files"], &next["mended"]), (&FILES.into(), &1.into()), "{next:#}");
}

/// [S-222]
#[test]
fn a_scrub_comes_by_itself_when_the_volume_says_so() {
    let set = |toml: String| {
        assert!(toml.contains("[scrub]\n"), "{toml}");
        toml.replace("[scrub]\n", "[scrub]\nevery = \"1s\"\nrate = \"0\"\n")
    };
    let Some(volume) = Volume::up_with(set) else { return };
    until_within(60, "the first is over", || status(&volume)["ended_ms"].is_u64());
    let first = status(&volume)["began_ms"].as_u64();
    let data = noise(2 << 20);
    stage(&volume, "a", &data);
    flip(&object_of(&volume, "a").0, 99);
    until_within(120, "the next has mended it", || {
        let pass = status(&volume);
        pass["began_ms"].as_u64() > first && pass["mended"] == 1
    });
    assert!(fs::read(volume.at.join("a")).expect("read") == data);
}

/// The checksums of closed files that are there.
fn sums(volume: &Volume) -> usize {
    let side = volume.toml.parent().expect("home").join("namespace/side");
    let names = fs::read_dir(&side).unwrap_or_else(|error| panic!("{}: {error}", side.display())).flatten();
    names.filter(|entry| entry.file_name().to_string_lossy().ends_with(".closed")).count()
}

/// [S-225]
#[test]
fn a_file_that_was_closed_has_checksums_until_it_is_changed_and_a_crash_after_that_brings_none_back() {
    let set = |toml: String| {
        assert!(toml.contains("[checksums]\n"), "{toml}");
        toml.replace("[checksums]\n", "[checksums]\nfiles = \"closed\"\n")
    };
    let Some(volume) = Volume::up_with(set) else { return };
    let data = noise(3 << 20);
    for name in ["a", "b"] {
        fs::write(volume.at.join(name), &data).expect("write");
    }
    until_within(60, "both have checksums", || sums(&volume) == 2);
    assert_eq!(volume.json(&["scrub", "--rate", "0"])["bytes"], 2 * data.len());
    let changed = fs::File::options().write(true).open(volume.at.join("b")).expect("open");
    changed.write_all_at(b"other", 1 << 20).expect("written");
    volume.kill();
    drop(changed);
    volume.up_again();
    let (object, target) = object_of(&volume, "a");
    flip(&object, 77);
    let said = volume.run(&["scrub", "--rate", "0", "--output", "json"]);
    assert_eq!(code(&said), 7, "{}", err(&said));
    let pass: Value = serde_json::from_slice(&said.stdout).expect("JSON");
    assert_eq!((&pass["found"], &pass["findings"][0]["path"]), (&1.into(), &"a".into()), "{pass:#}");
    assert_eq!(pass["findings"][0]["target"], *target);
    volume.ok(&["check"]);
}

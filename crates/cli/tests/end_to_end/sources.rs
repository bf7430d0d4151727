//! Sources that change, fail, know no ranges; files that no source can help.

use crate::real::{Volume, code, drop_caches_of, err, noise, out, until};
use crate::recovery::{direct, read};
use crate::server::{self, Nginx};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::SystemTime;

/// Reads every stripe alone: what comes, and the errors in place of what does not.
fn stripes(path: &Path, size: usize) -> Vec<(std::ops::Range<usize>, std::io::Result<Vec<u8>>)> {
    let ranges = (0..size).step_by(1 << 20).map(|from| from..size.min(from + (1 << 20)));
    ranges.map(|range| (range.clone(), read(path, range))).collect()
}

/// The lost stripes give EIO, the others their bytes.
fn only_the_lost_are_errors(path: &Path, data: &[u8], lost: &[std::ops::Range<usize>]) {
    assert!(!lost.is_empty());
    for (range, read) in stripes(path, data.len()) {
        match read {
            Ok(bytes) => {
                assert!(!lost.contains(&range), "{range:?} is lost");
                assert!(bytes == data[range.clone()], "other bytes at {range:?}");
            }
            Err(e) => {
                assert!(lost.contains(&range), "{range:?} is not lost: {e}");
                assert_eq!(e.raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()), "{e}");
            }
        }
    }
}

/// [S-044]
#[test]
fn a_source_that_changed_gives_no_bytes_until_it_is_restored() {
    let Some(nginx) = Nginx::start() else { return };
    let Some(volume) = Volume::up_with(direct) else { return };
    let data = server::data(6_000_000, 1);
    let (source, file) = (nginx.root().join("f"), volume.at.join("f"));
    std::fs::write(&source, &data).expect("write");
    let then = std::fs::metadata(&source).and_then(|m| m.modified()).expect("time");
    volume.ok(&["stage", "in", &nginx.uri("f"), "f"]);
    let touch = |time: SystemTime| {
        std::fs::File::options().write(true).open(&source).and_then(|f| f.set_modified(time)).expect("touch");
    };
    std::fs::write(&source, server::data(6_000_000, 2)).expect("write");
    touch(then - std::time::Duration::from_secs(100));
    let lost = volume.ranges_on("f", "fast2");
    volume.ok(&["target", "fail", "fast2"]);
    only_the_lost_are_errors(&file, &data, &lost);
    assert!(volume.log().contains("changed since"), "{}", volume.log());
    assert!(volume.log().contains(&nginx.uri("f")), "{}", volume.log());

    // Other bytes under the old time are found out by their checksums.
    touch(then);
    let wrong = volume.run(&["check", "--repair"]);
    assert_eq!(code(&wrong), 7, "{}{}", out(&wrong), err(&wrong));
    only_the_lost_are_errors(&file, &data, &lost);
    assert!(volume.log().contains("does not match"), "{}", volume.log());

    std::fs::write(&source, &data).expect("write");
    touch(then);
    volume.ok(&["check", "--repair"]);
    assert!(std::fs::read(&file).expect("read") == data);
}

#[test]
fn a_source_that_is_down_is_tried_again_and_then_the_next() {
    let Some(mut nginx) = Nginx::start() else { return };
    let Some(other) = Nginx::start() else { return };
    let Some(volume) = Volume::up_with(direct) else { return };
    let data = server::data(6_000_000, 3);
    for root in [nginx.root(), other.root()] {
        std::fs::write(root.join("f"), &data).expect("write");
    }
    std::fs::write(volume.at.join("f"), &data).expect("write");
    volume.ok(&["source", "set", "f", &nginx.uri("f"), &other.uri("f"), "--verify"]);
    let sources = volume.json(&["source", "get", "f"])["sources"].clone();
    assert_eq!((&sources[0]["uri"], &sources[1]["uri"]), (&nginx.uri("f").into(), &other.uri("f").into()));
    nginx.stop();
    let sent = other.sent_bytes();
    let target = volume.json(&["layout", "f"])["mirrors"][0]["segments"][1]["objects"][0]["target"].clone();
    volume.ok(&["target", "fail", target.as_str().expect("a name")]);
    assert!(std::fs::read(volume.at.join("f")).expect("read") == data);
    assert!(volume.count("repair", "retries") > 0, "it was tried again");
    until("the other gave it", || other.sent_bytes() > sent);
    assert!(volume.log().contains(&nginx.uri("f")), "the log names who failed: {}", volume.log());
}

#[test]
fn a_source_without_ranges_is_found_out_and_read_once() {
    let Some(nginx) = Nginx::start() else { return };
    let Some(volume) = Volume::up_with(direct) else { return };
    let data = server::data(6_000_000, 4);
    std::fs::write(nginx.root().join("f"), &data).expect("write");
    let staged = volume.run(&["stage", "in", &nginx.uri_without_ranges("f"), "f"]);
    assert!(out(&staged).contains("serves no ranges"), "{}{}", out(&staged), err(&staged));
    volume.ok(&["target", "fail", "fast0"]);
    assert!(std::fs::read(volume.at.join("f")).expect("read") == data);
    let fetched = volume.count("repair", "bytes_fetched");
    assert!(fetched <= data.len() as u64, "{fetched}: once, not once per stripe");
}

/// [S-045]
#[test]
fn a_modified_file_is_not_recovered_from_its_source() {
    let Some(nginx) = Nginx::start() else { return };
    let Some(volume) = Volume::up_with(direct) else { return };
    let mut data = server::data(6_000_000, 5);
    std::fs::write(nginx.root().join("f"), &data).expect("write");
    volume.ok(&["stage", "in", &nginx.uri("f"), "f"]);
    let file = std::fs::File::options().write(true).open(volume.at.join("f")).expect("open");
    file.write_all_at(b"mine", 1_000_000).expect("write");
    file.sync_all().expect("sync");
    data[1_000_000..1_000_004].copy_from_slice(b"mine");
    let lost = volume.ranges_on("f", "fast1");
    volume.ok(&["target", "fail", "fast1"]);
    only_the_lost_are_errors(&volume.at.join("f"), &data, &lost);
    assert_eq!(code(&volume.run(&["check", "--repair"])), 7);
    assert_eq!(volume.count("repair", "bytes_fetched"), 0);
    assert_eq!(volume.json(&["source", "get", "f"])["modified"], true);
    volume.ok(&["target", "restore", "fast1"]);
    assert!(std::fs::read(volume.at.join("f")).expect("read") == data, "nothing was lost for good");
}

/// [S-032]
#[test]
fn without_mirror_or_source_the_rest_is_read_and_written() {
    let Some(volume) = Volume::up_with(direct) else { return };
    let mut data = noise(12 << 20);
    std::fs::write(volume.at.join("f"), &data).expect("write");
    drop_caches_of(&volume.at.join("f"));
    let victim = volume.json(&["layout", "f"])["mirrors"][0]["segments"][1]["objects"][2]["target"].clone();
    let victim = victim.as_str().expect("a name");
    let lost = volume.ranges_on("f", victim);
    volume.ok(&["target", "fail", victim]);
    only_the_lost_are_errors(&volume.at.join("f"), &data, &lost);
    let file = std::fs::File::options().write(true).open(volume.at.join("f")).expect("open");
    let healthy = (0..data.len()).step_by(1 << 20).find(|from| !lost.iter().any(|l| l.contains(from))).expect("one");
    file.write_all_at(b"new", healthy as u64).expect("a healthy stripe takes it");
    data[healthy..healthy + 3].copy_from_slice(b"new");
    let refused = file.write_all_at(b"new", lost[0].start as u64).expect_err("a lost one does not");
    assert_ne!(refused.kind(), ErrorKind::StorageFull, "{refused}");
    only_the_lost_are_errors(&volume.at.join("f"), &data, &lost);
    volume.ok(&["target", "restore", victim]);
    assert!(std::fs::read(volume.at.join("f")).expect("read") == data);
}

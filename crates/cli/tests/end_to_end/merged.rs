//! Files that are merged and split by commands, on a real volume.

use crate::real::{Volume, code, err, noise, out};
use std::os::unix::fs::FileExt;

const MIB: usize = 1 << 20;

/// Names of the objects' inodes on a target and how many names each has.
fn shared_inodes(volume: &Volume) -> usize {
    use std::os::unix::fs::MetadataExt;
    let roots = volume.dir.path().join("vol");
    let mut shared = std::collections::BTreeSet::new();
    let mut left = vec![roots];
    while let Some(dir) = left.pop() {
        for entry in std::fs::read_dir(&dir).expect("a directory").flatten() {
            let about = entry.metadata().expect("it is there");
            if about.is_dir() {
                left.push(entry.path());
            } else if about.nlink() > 1 && entry.path().components().any(|part| part.as_os_str() == "objects") {
                shared.insert((about.dev(), about.ino()));
            }
        }
    }
    shared.len()
}

/// [S-133]
#[test]
fn merged_files_are_files_of_their_own_in_everything_else() {
    let Some(volume) = Volume::up() else { return };
    let path = |name: &str| volume.at.join(name);
    let mut all: Vec<(&str, Vec<u8>)> =
        [("u", 3 * MIB), ("v", 3 * MIB), ("w", 2 * MIB + 12_345)].map(|(name, len)| (name, noise(len))).into();
    all.iter().for_each(|(name, data)| std::fs::write(path(name), data).expect("write"));
    volume.ok(&["layout", "merge", "u", "v", "w", "--stripe-size", "64KiB", "--stripe-count", "2"]);
    assert_eq!(shared_inodes(&volume), 2);
    let same = |all: &[(&str, Vec<u8>)], when: &str| {
        for (name, data) in all {
            assert!(std::fs::read(path(name)).expect("read") == *data, "{name} {when}");
        }
    };
    same(&all, "after merging");
    let shown = out(&volume.run(&["layout", "v"]));
    assert!(shown.contains("merged: turn 2 of 3, of 64.0 KiB each; 3 files are in these objects now"), "{shown}");
    let explained = out(&volume.run(&["explain", "v"]));
    assert!(
        explained.contains("merged with 2 other files") && explained.contains("its owner merged it"),
        "{explained}"
    );
    // Each is written, cut and renamed by itself.
    let patch = noise(200_000);
    let v = std::fs::File::options().write(true).open(path("v")).expect("open");
    v.write_all_at(&patch, 1_000_000).expect("write");
    all[1].1[1_000_000..1_200_000].copy_from_slice(&patch);
    v.write_all_at(&patch, 3 * MIB as u64 + 5).expect("write");
    all[1].1.extend([0; 5]);
    all[1].1.extend(&patch);
    let u = std::fs::File::options().write(true).open(path("u")).expect("open");
    u.set_len(1_000_001).expect("truncate");
    all[0].1.truncate(1_000_001);
    drop((u, v));
    std::fs::rename(path("w"), path("x")).expect("rename");
    all[2].0 = "x";
    same(&all, "after changes");
    // A daemon that is killed finds them as they were.
    volume.kill();
    volume.up_again();
    same(&all, "after a kill");
    let checked = volume.run(&["check"]);
    assert_eq!(code(&checked), 0, "{}{}", out(&checked), err(&checked));
    std::fs::remove_file(path("u")).expect("remove");
    all.remove(0);
    same(&all, "when one is gone");
    volume.ok(&["layout", "split", "v", "x"]);
    crate::real::until("nothing is shared any more", || shared_inodes(&volume) == 0);
    same(&all, "after splitting");
    let again = volume.run(&["layout", "split", "v"]);
    assert!(code(&again) == 2 && err(&again).contains("shares no object"), "{}", err(&again));
    volume.until_nothing_is_left();
    volume.ok(&["down"]);
}

#[test]
fn what_cannot_be_merged_is_refused_with_its_name() {
    let Some(volume) = Volume::up() else { return };
    let path = |name: &str| volume.at.join(name);
    for (name, len) in [("u", 2 * MIB), ("v", 2 * MIB), ("small", 10)] {
        std::fs::write(path(name), noise(len)).expect("write");
    }
    for (words, said) in [
        (&["u", "small"][..], "small is not merged: it is so small"),
        (&["u", "v", "u"], "u is not merged: it is named twice"),
        (&["u", "v", "--stripe-size", "5000"], "5000 bytes cannot be a stripe"),
        (&["u", "v", "--stripe-size", "many"], "`many` is no size"),
        (&["u", "v", "--tier", "nowhere"], "there is no tier nowhere"),
    ] {
        let refused = volume.run(&[&["layout", "merge"], words].concat());
        let text = err(&refused);
        assert!(
            code(&refused) == 2 && text.contains(said) && text.contains("nothing was changed"),
            "{words:?}: {text}"
        );
    }
    let alone = volume.run(&["layout", "merge", "u"]);
    assert_eq!(code(&alone), 2, "{}", err(&alone));
    let foreign = volume.run_as_nobody(&["layout", "merge", "u", "v"]);
    assert_eq!(code(&foreign), 4, "{}", err(&foreign));
    assert_eq!(shared_inodes(&volume), 0);
    volume.ok(&["down"]);
}

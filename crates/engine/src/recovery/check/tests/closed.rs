//! Checksums of files that were closed.

use super::scrub::{all, flip};
use super::*;
use crate::file::File;
use std::sync::atomic::{AtomicBool, Ordering};

const LEN: u64 = 3_300_000;

fn file(c: &Checked, path: &str, mirrors: usize) -> Arc<File> {
    let file = c.open_file(path).expect("made");
    let place = c.checker.files.pool().placement.clone();
    let place = policy::layout::Placement { stripe_size: 65536, stripe_count: 2, mirrors, ..place };
    file.set_layout_request(&place).expect("laid out");
    file.write(0, &data(LEN as usize, 7)).expect("written");
    file
}

fn sum(c: &Checked, file: &Arc<File>) -> crate::Result<bool> {
    c.checker.sum(file, &|_| Ok(()), &Stop::default())
}

fn has_sums(file: &Arc<File>) -> bool {
    file.stub().sums().expect("attributes").is_some()
}

/// [S-225]
#[test]
fn of_a_closed_file_a_flipped_bit_is_found_and_mended_from_a_mirror() {
    let c = new();
    let open = file(&c, "a", 2);
    assert!(sum(&c, &open).expect("made") && has_sums(&open));
    drop(open);
    assert!(all(&c).findings.is_empty());
    flip(&c, "a", 0, 100);
    flip(&c, "a", 1, 3_200_000);
    let told = all(&c);
    assert!(
        told.findings.len() == 2 && told.findings.iter().all(|f| f.outcome == Outcome::Repaired),
        "{:#?}",
        told.findings
    );
    let open = c.open_file("a").expect("there");
    for mirror in 0..2 {
        let mut bytes = vec![0; LEN as usize];
        open.read_mirror(&open.view(), mirror, 0, &mut bytes).expect("read");
        assert!(bytes == data(LEN as usize, 7), "mirror {mirror}");
    }
    assert!(has_sums(&open), "a move changes no byte");
    assert!(all(&c).findings.is_empty());
}

/// [S-225]
#[test]
fn of_a_closed_file_with_one_mirror_a_flipped_bit_is_reported_and_stays() {
    let c = new();
    let open = file(&c, "a", 1);
    assert!(sum(&c, &open).expect("made"));
    drop(open);
    flip(&c, "a", 0, 100_000);
    for _ in 0..2 {
        let told = all(&c);
        let [finding] = &told.findings[..] else { panic!("{:#?}", told.findings) };
        assert_eq!((finding.kind, &finding.outcome, &finding.path[..]), (FindingKind::Damaged, &Outcome::Lost, "a"));
        assert!(finding.range.as_ref().is_some_and(|range| range.contains(&100_000)));
    }
    let report = c.deep(true);
    assert_eq!(kinds(&report), [FindingKind::Damaged]);
    let mut expected = data(LEN as usize, 7);
    expected[100_000] ^= 1;
    assert!(c.world.read("a") == expected);
}

/// [S-429]
#[test]
fn a_bit_that_flips_before_the_checksums_is_certified_with_one_mirror_and_prevents_them_with_two() {
    let c = new();
    for (path, mirrors) in [("a", 1), ("b", 2)] {
        let open = file(&c, path, mirrors);
        flip(&c, path, 0, 100_000);
        match mirrors {
            1 => assert!(sum(&c, &open).expect("made") && has_sums(&open)),
            _ => assert!(matches!(sum(&c, &open), Err(crate::Error::Busy(_))) && !has_sums(&open)),
        }
    }
    let found = all(&c).findings;
    let is_of_b = found.iter().all(|finding| finding.kind == FindingKind::MirrorsDiffer && finding.path == "b");
    assert!(found.len() == 2 && is_of_b, "one for each mirror: {found:#?}");
}

type Change = (&'static str, fn(&Arc<File>) -> crate::Result<()>);

const CHANGES: [Change; 9] = [
    ("write", |file| file.write(5, b"other")),
    ("write beyond the end", |file| file.write(LEN + 5, b"other")),
    ("append", |file| file.append(b"more").map(drop)),
    ("cut", |file| file.truncate(1_000_000)),
    ("empty", |file| file.truncate(0)),
    ("make longer", |file| file.truncate(LEN * 2)),
    ("punch", |file| file.punch(4096, 100_000)),
    ("zero", |file| file.zero(4096, 100_000, false)),
    ("reserve", |file| file.allocate(LEN, 5000, false)),
];

/// [S-225]
#[test]
fn whatever_changes_a_file_ends_its_checksums() {
    for mirrors in 1..=2 {
        for (name, change) in CHANGES {
            let c = new();
            let open = file(&c, "a", mirrors);
            assert!(sum(&c, &open).expect("made"), "{name}");
            drop(open);
            let open = c.open_file("a").expect("there");
            change(&open).expect(name);
            assert!(!has_sums(&open), "{name}");
            drop(open);
            assert!(c.deep(false).findings.is_empty() && all(&c).findings.is_empty(), "{name}");
            let open = c.open_file("a").expect("there");
            assert_eq!(sum(&c, &open).expect("made"), open.size() > 0, "{name}");
            drop(open);
            assert!(c.deep(false).findings.is_empty() && all(&c).findings.is_empty(), "{name}");
        }
    }
}

/// [S-225]
#[test]
fn checksums_end_before_the_first_byte_is_changed_and_a_change_meanwhile_ends_those_to_come() {
    let c = new();
    let open = file(&c, "a", 1);
    for (name, change) in CHANGES {
        let changed = AtomicBool::new(false);
        let paced = |_| {
            if !changed.swap(true, Ordering::AcqRel) {
                change(&open).expect(name);
            }
            Ok(())
        };
        let made = c.checker.sum(&open, &paced, &Stop::default());
        assert!(!matches!(made, Ok(true)) && !has_sums(&open), "{name}: {made:?}");
        open.truncate(0).expect("emptied");
        open.write(0, &data(LEN as usize, 7)).expect("written");
    }
    assert!(sum(&c, &open).expect("made"));
    let closing = std::fs::read_dir(c.world.tree.with_file_name("side")).expect("side").flatten();
    let left: Vec<_> = closing.filter(|entry| entry.file_name().to_string_lossy().ends_with(".closing")).collect();
    assert!(left.is_empty(), "{left:?}");
    for target in c.checker.volume.targets().all() {
        c.fail(target.id());
    }
    open.write(0, b"x").expect_err("no target takes it");
    assert!(!has_sums(&open), "it was said before that was tried");
}

/// [S-224] [S-225]
#[test]
fn a_scrub_beside_writers_and_files_that_get_checksums_finds_nothing_wrong() {
    let c = new();
    let paths = ["a", "b", "c"];
    paths.iter().enumerate().for_each(|(n, path)| drop(file(&c, path, 1 + n % 2)));
    let over = AtomicBool::new(false);
    let (told, made) = std::thread::scope(|scope| {
        for (n, path) in paths.into_iter().enumerate() {
            let (c, over) = (&c, &over);
            scope.spawn(move || {
                let mut random = n as u64 * 7919 + 1;
                while !over.load(Ordering::Acquire) {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let file = c.open_file(path).expect("there");
                    let at = (random >> 33) % LEN;
                    match random >> 60 {
                        0 => file.truncate(at).expect("cut"),
                        1 => file.truncate(LEN).expect("longer"),
                        2 => file.punch(at, 70_000).expect("punched"),
                        3..=5 => std::thread::yield_now(),
                        _ => file.write(at, &data(5000, random)).expect("written"),
                    }
                    if random >> 58 & 3 == 0 {
                        std::thread::sleep(std::time::Duration::from_millis(random >> 33 & 63));
                    }
                }
            });
        }
        let mut made = 0;
        let told: Vec<_> = (0..30)
            .map(|_| {
                for path in paths {
                    made += u32::from(matches!(sum(&c, &c.open_file(path).expect("there")), Ok(true)));
                }
                all(&c)
            })
            .collect();
        over.store(true, Ordering::Release);
        (told, made)
    });
    for told in told {
        assert!(told.came_to_the_end && told.findings.is_empty(), "{:#?}", told.findings);
    }
    eprintln!("{made} times checksums were made");
    for path in paths {
        let open = c.open_file(path).expect("there");
        open.write(0, b"some").expect("written");
        assert!(sum(&c, &open).expect("made"), "{path}");
    }
    assert!(all(&c).findings.is_empty());
    flip(&c, "a", 0, 0);
    assert!(!all(&c).findings.is_empty(), "it can fail");
}

//! Scrubs of a real volume in a temporary directory.

use super::*;
use crate::recovery::{Scrubbed, ScrubbedFile};
use policy::layout::Placement;
use std::sync::atomic::{AtomicBool, Ordering};

/// Progress reported by a scrub.
#[derive(Default)]
pub(super) struct ScrubRun {
    bytes: u64,
    paths: Vec<String>,
    pub findings: Vec<Finding>,
    left: Vec<String>,
    pub came_to_the_end: bool,
}

fn scrub(c: &Checked, after: Option<&str>, until: usize) -> ScrubRun {
    let (mut all, stop) = (ScrubRun::default(), Stop::default());
    let mut take = |scrubbed: Scrubbed<'_>| match scrubbed {
        Scrubbed::Bytes(bytes) => all.bytes += bytes,
        Scrubbed::File(path, ScrubbedFile { findings, left, .. }) => {
            all.paths.push(path.to_owned());
            all.findings.extend(findings);
            all.left.extend(left);
            if all.paths.len() == until {
                stop.set();
            }
        }
    };
    let came = c.checker.scrub(after, &|_| Ok(()), &mut take, &stop).expect("scrubbed");
    ScrubRun { came_to_the_end: came, ..all }
}

pub(super) fn all(c: &Checked) -> ScrubRun {
    scrub(c, None, usize::MAX)
}

fn mirror(c: &Checked, path: &str) {
    let file = c.open_file(path).expect("there");
    let placement = c.checker.files.pool().placement.clone();
    let narrow = Placement { stripe_count: 2, ..placement };
    c.checker.mover.add_mirror(&file, &narrow).expect("mirrored");
}

/// The object that has a byte of a mirror, and the offset in the object.
fn place_of(c: &Checked, path: &str, mirror: usize, offset: u64) -> (policy::layout::Object, u64) {
    let layout = c.layout(path);
    let piece = layout.mirrors[mirror].pieces(mirror, offset, 1).next().expect("a piece");
    (*layout.object(piece.at).expect("object"), piece.object_offset)
}

pub(super) fn flip(c: &Checked, path: &str, mirror: usize, offset: u64) {
    let (object, at) = place_of(c, path, mirror, offset);
    c.on_object(object, move |handle| {
        let mut byte = [0];
        assert_eq!(handle.read_at(at, &mut byte).expect("read"), 1);
        handle.write_at(at, &[byte[0] ^ 1]).expect("written");
    });
}

/// [S-222]
#[test]
fn files_are_scrubbed_in_the_order_of_their_paths_and_one_that_was_stopped_goes_on() {
    let c = new();
    for dir in ["b", "b/c", "b.d"] {
        std::fs::create_dir(c.world.tree.join(dir)).expect("directory");
    }
    let paths = ["a", "b/a", "b/c/z", "b/d", "b.d/x", "c"];
    for (n, path) in paths.iter().enumerate() {
        c.staged(path, n as u64);
    }
    let whole = all(&c);
    let mut order: Vec<Vec<&str>> = paths.iter().map(|path| path.split('/').collect()).collect();
    order.sort();
    let order: Vec<String> = order.iter().map(|names| names.join("/")).collect();
    assert_eq!((&whole.paths, whole.bytes), (&order, (SIZE * paths.len()) as u64));
    assert!(whole.findings.is_empty() && whole.left.is_empty() && whole.came_to_the_end, "{:?}", whole.left);
    for done in 1..=paths.len() {
        let first = scrub(&c, None, done);
        assert_eq!((&first.paths[..], first.came_to_the_end), (&order[..done], false));
        let rest = scrub(&c, first.paths.last().map(String::as_str), usize::MAX);
        assert_eq!((&rest.paths[..], rest.came_to_the_end), (&order[done..], true), "after {done}");
    }
    std::fs::remove_file(c.world.tree.join("b/c/z")).expect("removed");
    assert_eq!(scrub(&c, Some("b/c/z"), usize::MAX).paths, order[3..], "one that is gone");
}

/// [S-223]
#[test]
fn each_stripe_is_mended_from_the_mirror_that_has_it_right() {
    let c = new();
    let remote = c.staged("a", 31);
    mirror(&c, "a");
    remote.fail(Some(crate::source::SourceError::Permanent("gone".into())));
    // No mirror is whole, and every stripe is right in one.
    flip(&c, "a", 0, 100);
    flip(&c, "a", 1, 5_000_000);
    flip(&c, "a", 0, 11_999_999);
    let told = all(&c);
    assert!(!told.findings.is_empty() && told.left.is_empty(), "{:?}", told.left);
    assert!(told.findings.iter().all(|f| f.outcome == Outcome::Repaired), "{:#?}", told.findings);
    assert!(told.findings.iter().all(|f| f.range.is_some() && !f.target.is_empty() && f.path == "a"));
    let layout = c.layout("a");
    assert_eq!(layout.in_sync_count(), 2);
    let file = c.open_file("a").expect("there");
    for mirror in 0..2 {
        let mut bytes = vec![0; SIZE];
        file.read_mirror(&file.view(), mirror, 0, &mut bytes).expect("read");
        assert!(bytes == data(SIZE, 31), "mirror {mirror}");
    }
    drop(file);
    assert!(all(&c).findings.is_empty());
    assert!(c.check(false).findings.is_empty(), "the objects with wrong bytes are gone");
}

/// [S-223]
#[test]
fn what_no_mirror_has_right_comes_from_the_source() {
    let c = new();
    let remote = c.staged("a", 32);
    mirror(&c, "a");
    let before = remote.reads().len();
    flip(&c, "a", 0, 4_000_000);
    flip(&c, "a", 1, 4_000_000);
    let told = all(&c);
    assert!(
        told.findings.len() == 2 && told.findings.iter().all(|f| f.outcome == Outcome::Repaired),
        "{told:#?}",
        told = told.findings
    );
    let fetched: usize = remote.reads()[before..].iter().map(|(_, len)| len).sum();
    let stripe =
        c.world.stager.silent(&crate::stage::world::who()).source_get("a").expect("get").expect("record").stripe_bytes;
    assert_eq!(fetched as u64, stripe, "once, for both mirrors, and nothing else");
    assert!(c.world.read("a") == data(SIZE, 32));
    assert!(all(&c).findings.is_empty());
}

/// [S-223]
#[test]
fn what_neither_a_mirror_nor_the_source_has_is_reported_and_left_as_it_is() {
    let c = new();
    let remote = c.staged("a", 33);
    remote.fail(Some(crate::source::SourceError::Permanent("gone".into())));
    flip(&c, "a", 0, 7_000_000);
    let before = c.layout("a");
    let mut expected = data(SIZE, 33);
    expected[7_000_000] ^= 1;
    let told = all(&c);
    let [finding] = &told.findings[..] else { panic!("{:#?}", told.findings) };
    let (object, _) = place_of(&c, "a", 0, 7_000_000);
    assert_eq!((finding.kind, &finding.path[..], &finding.object), (FindingKind::Damaged, "a", &object.id.to_string()));
    assert!(matches!(finding.outcome, Outcome::Failed(_)), "{finding:?}");
    assert!(finding.range.as_ref().is_some_and(|range| range.contains(&7_000_000)));
    assert!(c.world.read("a") == expected, "it is read as before");
    assert_eq!(c.layout("a"), before);
    remote.fail(None);
    assert!(all(&c).findings.iter().all(|f| f.outcome == Outcome::Repaired));
    assert!(c.world.read("a") == data(SIZE, 33));
}

/// [S-224]
#[test]
fn a_scrub_beside_writers_and_truncations_finds_nothing_wrong() {
    let c = new();
    for (n, path) in ["a", "b", "c", "d"].iter().enumerate() {
        c.staged(path, n as u64);
        mirror(&c, path);
    }
    let over = AtomicBool::new(false);
    let told = std::thread::scope(|scope| {
        for (n, path) in ["a", "b", "c", "d"].into_iter().enumerate() {
            let (c, over) = (&c, &over);
            scope.spawn(move || {
                let file = c.open_file(path).expect("there");
                let mut random = n as u64 * 7919 + 1;
                while !over.load(Ordering::Acquire) {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let at = (random >> 33) % SIZE as u64;
                    match random % 16 {
                        0 => file.truncate(at).expect("cut"),
                        1 => file.truncate(SIZE as u64).expect("longer"),
                        _ => file.write(at, &data(5000, random)).expect("written"),
                    }
                }
            });
        }
        let told: Vec<ScrubRun> = (0..4).map(|_| all(&c)).collect();
        over.store(true, Ordering::Release);
        told
    });
    for told in told {
        assert!(told.came_to_the_end && told.findings.is_empty(), "{:#?}", told.findings);
    }
    assert!(c.deep(false).findings.is_empty());
}

//! Tests of the layout record.

use super::*;
use crate::layout::sample;
use proptest::prelude::*;

/// One open segment over `count` objects with consecutive numbers.
fn wide(count: u64) -> Layout {
    let first = 7 << 32;
    let objects = (0..count).map(|n| Object::whole(ObjectId(first + n), TargetId(n as u16))).collect();
    let segment = Segment { start: 0, end: OPEN_END, stripe_size: 1 << 20, objects };
    let mut history = History::default();
    for _ in 0..History::ENTRIES_MAX {
        history.push(Time(1_700_000_000_000_000_000), Reason::Drained(TargetId(300)));
    }
    let mirrors = vec![Mirror { state: MirrorState::InSync, segments: vec![segment] }];
    Layout { file: FileId(first - 1), generation: 900, mirrors, history }
}

/// A record with the right checksum for any body.
fn sealed(body: &[u8]) -> Vec<u8> {
    sealed_as(VERSION, body)
}

fn sealed_as(version: u8, body: &[u8]) -> Vec<u8> {
    let mut record = [MAGIC, &[version][..], body].concat();
    let crc = crc32(&record);
    record.extend_from_slice(&crc.to_le_bytes());
    record
}

fn invalid(why: &str) -> Result<Layout, CodecError> {
    Err(CodecError::Bad(format!("the layout record is invalid: {why}")))
}

fn is_malformed(record: &[u8]) -> bool {
    matches!(Layout::decode(record), Err(CodecError::Bad(why)) if why.contains("not valid at byte"))
}

#[test]
fn the_bytes_of_one_record_by_hand() {
    let mut layout = wide(1);
    layout.file = FileId(300);
    layout.generation = 2;
    layout.mirrors[0].segments[0].objects[0] =
        Object { state: ObjectState::Partial, ..Object::whole(ObjectId(301), TargetId(5)) };
    layout.history = History::default();
    layout.history.push(Time(100), Reason::RecoveryStarted(TargetId(4)));
    let body = [
        0xac, 2, // file 300
        2, // generation
        1, // one mirror
        0, // in sync
        1, // one segment
        0, // open end
        0x80, 0x80, 0x40, // stripe size 1 MiB
        1,    // one object
        11,   // target 5, partial
        2,    // number: one more than the file's
        1,    // one entry of history
        0xc8, 1, // time 100, folded
        7, 4, // recovery started, target 4
    ];
    assert_eq!(layout.encode(), sealed(&body));
}

#[test]
fn a_shared_object_makes_it_version_2() {
    let mut layout = wide(2);
    layout.file = FileId(300);
    layout.generation = 2;
    let shared = Merged { unit_bytes: 8192, slot: 1, of: 3 };
    layout.mirrors[0].segments[0].objects = vec![
        Object { merged: Some(shared), ..Object::whole(ObjectId(301), TargetId(5)) },
        Object::whole(ObjectId(302), TargetId(4)),
    ];
    layout.history = History::default();
    layout.history.push(Time(100), Reason::Merged);
    let body = [
        0xac, 2, 2, 1, 0, 1, 0, 0x80, 0x80, 0x40, // as in the record above
        2,    // two objects
        22,   // target 5, shared
        2,    // number: one more than the file's
        0x80, 0x40, 3, 1,  // units of 8 KiB of three files in turn, this is the second
        16, // target 4, of its own
        2,  // one more
        1, 0xc8, 1, 13, // merged at time 100
    ];
    assert_eq!(layout.encode(), sealed_as(VERSION_MERGED, &body));
    assert_eq!(Layout::decode(&layout.encode()), Ok(layout));
    // Neither version can encode layouts of the other.
    let whole = wide(1).encode();
    let as_merged = sealed_as(VERSION_MERGED, &[1, 1, 1, 0, 1, 0, 0x80, 0x20, 1, 0, 2, 0]);
    assert_eq!(Layout::decode(&as_merged), Err(malformed(4)));
    assert_eq!(whole[4], VERSION);
    let odd_unit = sealed_as(VERSION_MERGED, &[1, 1, 1, 0, 1, 0, 0x80, 0x20, 1, 2, 2, 7, 3, 1, 0]);
    assert_eq!(
        Layout::decode(&odd_unit),
        invalid(&format!("object {} is shared in a way that cannot be", ObjectId(2)))
    );
}

#[test]
fn a_layout_over_256_targets_fits_into_an_attribute() {
    let layout = wide(256);
    let record = layout.encode();
    assert!(record.len() < 1228, "{} bytes", record.len());
    assert_eq!(Layout::decode(&record), Ok(layout));
}

#[test]
fn what_is_no_record_is_told_apart() {
    let record = wide(3).encode();
    let is_bad =
        |record: &[u8], why: &str| matches!(Layout::decode(record), Err(CodecError::Bad(text)) if text.contains(why));
    assert!([&b""[..], b"ENT", &record[1..]].iter().all(|record| is_bad(record, "is no layout record")));
    let cut_off = [b"ENTL", &b"ENTL\x01"[..], &record[..record.len() - 1]];
    assert!(cut_off.iter().all(|record| is_bad(record, "checksum does not match")));
    let mut newer = record.clone();
    newer[4] = 3;
    assert!(matches!(Layout::decode(&newer), Err(CodecError::Newer(text)) if text.contains("version 3")));
}

#[test]
fn a_true_checksum_does_not_make_nonsense_a_layout() {
    let trailing = sealed(&[1, 1, 1, 0, 1, 0, 0x80, 0x20, 1, 0, 2, 0, 0]);
    assert_eq!(Layout::decode(&trailing), Err(malformed(17)));
    let no_mirror = sealed(&[1, 1, 0, 0]);
    assert_eq!(Layout::decode(&no_mirror), invalid("the layout has no mirror"));
    let huge_count = sealed(&[1, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]);
    assert!(is_malformed(&huge_count));
    let huge_objects =
        sealed(&[1, 1, 1, 0, 1, 0, 0x80, 0x20, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0]);
    assert!(is_malformed(&huge_objects));
    let odd_stripe = sealed(&[1, 1, 1, 0, 1, 0, 7, 1, 0, 2, 0]);
    assert_eq!(Layout::decode(&odd_stripe), invalid("segment 0 of mirror 0 has no object or a bad stripe size"));
}

proptest! {
    #[test]
    fn what_was_encoded_comes_back(layout in sample::layouts()) {
        prop_assert_eq!(Layout::decode(&layout.encode()), Ok(layout));
    }

    #[test]
    fn hostile_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(Layout::decode(&bytes).is_err());
        for record in [sealed(&bytes), sealed_as(VERSION_MERGED, &bytes)] {
            if let Ok(layout) = Layout::decode(&record) {
                prop_assert_eq!(layout.check(), Ok(()));
                prop_assert_eq!(layout.encode(), record, "one layout, one record");
            }
        }
    }

    #[test]
    fn every_flipped_bit_is_noticed(layout in sample::layouts(), at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let mut record = layout.encode();
        let at = at.index(record.len());
        record[at] ^= 1 << bit;
        prop_assert!(Layout::decode(&record).is_err());
    }

    #[test]
    fn a_changed_body_under_a_true_checksum_does_no_harm(
        layout in sample::layouts(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let record = layout.encode();
        let version = record[4];
        let mut body = record[HEAD_LEN..record.len() - CRC_LEN].to_vec();
        for (at, byte) in changes {
            let at = at.index(body.len());
            body[at] = byte;
        }
        if let Ok(layout) = Layout::decode(&sealed_as(version, &body)) {
            prop_assert_eq!(layout.check(), Ok(()));
            prop_assert_eq!(layout.encode(), sealed_as(version, &body));
        }
    }
}

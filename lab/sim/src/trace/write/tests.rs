//! Round trips: a written trace is read back.

use super::*;
use crate::trace::{Flags, Options, TimeUnit, open};
use proptest::prelude::*;

fn round_trip(name: &str, target: Target, records: &[Record], options: &Options) -> (Vec<Record>, Written) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    let mut writer = Writer::create(&path, target).unwrap();
    records.iter().for_each(|r| writer.write(r).unwrap());
    let written = writer.finish().unwrap();
    let mut reader = open(&path, options).unwrap();
    let seen = reader.by_ref().map(|r| r.unwrap()).collect();
    assert!(reader.accounting().closes());
    (seen, written)
}

fn any_record() -> impl Strategy<Value = Record> {
    let op = prop_oneof![Just(Op::Read), Just(Op::Write), Just(Op::Trim), Just(Op::Sync)];
    let numbers = (any::<u64>(), 0..u64::MAX - u64::from(u32::MAX), any::<u32>(), any::<u32>(), any::<u32>());
    (numbers, any::<u16>(), op, 0..8u8).prop_map(|((time_ns, offset, length, client, file), device, op, flags)| {
        Record { time_ns, offset, length, client, file, device, op, flags: Flags(flags) }
    })
}

/// A request that SPC, DiskSim and `.load` represent exactly.
fn sector_record() -> impl Strategy<Value = Record> {
    (0..1u64 << 50, 0..1u64 << 40, 1..1000u32, any::<bool>()).prop_map(|(time_ns, sector, sectors, read)| {
        let op = if read { Op::Read } else { Op::Write };
        Record { time_ns, offset: sector * 512, length: sectors * 512, op, ..Record::default() }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn our_own_format_keeps_everything(records in proptest::collection::vec(any_record(), 0..200)) {
        for name in ["t", "t.zst", "t.gz"] {
            let target = Target::Native { block_bytes: 512, has_times: true };
            let (seen, written) = round_trip(name, target, &records, &Options::default());
            prop_assert_eq!(&seen, &records);
            prop_assert_eq!(written, Written { records: records.len() as u64, dropped: 0, widened: 0 });
        }
    }

    #[test]
    fn device_formats_keep_requests_of_whole_sectors(records in proptest::collection::vec(sector_record(), 1..100)) {
        for unit in [TimeUnit::Ns, TimeUnit::Us, TimeUnit::Ms, TimeUnit::S] {
            let options = Options { time_unit: Some(unit), ..Options::default() };
            prop_assert_eq!(&round_trip("t", Target::Disksim(unit), &records, &options).0, &records);
        }
        prop_assert_eq!(&round_trip("t", Target::Spc, &records, &Options::default()).0, &records);
        prop_assert_eq!(&round_trip("t", Target::Load, &records, &Options::default()).0, &records);
    }
}

#[test]
fn our_own_format_keeps_that_there_are_no_times() {
    for has_times in [true, false] {
        let path = tempfile::tempdir().unwrap().keep().join("t.zst");
        let mut writer = Writer::create(&path, Target::Native { block_bytes: 512, has_times }).unwrap();
        writer.write(&Record::default()).unwrap();
        writer.finish().unwrap();
        let mut reader = open(&path, &Options::default()).unwrap();
        assert!(reader.by_ref().all(|record| record.is_ok()));
        let identity = crate::trace::identify(&path, &Options::default()).unwrap();
        assert_eq!((reader.has_times(), identity.has_times, identity.block_bytes), (has_times, has_times, 512));
    }
}

#[test]
fn what_a_format_cannot_say_is_counted_or_refused() {
    let odd = Record { offset: 100, length: 1000, ..Record::default() };
    let sync = Record { op: Op::Sync, ..Record::default() };
    let (seen, written) = round_trip("t", Target::Load, &[odd, sync], &Options::default());
    assert_eq!(seen, [Record { offset: 0, length: 1536, ..Record::default() }]);
    assert_eq!(written, Written { records: 2, dropped: 1, widened: 1 });
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(&dir.path().join("t"), Target::Spc).unwrap();
    let error = writer.write(&Record { file: 3, length: 1, ..Record::default() }).unwrap_err();
    assert!(error.to_string().contains("--flat"), "{error}");
}

#[test]
fn fio_s_log_keeps_files_and_microseconds() {
    let r = Record { time_ns: 5_000_000, offset: 77, length: 9, file: 1, ..Record::default() };
    let records = [r, Record { op: Op::Trim, file: 2, ..r }, Record { op: Op::Sync, offset: 0, length: 0, ..r }];
    assert_eq!(round_trip("t", Target::Fio, &records, &Options::default()).0, records);
}

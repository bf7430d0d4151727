//! Whole files under test: a sample of each format, important options, hostile bytes.

use super::*;
use crate::trace::{Accounting, Op, Record};
use proptest::prelude::*;

/// Returns a small sample of every format, written for this test, and the number of its requests.
fn samples() -> Vec<(Format, Vec<u8>, usize)> {
    let mut native = native::header(0, true).to_vec();
    let record = native::encode(&Record { offset: 4096, length: 512, ..Record::default() });
    native.extend(record);
    native.extend(native::end(1, crc32fast::hash(&record)));
    let mut blktrace = Vec::new();
    for (ns, action) in [(900u64, 1u32), (950, 7)] {
        blktrace.extend(0x6561_7407u32.to_le_bytes());
        blktrace.extend(1u32.to_le_bytes());
        blktrace.extend(ns.to_le_bytes());
        blktrace.extend(64u64.to_le_bytes());
        for n in [4096, 1 << 16 | action, 7, 8 << 20, 0, 0] {
            blktrace.extend(n.to_le_bytes());
        }
    }
    let sector = [8u64.to_le_bytes(), 5u64.to_le_bytes()].concat();
    let record =
        |command: u32| [[1, 512, 1, 0x100 << 16 | command].map(u32::to_le_bytes).concat(), sector.clone()].concat();
    let vscsi = [record(0x28), record(0x2a)].concat();
    let text = |format, text: &str, records| (format, text.as_bytes().to_vec(), records);
    vec![
        (Format::Native, native, 1),
        (Format::Blktrace, blktrace, 1),
        (Format::OracleGeneral, [vec![1; 24], vec![2; 24]].concat(), 2),
        text(Format::Spc, "0,8,4096,r,0.5\n1,16,512,W,0.75,extra\n", 2),
        text(Format::Msr, "128166372003061629,h,1,Read,4096,512,9\n128166372003061630,h,1,Write,0,512,9\n", 2),
        text(Format::Load, "words\n\nstart ; sector; length ; op\n 0.1 ; 8 ; 8 ; R ; 0.0 ; 0.0\n", 1),
        text(Format::Blkparse, "8,0 1 1 0.5 9 Q R 8 + 8 [a]\n8,0 1 1 0.5 9 D R 8 + 8 [a]\nCPU1 (a):\n x\n", 1),
        text(Format::Fio, "fio version 2 iolog\n/f add\n/f read 0 512\n/f wait 500 0\n/f write 512 512\n", 2),
        text(Format::Disksim, "0.5 0 8 8 1\n1.5 0 16 8 0\n", 2),
        text(Format::Arc, "10 3 0 0\n20 1 0 1\n", 2),
        text(Format::Lirs, "1\n2\n*\n", 2),
        text(
            Format::Dxt,
            "# DXT, file_id: 5, file_name: f\n X_POSIX 0 write 0 0 512 2.0 2.1\n X_POSIX 0 read 0 0 512 1.0 1.1\n",
            2,
        ),
        (Format::Vscsi, vscsi, 2),
        text(Format::Tencent, "5,8,8,0,1\n6,16,8,1,2\n", 2),
        text(Format::Systor, "t,r,o,l,o,s\n5.5,0.1,R,4,0,512\n6,,,4,0,0\n", 1),
        text(Format::Csv, "lba ms op\n8 0.5 read\n9 1.5 write\n", 2),
    ]
}

fn options(format: Format) -> Options {
    let columns = (format == Format::Csv).then(|| "offset:blocks,time:ms,op".into());
    Options { format: Some(format), time_unit: Some(TimeUnit::Ms), lenient: true, columns, ..Options::default() }
}

fn read_all(data: Vec<u8>, options: &Options) -> Result<(Vec<Record>, Accounting), Error> {
    let bytes = Bytes::decompress(Path::new("t"), std::io::Cursor::new(data))?;
    let mut reader = read(bytes, options, true)?;
    let records = reader.by_ref().collect::<Result<_, _>>()?;
    Ok((records, reader.accounting().clone()))
}

#[test]
fn a_recording_of_a_volume_is_recognised_by_its_heading() {
    let text = "time_ns,client,file,op,offset,length,duration_ns\n500,0,0,r,4096,512,9000\n700,1,0,w,0,512,9000\n";
    let (records, accounts) = read_all(text.into(), &Options::default()).unwrap();
    let first = Record { file: 1, offset: 4096, length: 512, ..Record::default() };
    let second = Record { time_ns: 200, client: 1, op: Op::Write, offset: 0, ..first };
    assert_eq!(records, [first, second]);
    assert!(accounts.closes());
}

#[test]
fn every_format_is_read_and_its_accounts_close() {
    let seen: Vec<_> = samples().iter().map(|s| s.0).collect();
    assert_eq!(seen.len(), Format::ALL.len(), "a format without a sample: {seen:?}");
    for (format, data, count) in samples() {
        let (records, accounts) = read_all(data.clone(), &options(format)).unwrap();
        assert_eq!((records.len(), accounts.skipped_sum()), (count, 0), "{format}");
        assert!(accounts.closes(), "{format}: {accounts:?}");
        if !matches!(format, Format::OracleGeneral | Format::Tencent | Format::Systor) {
            let told = Options { format: None, ..options(format) };
            assert_eq!(read_all(data.clone(), &told).unwrap().0, records, "{format}, told by content");
        }
        let packed = zstd::encode_all(&data[..], 1).unwrap();
        assert_eq!(read_all(packed, &options(format)).unwrap().0, records, "{format}, compressed");
    }
}

#[test]
fn transfers_of_a_job_come_in_the_order_of_time() {
    let (_, data, _) = samples().into_iter().find(|s| s.0 == Format::Dxt).unwrap();
    let (records, _) = read_all(data.clone(), &options(Format::Dxt)).unwrap();
    assert_eq!(records.iter().map(|r| r.op).collect::<Vec<_>>(), [Op::Read, Op::Write]);
    let small = Options { sort_records_max: 1, ..options(Format::Dxt) };
    assert!(matches!(read_all(data, &small), Err(Error::TooManyToSort { max: 1 })));
}

#[test]
fn files_of_several_clients_are_merged_by_time() {
    let dir = tempfile::tempdir().unwrap();
    let paths = ["a", "b"].map(|n| dir.path().join(n));
    std::fs::write(&paths[0], "0,8,512,r,0.1\n0,16,512,r,0.3\n").unwrap();
    std::fs::write(&paths[1], "0,8,512,r,0.2\n0,16,512,r,0.3\n").unwrap();
    let mut reader = open_all(&paths, &Options::default()).unwrap();
    let order: Vec<_> = reader.by_ref().map(|r| r.unwrap()).map(|r| (r.time_ns / 100_000_000, r.client)).collect();
    assert_eq!(order, [(1, 0), (2, 1), (3, 0), (3, 1)]);
    assert_eq!((reader.accounting().records, reader.accounting().closes()), (4, true));
}

#[test]
fn a_missing_file_is_named() {
    let error = open(Path::new("/nowhere/at/all"), &Options::default()).err().unwrap();
    assert!(error.to_string().contains("/nowhere/at/all"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_bytes_never_panic_and_the_accounts_close(data in proptest::collection::vec(any::<u8>(), 0..4096)) {
        for format in Format::ALL {
            if let Ok((records, accounts)) = read_all(data.clone(), &options(*format)) {
                prop_assert!(accounts.closes(), "{format}: {accounts:?}");
                prop_assert_eq!(accounts.records, records.len() as u64);
            }
        }
        let _ = read_all(data, &Options::default());
    }

    #[test]
    fn damaged_samples_never_panic_and_the_accounts_close(
        hits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
        twice in any::<bool>(),
    ) {
        for (format, mut data, _) in samples() {
            for (at, byte) in &hits {
                let at = at.index(data.len());
                data[at] = *byte;
            }
            if twice {
                data.truncate(cut.index(data.len()));
                data.extend(data.clone());
            }
            // Only a broken compressor's stream may fail as a whole.
            if let Ok((records, accounts)) = read_all(data, &options(format)) {
                prop_assert!(accounts.closes(), "{format}: {accounts:?}");
                prop_assert_eq!(accounts.records, records.len() as u64);
                for r in records {
                    prop_assert!(r.offset.checked_add(u64::from(r.length)).is_some());
                }
            }
        }
    }
}

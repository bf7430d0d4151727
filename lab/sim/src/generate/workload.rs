//! The paper's concurrent streams (Zhang, section 2.6): two rates, video on demand, copies, downloads.
//!
//! Published: number of streams, request sizes and think time of the video streams, size of the copied files, rates
//! of the two-stream tests. Guesses: bandwidths of the copies and downloads (the figures show bars without numbers),
//! their request size, lengths of the runs.

use super::{Arrivals, Paced, Rng, Stream};

const SECOND_NS: u64 = 1_000_000_000;
const PAGE_BYTES: u32 = 4096;
const MIB: u64 = 1 << 20;

/// Size of files in the two-stream tests (section 2.6.2): larger than the data that a stream reads.
const RATES_FILE_BYTES: u64 = 1 << 30;

/// Think time of a video stream.
const VOD_THINK_NS: u64 = 33_000_000;

/// Request sizes of video streams; each stream draws one.
const VOD_REQUEST_BYTES: [u32; 4] = [16 << 10, 32 << 10, 64 << 10, 128 << 10];

/// Size of a copied file.
const COPY_FILE_BYTES: u64 = 128 * MIB;

/// Bandwidths of cp to a local disk, cp to NFS, and scp to six increasingly distant sites, in bytes per second:
/// guesses.
const COPY_BYTES_PER_S: [u64; 8] = [60 * MIB, 11 * MIB, 8 * MIB, 6 * MIB, 4 * MIB, 2 * MIB, MIB, MIB / 2];

/// Bandwidths of one download from five increasingly distant sites, in bytes per second: guesses.
const DOWNLOAD_BYTES_PER_S: [u64; 5] = [8 * MIB, 4 * MIB, 2 * MIB, MIB, MIB / 2];

/// Downloads per site.
const DOWNLOADS_PER_SITE: usize = 4;

/// Sequential streams of 4 KiB reads with given rates and arrivals, each on files of 1 GiB. Z02: 1000/s and 3000,
/// 5000 or 7000/s, evenly. Z03: equal rates, the first Poisson, the second with sigma.
pub fn rates(streams: &[(f64, Arrivals)], seconds: u64, seed: u64) -> Paced {
    let stream = |(rate_per_s, arrivals): &(f64, Arrivals)| Stream {
        rate_per_s: *rate_per_s,
        arrivals: *arrivals,
        request_bytes: PAGE_BYTES,
        file_bytes: RATES_FILE_BYTES,
        start_ns: 0,
        random: false,
    };
    let streams: Vec<Stream> = streams.iter().map(stream).collect();
    Paced::new(&streams, seconds.saturating_mul(SECOND_NS), seed)
}

/// Video on demand after SPC-2 (Z06): a request of 16, 32, 64 or 128 KiB every 33 ms per stream; of each four streams one has
/// each size; with `drawn`, each stream draws its size by itself, as published. `random_readers` of 8 KiB at 30/s each model a concurrent TPC-H (Z07; rate and size are guesses).
pub fn vod(streams: u32, random_readers: u32, seconds: u64, drawn: bool, seed: u64) -> Paced {
    let mut rng = Rng::new(seed, 0);
    let mut all = Vec::new();
    let mut sizes = VOD_REQUEST_BYTES;
    for n in 0..streams as usize {
        if n % sizes.len() == 0 {
            rng.shuffle(&mut sizes);
        }
        all.push(Stream {
            rate_per_s: 1e9 / VOD_THINK_NS as f64,
            arrivals: Arrivals::Constant,
            request_bytes: if drawn { sizes[rng.below(sizes.len() as u64) as usize] } else { sizes[n % sizes.len()] },
            file_bytes: 4 << 30,
            start_ns: rng.below(VOD_THINK_NS),
            random: false,
        });
    }
    let reader = Stream {
        rate_per_s: 30.0,
        arrivals: Arrivals::Poisson,
        request_bytes: 8 << 10,
        file_bytes: 8 << 30,
        start_ns: 0,
        random: true,
    };
    all.extend((0..random_readers).map(|_| reader));
    Paced::new(&all, seconds.saturating_mul(SECOND_NS), seed)
}

/// Copies of files of 128 MiB (Z04): locally, to NFS, and by scp to six sites of falling bandwidth, all concurrent.
pub fn copies(seconds: u64, seed: u64) -> Paced {
    let streams = COPY_BYTES_PER_S.map(|bytes_per_s| steady(bytes_per_s, COPY_FILE_BYTES, 0));
    Paced::new(&streams, seconds.saturating_mul(SECOND_NS), seed)
}

/// A web server's downloads (Z05): five sites of falling bandwidth, four downloads each, starting within a second.
pub fn downloads(seconds: u64, seed: u64) -> Paced {
    let mut rng = Rng::new(seed, 0);
    let sites = DOWNLOAD_BYTES_PER_S.iter().flat_map(|b| [*b; DOWNLOADS_PER_SITE]);
    let streams: Vec<Stream> = sites.map(|b| steady(b, COPY_FILE_BYTES, rng.below(SECOND_NS))).collect();
    Paced::new(&streams, seconds.saturating_mul(SECOND_NS), seed)
}

fn steady(bytes_per_s: u64, file_bytes: u64, start_ns: u64) -> Stream {
    let rate_per_s = bytes_per_s as f64 / f64::from(PAGE_BYTES);
    let (arrivals, request_bytes) = (Arrivals::Constant, PAGE_BYTES);
    Stream { rate_per_s, arrivals, request_bytes, file_bytes, start_ns, random: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Census, Record};
    use std::collections::BTreeMap;

    fn by_client(records: &[Record]) -> BTreeMap<u32, Vec<Record>> {
        let mut clients: BTreeMap<u32, Vec<Record>> = BTreeMap::new();
        records.iter().for_each(|r| clients.entry(r.client).or_default().push(*r));
        clients
    }

    fn in_order(records: &[Record]) -> bool {
        records.windows(2).all(|w| w[0].time_ns <= w[1].time_ns)
    }

    #[test]
    fn two_rates_read_their_own_files_in_order() {
        let both = [(1000.0, Arrivals::Constant), (7000.0, Arrivals::Constant)];
        let records: Vec<_> = rates(&both, 3, 1).collect();
        assert!(in_order(&records));
        let clients = by_client(&records);
        assert_eq!((clients[&0].len(), clients[&1].len()), (3000, 21_000));
        for requests in clients.values() {
            let file = requests[0].file;
            let walk = requests.iter().enumerate();
            assert!(walk.into_iter().all(|(n, r)| r.file == file && r.offset == n as u64 * 4096 && r.length == 4096));
        }
    }

    #[test]
    fn a_long_stream_goes_on_in_a_new_file() {
        let records: Vec<_> = rates(&[(300_000.0, Arrivals::Constant)], 1, 1).collect();
        let per_file = (RATES_FILE_BYTES / 4096) as usize;
        assert_eq!(records[per_file - 1].file, 1);
        assert_eq!((records[per_file].file, records[per_file].offset), (2, 0));
    }

    #[test]
    fn video_streams_think_33_ms_and_share_the_sizes() {
        let records: Vec<_> = vod(16, 2, 20, false, 7).collect();
        assert!(in_order(&records));
        let clients = by_client(&records);
        let mut sizes = BTreeMap::new();
        for requests in clients.values().take(16) {
            *sizes.entry(requests[0].length).or_insert(0) += 1;
            assert!(requests.windows(2).all(|w| (w[1].time_ns - w[0].time_ns).abs_diff(VOD_THINK_NS) <= 1));
            assert!(requests.windows(2).all(|w| w[1].offset == w[0].end()));
        }
        assert_eq!(sizes, VOD_REQUEST_BYTES.map(|b| (b, 4)).into());
        assert_eq!(clients.len(), 18);
        let random = &clients[&17];
        assert!(random.windows(2).filter(|w| w[1].offset == w[0].end()).count() < random.len() / 100);
    }

    #[test]
    fn copies_have_their_bandwidths_and_file_sizes() {
        let records: Vec<_> = copies(10, 3).collect();
        for (client, requests) in by_client(&records) {
            let bytes: u64 = requests.iter().map(|r| u64::from(r.length)).sum();
            let asked = 10 * COPY_BYTES_PER_S[client as usize];
            assert!(bytes.abs_diff(asked) <= 2 * 4096, "copy {client}: {bytes} of {asked}");
            assert!(requests.iter().all(|r| r.end() <= COPY_FILE_BYTES));
            let goes_on = |w: &[Record]| w[1].offset == w[0].end() || (w[1].offset == 0 && w[1].file != w[0].file);
            assert!(requests.windows(2).all(goes_on), "copy {client}");
        }
        let mut census = Census::new(4096);
        records.iter().for_each(|r| census.add(r));
        let report = census.report();
        // At 600 MiB, cp reads five files; NFS at 110 MiB and the others read one each.
        assert_eq!((report.clients, report.files), (8, 5 + 7));
    }

    #[test]
    fn downloads_are_twenty_in_five_groups() {
        let records: Vec<_> = downloads(5, 3).collect();
        let counts: Vec<usize> = by_client(&records).values().map(Vec::len).collect();
        assert_eq!(counts.len(), 20);
        assert!(counts[0] > 12 * counts[19] && counts[0] < 20 * counts[19], "{counts:?}");
    }

    #[test]
    fn a_seed_gives_the_same_records_and_another_one_others() {
        let take = |seed| vod(8, 1, 2, false, seed).collect::<Vec<_>>();
        assert_eq!(take(1), take(1));
        assert_ne!(take(1), take(2));
    }
}

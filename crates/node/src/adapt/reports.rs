//! Reports of accesses between nodes. The leader adapts the volume for all nodes: the others report their users'
//! accesses about once a second, and it treats those like its own.
//!
//! A report may get lost, and accesses beyond its capacity are counted and dropped: later reports show the same
//! pattern.

use super::Adapt;
use super::log::{Access, Recorded};
use crate::calls::{Calls, To};
use meta::places::Places;
use parking_lot::Mutex;
use policy::pattern::Request;
use policy::stripe::profile::{CLASSES, Count, Counts};
use policy::tier::{Region, Tier};
use policy::{FileId, Time};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// Interval of reports. A guess: far more often than a segment moves, and a thousand messages a second from a thousand
/// nodes.
pub(super) const EVERY: Time = Time::from_millis(1000);
/// Maximum of access kinds, of files with counts, and of removed files in a report: a quarter of a megabyte each.
const ROWS_MAX: usize = 4096;
/// Maximum of accesses that one look takes from all reports: as many as from a node's own log.
const ACCESSES_MAX: usize = 1 << 16;

/// Maximum of files with counted requests of other nodes between two looks.
const HEARD_MAX: usize = 1 << 16;

/// Name of the notices with a report.
const SERVICE: &str = "accesses";
/// Maximum of rows of unread reports; the oldest reports are dropped first. A guess: the reports of a thousand busy
/// nodes in a second or two.
const RECEIVED_MAX: usize = 1 << 20;

/// Reports of accesses: the next one to send, and received ones.
#[derive(Default)]
pub struct Reports {
    pending: Mutex<Pending>,
    received: Mutex<VecDeque<Report>>,
    calls: OnceLock<Arc<Calls>>,
}

#[derive(Default)]
struct Pending {
    accesses: BTreeMap<AccessKind, (u32, u64)>,
    asked: Asked,
    removed: BTreeSet<FileId>,
    lost: u64,
    told: Option<Time>,
}

/// Requests to files, by file number.
pub(super) type Asked = BTreeMap<FileId, (Box<Counts>, Vec<Request>)>;

/// Accesses on one node, for the leader.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Report {
    /// Paths of the files below the tree, by file number.
    places: BTreeMap<u64, String>,
    /// Accesses of each kind: their number and their bytes.
    accesses: Vec<(AccessKind, u32, u64)>,
    /// Requests to files.
    asked: Vec<FileRequests>,
    /// Numbers of removed files.
    removed: Vec<u64>,
}

/// Kind of access: file, segment, whether it lay on the fast tier, whether it was written, whether the request ended
/// there.
type AccessKind = (u64, u64, bool, bool, bool);

/// Requests to a file.
#[derive(Clone, Serialize, Deserialize)]
struct FileRequests {
    /// Number of the file.
    file: u64,
    /// For each size class: reads, writes, and bytes of both.
    counts: Vec<[u64; 3]>,
    /// The last requests: offset, length, whether it was a write.
    recent: Vec<(u64, u64, bool)>,
}

impl Report {
    fn rows(&self) -> usize {
        self.accesses.len() + self.asked.len() + self.removed.len()
    }
}

impl Reports {
    fn receive(&self, report: Report) {
        let mut received = self.received.lock();
        received.push_back(report);
        while received.len() > 1 && received.iter().map(Report::rows).sum::<usize>() > RECEIVED_MAX {
            received.pop_front();
        }
    }

    fn note(&self, accesses: &[Access], removed: &[FileId]) {
        let mut pending = self.pending.lock();
        for access in accesses {
            let (fast, write) = (access.tier == Tier::Fast, access.region == Region::Write);
            let row = (access.file.0, access.segment, fast, write, access.ends_request);
            if pending.accesses.len() >= ROWS_MAX && !pending.accesses.contains_key(&row) {
                pending.lost += 1;
                continue;
            }
            let (times, bytes) = pending.accesses.entry(row).or_default();
            (*times, *bytes) = (times.saturating_add(1), bytes.saturating_add(access.bytes));
        }
        let room = ROWS_MAX.saturating_sub(pending.removed.len());
        pending.removed.extend(removed.iter().copied().take(room));
    }

    /// Adds counted requests of any node to a file. The number of files in use bounds those of this node.
    pub(super) fn asked(&self, file: FileId, counts: &Counts, recent: Vec<Request>) {
        let asked = &mut self.pending.lock().asked;
        let (sum, last) = asked.entry(file).or_default();
        sum.iter_mut().zip(counts).for_each(|(sum, count)| sum.add(*count));
        *last = recent;
    }

    /// Whether there is room for the requests to one more file.
    fn has_room_for(&self, file: FileId) -> bool {
        let asked = &self.pending.lock().asked;
        asked.len() < HEARD_MAX || asked.contains_key(&file)
    }

    fn take_asked(&self) -> Asked {
        std::mem::take(&mut self.pending.lock().asked)
    }

    fn take(&self, now: Time, places: Option<&Places>) -> Option<(Report, u64)> {
        let mut pending = self.pending.lock();
        if pending.told.is_some_and(|told| now.since(told) < EVERY) {
            return None;
        }
        let Pending { accesses, asked, removed, lost, .. } =
            std::mem::replace(&mut *pending, Pending { told: Some(now), ..Pending::default() });
        drop(pending);
        let asked: Asked = asked.into_iter().take(ROWS_MAX).collect();
        let files: BTreeSet<u64> = accesses.keys().map(|row| row.0).chain(asked.keys().map(|file| file.0)).collect();
        if files.is_empty() && removed.is_empty() {
            return None;
        }
        // A name that is not valid text is left out; the other node searches for the file.
        let place = |file: u64| Some((file, places?.path_of(FileId(file))?.into_os_string().into_string().ok()?));
        let asked = asked.into_iter().map(|(file, (counts, recent))| {
            let counts = counts.iter().map(|count| [count.reads, count.writes, count.bytes]).collect();
            let recent = recent.into_iter().map(|one| (one.offset, one.len, one.write)).collect();
            FileRequests { file: file.0, counts, recent }
        });
        let report = Report {
            places: files.into_iter().filter_map(place).collect(),
            accesses: accesses.into_iter().map(|(row, (times, bytes))| (row, times, bytes)).collect(),
            asked: asked.collect(),
            removed: removed.into_iter().map(|file| file.0).collect(),
        };
        Some((report, lost))
    }

    /// Returns the accesses that other nodes reported, and keeps their requests to files.
    fn hear(&self, reports: impl IntoIterator<Item = Report>, now: Time, places: Option<&Places>) -> Recorded {
        let mut heard = Recorded::default();
        for report in reports {
            if let Some(places) = places {
                learn(places, report.places);
            }
            for ((file, segment, fast, write, ends_request), times, bytes) in report.accesses {
                let (tier, region) =
                    (if fast { Tier::Fast } else { Tier::Slow }, if write { Region::Write } else { Region::Read });
                let each = Access {
                    at: now,
                    file: FileId(file),
                    segment,
                    tier,
                    bytes: bytes / u64::from(times.max(1)),
                    region,
                    ends_request,
                };
                let room = ACCESSES_MAX.saturating_sub(heard.accesses.len());
                heard.accesses.extend(std::iter::repeat_n(each, room.min(times as usize)));
            }
            for FileRequests { file, counts, recent } in report.asked {
                if !self.has_room_for(FileId(file)) {
                    continue;
                }
                let mut sums = [Count::default(); CLASSES];
                for (sum, [reads, writes, bytes]) in sums.iter_mut().zip(counts) {
                    *sum = Count { reads, writes, bytes };
                }
                let recent = recent.into_iter().map(|(offset, len, write)| Request { write, offset, len });
                self.asked(FileId(file), &sums, recent.collect());
            }
            heard.removed.extend(report.removed.into_iter().map(FileId));
        }
        heard
    }
}

/// Records the paths of files that this node may never have opened.
fn learn(places: &Places, said: BTreeMap<u64, String>) {
    for (file, path) in said.into_iter().map(|(file, path)| (FileId(file), PathBuf::from(path))) {
        if places.path_of(file).as_ref() != Some(&path) {
            places.learn_below(file, &path);
        }
    }
}

impl Adapt {
    /// Shares the accesses with the other nodes.
    pub(crate) fn share(self: &Arc<Adapt>, calls: &Arc<Calls>) {
        drop(self.reports.calls.set(calls.clone()));
        let adapt = Arc::downgrade(self);
        calls.register_queue(SERVICE, move |report, _| {
            if let Some(adapt) = adapt.upgrade() {
                adapt.reports.receive(report);
            }
        });
    }

    /// Whether another node adapts the volume.
    pub(super) fn follows(&self) -> bool {
        self.files.pool().cluster.get().is_some_and(|cluster| !cluster.leads())
    }

    /// Takes the requests to files here and elsewhere; a follower keeps them for its next report.
    pub(super) fn asked(&self) -> Asked {
        if self.follows() { Asked::default() } else { self.reports.take_asked() }
    }

    /// On the leader, returns the reports of the other nodes; on a follower, sends a report.
    pub(super) fn exchange(&self, accesses: &[Access], removed: &[FileId]) -> Recorded {
        let pool = self.files.pool();
        let (Some(cluster), places, now) = (pool.cluster.get(), pool.places.get(), self.driver.now()) else {
            return Recorded::default();
        };
        let places = places.map(|places| &**places);
        if cluster.leads() {
            return self.reports.hear(std::mem::take(&mut *self.reports.received.lock()), now, places);
        }
        if self.tiers.is_paused() {
            self.pause(false); // of another node that leads, none paused it
        }
        self.reports.note(accesses, removed);
        if let Some((report, lost)) = self.reports.take(now, places) {
            if lost > 0 {
                tracing::debug!("{lost} accesses found no room in a report to the node that leads");
            }
            if let Some(calls) = self.reports.calls.get() {
                calls.notify(&To::Leader, SERVICE, &report);
            }
        }
        Recorded::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(file: u64, segment: u64, write: bool) -> Access {
        let region = if write { Region::Write } else { Region::Read };
        Access { at: Time(5), file: FileId(file), segment, tier: Tier::Slow, bytes: 100, region, ends_request: true }
    }

    /// Simulates that one node receives another's report.
    fn told(from: &Reports, at: Time) -> Option<(Recorded, Asked)> {
        let (report, _) = from.take(at, None)?;
        let to = Reports::default();
        let heard = to.hear(vec![report], Time(70), None);
        Some((heard, to.take_asked()))
    }

    #[test]
    fn the_node_that_leads_hears_what_was_done_and_asked_elsewhere() {
        let reports = Reports::default();
        reports.note(&[access(1, 0, false), access(1, 0, false), access(1, 3, true)], &[FileId(9)]);
        let mut counts = [Count::default(); CLASSES];
        counts[2] = Count { reads: 3, writes: 1, bytes: 400 };
        let last = Request { write: true, offset: 7, len: 100 };
        reports.asked(FileId(1), &counts, Vec::new());
        reports.asked(FileId(1), &counts, vec![last]);
        let (heard, asked) = told(&reports, Time(10)).expect("there is something to tell");
        let at = |access| Access { at: Time(70), ..access };
        assert_eq!(heard.accesses, [access(1, 0, false), access(1, 0, false), access(1, 3, true)].map(at));
        assert_eq!(heard.removed, [FileId(9)]);
        let (counts, recent) = &asked[&FileId(1)];
        assert_eq!((counts[2], &recent[..]), (Count { reads: 6, writes: 2, bytes: 800 }, &[last][..]));
    }

    #[test]
    fn a_report_comes_after_a_while_and_only_if_there_is_something_to_tell() {
        let reports = Reports::default();
        assert!(told(&reports, Time(0)).is_none());
        reports.note(&[access(1, 0, false)], &[]);
        assert!(told(&reports, Time(EVERY.0 - 1)).is_none(), "the last time was not long ago");
        assert_eq!(told(&reports, EVERY).map(|(heard, _)| heard.accesses.len()), Some(1));
        assert!(told(&reports, EVERY + EVERY).is_none());
    }

    #[test]
    fn what_is_asked_of_all_files_here_counts_and_a_report_has_some() {
        let reports = Reports::default();
        let ask = |file| reports.asked(FileId(file), &[Count::default(); CLASSES], Vec::new());
        (0..ROWS_MAX as u64 + 3).for_each(ask);
        assert_eq!(reports.take_asked().len(), ROWS_MAX + 3);
        (0..ROWS_MAX as u64 + 3).for_each(ask);
        let (_, asked) = told(&reports, Time(0)).expect("something to tell");
        assert_eq!(asked.len(), ROWS_MAX);
    }

    #[test]
    fn reports_and_what_is_taken_from_them_are_bounded() {
        let reports = Reports::default();
        let many: Vec<Access> = (0..ROWS_MAX as u64 + 3).map(|segment| access(1, segment, false)).collect();
        reports.note(&many, &[]);
        let (report, lost) = reports.take(Time(0), None).expect("something to tell");
        assert_eq!((report.accesses.len(), lost), (ROWS_MAX, 3));
        let report = Report { accesses: vec![((1, 0, true, true, true), u32::MAX, 5)], ..report };
        let heard = reports.hear(vec![report.clone(), report], Time(0), None);
        assert_eq!(heard.accesses.len(), ACCESSES_MAX);
    }
}

//! The emulated device in virtual time: takes requests, and returns the times at which they are done.
//!
//! This is `sim::storage` with its queue of events, as in the simulator's world, with one difference: arrival times
//! are not known in advance. So the caller advances the time ([`Device::advance`]). Each event still happens at its
//! own time, however late the call.

use policy::precedence::Class;
use policy::time::Time;
use sim::block::Io;
use sim::event::{EventQueue, Rank};
use sim::latency::Latencies;
use sim::storage::{Storage, Wake};
use std::collections::{HashMap, VecDeque};

/// Largest request that the block layer passes on, in sectors: 512 KiB, the limit of its merges.
const REQUEST_SECTORS_MAX: u64 = 1024;

/// A request that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Tag given at its submission.
    pub tag: u64,
    /// Time of arrival.
    pub came: Time,
    /// Time of completion.
    pub at: Time,
}

/// Counters of the device since its start.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Number of completed reads.
    pub reads: u64,
    /// Number of completed writes.
    pub writes: u64,
    /// Sectors of the completed reads.
    pub sectors_read: u64,
    /// Sectors of the completed writes.
    pub sectors_written: u64,
    /// Response times of reads, from arrival to completion.
    pub read_response: Latencies,
    /// Response times of writes, from arrival to completion.
    pub write_response: Latencies,
    /// Time with a request waiting or in service.
    pub busy_ns: u64,
    /// Maximum of requests inside at once.
    pub inside_max: u64,
}

/// The device with its queues.
#[derive(Debug)]
pub struct Device {
    storage: Storage,
    events: EventQueue<Wake>,
    depth: usize,
    /// Pieces in the block layer; at most `depth`.
    queued: usize,
    backlog: VecDeque<(u64, Io)>,
    requests: HashMap<u64, Request>,
    done: Vec<Done>,
    tags: Vec<u64>,
    busy_since: Option<Time>,
    counts: Counts,
}

#[derive(Debug)]
struct Request {
    came: Time,
    write: bool,
    sectors: u64,
    pieces: usize,
}

impl Device {
    /// Creates a device over an idle `storage`. Its block layer holds at most `depth` requests; the others wait in
    /// front of it in FIFO order.
    pub fn new(storage: Storage, depth: usize) -> Device {
        Device {
            storage,
            events: EventQueue::new(),
            depth: depth.max(1),
            queued: 0,
            backlog: VecDeque::new(),
            requests: HashMap::new(),
            done: Vec::new(),
            tags: Vec::new(),
            busy_since: None,
            counts: Counts::default(),
        }
    }

    /// Number of addressable sectors.
    pub fn sectors(&self) -> u64 {
        self.storage.sectors()
    }

    /// Submits a request for the sectors of `runs`. `tag` must not be in use; `owner` is the requesting thread, for
    /// schedulers that use it. Events up to `now` happen first. Returns the arrival time: `now`, or the time of the
    /// last event if that is later.
    pub fn submit(&mut self, now: Time, tag: u64, runs: &[(u64, u64)], write: bool, owner: u32) -> Time {
        self.advance(now);
        let now = now.max(self.events.now());
        let before = self.backlog.len();
        for &(sector, count) in runs {
            let (mut sector, end) = (sector, sector + count);
            while sector < end {
                let count = (end - sector).min(REQUEST_SECTORS_MAX);
                self.backlog.push_back((tag, Io { sector, count, write, owner, class: Class::Awaited }));
                sector += count;
            }
        }
        let pieces = self.backlog.len() - before;
        if pieces == 0 {
            self.done.push(Done { tag, came: now, at: now });
            return now;
        }
        let sectors = runs.iter().map(|run| run.1).sum();
        self.requests.insert(tag, Request { came: now, write, sectors, pieces });
        self.counts.inside_max = self.counts.inside_max.max(self.requests.len() as u64);
        self.busy_since.get_or_insert(now);
        self.pass_on(now);
        now
    }

    /// Processes all events up to `now`.
    pub fn advance(&mut self, now: Time) {
        while self.events.next_at().is_some_and(|at| at <= now) {
            let (at, wake) = self.events.pop().expect("an event was seen");
            let Device { storage, events, tags, .. } = self;
            storage.happen(at, wake, |when, wake| push(events, when, wake));
            storage.drain(|tag| tags.push(tag));
            let mut tags = std::mem::take(&mut self.tags);
            for tag in tags.drain(..) {
                self.piece_done(tag, at);
            }
            self.tags = tags;
            self.pass_on(at);
        }
    }

    /// Time of the next event if no request arrives.
    pub fn next_at(&self) -> Option<Time> {
        self.events.next_at()
    }

    /// Returns the requests completed since the last call, in order of completion.
    pub fn take_done(&mut self) -> Vec<Done> {
        std::mem::take(&mut self.done)
    }

    /// Returns whether completed requests wait to be taken.
    pub fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    /// Returns the counters, with the busy time up to `now`.
    pub fn counts(&self, now: Time) -> Counts {
        let mut counts = self.counts.clone();
        counts.busy_ns += self.busy_since.map_or(0, |since| now.since(since).0);
        counts
    }

    /// The storage below, for its counters.
    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    fn pass_on(&mut self, now: Time) {
        while self.queued < self.depth
            && let Some((tag, io)) = self.backlog.pop_front()
        {
            self.queued += 1;
            let events = &mut self.events;
            self.storage.submit(now, io, tag, |when, wake| push(events, when, wake));
        }
    }

    fn piece_done(&mut self, tag: u64, at: Time) {
        self.queued -= 1;
        let request = self.requests.get_mut(&tag).expect("a piece of a request");
        request.pieces -= 1;
        if request.pieces > 0 {
            return;
        }
        let request = self.requests.remove(&tag).expect("it was just there");
        let took = at.since(request.came);
        let counts = &mut self.counts;
        if request.write {
            counts.writes += 1;
            counts.sectors_written += request.sectors;
            counts.write_response.add(took);
        } else {
            counts.reads += 1;
            counts.sectors_read += request.sectors;
            counts.read_response.add(took);
        }
        self.done.push(Done { tag, came: request.came, at });
        if self.requests.is_empty()
            && let Some(since) = self.busy_since.take()
        {
            self.counts.busy_ns += at.since(since).0;
        }
    }
}

fn push(events: &mut EventQueue<Wake>, at: Time, wake: Wake) {
    let rank = if matches!(wake, Wake::Done { .. }) { Rank::Completion } else { Rank::Timer };
    events.push(at, rank, wake);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sim::disk::{Command, Disk, model::CHEETAH9LP};
    use sim::setup::Setup;

    fn device(setup: &Setup, depth: usize) -> Device {
        Device::new(setup.storage().unwrap(), depth)
    }

    /// Serves requests one at a time: sector, sectors, write, think time.
    fn serve(device: &mut Device, requests: &[(u64, u64, bool, u64)]) -> Vec<Time> {
        let mut now = Time::ZERO;
        let mut took = Vec::new();
        for (tag, &(sector, count, write, think)) in requests.iter().enumerate() {
            now = now + Time(think);
            device.submit(now, tag as u64, &[(sector, count)], write, 0);
            while !device.has_done() {
                let next = device.next_at().expect("a request is inside");
                device.advance(next);
            }
            let done = device.take_done()[0];
            assert_eq!((done.tag, done.came), (tag as u64, now));
            took.push(done.at.since(now));
            now = done.at;
        }
        took
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn one_at_a_time_it_takes_what_the_simulators_disk_takes(
            requests in prop::collection::vec((0u64..17_000_000, 1u64..600, any::<bool>(), 0u64..20_000_000), 1..80),
        ) {
            let mut disk = Disk::new(&CHEETAH9LP);
            let mut now = Time::ZERO;
            let mut expected = Vec::new();
            for &(sector, count, write, think) in &requests {
                now = now + Time(think);
                let done = disk.serve(now, Command { sector, count, write }).done;
                expected.push(done.since(now));
                now = done;
            }
            let setup = Setup { scheduler: "noop".into(), ..Setup::default() };
            prop_assert_eq!(serve(&mut device(&setup, 128), &requests), expected);
        }

        #[test]
        fn saying_late_that_time_has_passed_changes_no_time(
            requests in prop::collection::vec((0u64..17_000_000, 1u64..3000, any::<bool>(), 0u64..9_000_000), 1..60),
            lateness in prop::collection::vec(0u64..5_000_000, 1..10), scheduler in 0usize..3, depth in 1usize..40,
        ) {
            let scheduler = ["noop", "deadline", "anticipatory"][scheduler];
            let setup = Setup { scheduler: scheduler.into(), disks: 3, raid: Some(5), ..Setup::default() };
            let run = |late: &[u64]| {
                let mut device = device(&setup, depth);
                let mut now = Time::ZERO;
                for (tag, &(sector, count, write, gap)) in requests.iter().enumerate() {
                    now = now + Time(gap);
                    device.submit(now, tag as u64, &[(sector, count)], write, tag as u32 % 3);
                }
                let mut turns = 0;
                while let Some(next) = device.next_at() {
                    device.advance(next + Time(late[turns % late.len()]));
                    turns += 1;
                }
                device.take_done()
            };
            let (exact, late) = (run(&[0]), run(&lateness));
            prop_assert_eq!(exact.len(), requests.len());
            prop_assert_eq!(exact, late);
        }
    }

    #[test]
    fn a_request_that_lies_nowhere_is_done_at_once() {
        let mut device = device(&Setup::default(), 1);
        device.submit(Time(5), 9, &[], false, 0);
        assert_eq!(device.take_done(), [Done { tag: 9, came: Time(5), at: Time(5) }]);
        assert_eq!(device.next_at(), None);
    }

    #[test]
    fn a_short_queue_keeps_the_scheduler_from_choosing() {
        let setup = Setup { disk: "cheetah9lp".into(), scheduler: "deadline".into(), ..Setup::default() };
        let total = |depth| {
            let mut device = device(&setup, depth);
            for tag in 0..64u64 {
                device.submit(Time::ZERO, tag, &[(tag * 7_919_017 % 17_000_000, 8)], false, 0);
            }
            while let Some(next) = device.next_at() {
                device.advance(next);
            }
            let counts = device.counts(Time::from_secs(100));
            assert_eq!((counts.reads, counts.sectors_read, counts.inside_max), (64, 512, 64));
            assert_eq!(Time(counts.busy_ns), device.take_done().last().unwrap().at);
            counts.busy_ns
        };
        assert!(total(1) > total(64) * 5 / 4, "sorting saves seeks: {} against {}", total(1), total(64));
    }
}

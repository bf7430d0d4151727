//! Requests for blocks, each a file of one segment: the load of the papers on tiers.
//!
//! ```text
//!   trace -> pieces of blocks -> the target of each -> its queue -> device    (the longest piece ends the request)
//!                                     ^
//!         its location, the choice of a baseline, or the page cache
//! ```
//! Requests are issued by `depth` clients that wait for answers (closed), at the times of the trace (open), or by the
//! clients of a recording with their pauses (thinking). A block is placed at its first request, on targets in weighted turns. Data that the trace reads before it writes them may be
//! placed before the first request.

mod baseline;
mod lru;
mod optimum;
mod page_cache;
mod played;
mod requests;

pub use baseline::Baseline;
pub use optimum::Tiers;
pub use page_cache::PageCacheSetup;
pub use played::Played;
pub use requests::{Piece, Request, Requests};

use super::Setup;
use super::files::{File, objects};
use super::jobs::single;
use super::targets::{Origin, Target};
use super::world::{Happening, World};
use crate::event::Rank;
use crate::generate::Rng;
use baseline::Says;
use page_cache::PageCache;
use played::Counts;
use policy::layout::{Mirror, MirrorState, Segment};
use policy::tier::machine::Logged;
use policy::tier::split::Split;
use policy::tier::{Location, Region};
use policy::volume::FileEvent;
use policy::{FileId, TargetId, Time};
use std::collections::{BTreeMap, BTreeSet};

/// When requests are issued.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// Clients that each wait for the answer, think, and send the next request.
    Closed {
        /// Number of clients.
        depth: usize,
        /// Time between an answer and the next request.
        think: Time,
    },
    /// At the times of the trace, divided by `speed`.
    Open {
        /// Speed relative to the trace.
        speed: f64,
    },
    /// By the clients of [`Requests::with_clients`], which wait for the answers of reads only.
    Thinking,
}

/// Parameters of the replay.
#[derive(Clone, Debug)]
pub struct Blocks {
    /// Bytes of a block, which is a segment that tiers move.
    pub bytes: u64,
    /// When requests are issued.
    pub arrivals: Arrivals,
    /// Number of first requests that are not counted: hot blocks move and devices fill their queues during them.
    pub warm_up: u64,
    /// Number of requests between two rests of the devices, and the length of a rest.
    pub rest: Option<(usize, Time)>,
    /// Age of data that the trace reads before it writes them, at the first request; the devices were idle until then.
    /// Zero: each block is placed at its first request.
    pub before: Time,
    /// Share of the new blocks that each target gets.
    pub weights: Vec<f64>,
    /// Share of the old blocks that each target has, if it differs.
    pub old_weights: Option<Vec<f64>>,
    /// Placement by a scheme other than the volume's machine.
    pub baseline: Option<Baseline>,
    /// Page cache between requests and devices, if any.
    pub page_cache: Option<PageCacheSetup>,
}

#[derive(Clone, Copy, Debug)]
struct UnderWay {
    since: Time,
    /// Number of pieces that wait for the page cache, plus one while pieces are still to be issued.
    waiting: u32,
    /// Time at which its other pieces are served.
    until: Time,
}

/// State of a replay.
#[derive(Debug)]
pub(super) struct Playing<'a> {
    of: &'a Blocks,
    requests: &'a Requests,
    split: Split,
    /// File of each block. Files are numbered by address, so that adjacent blocks are adjacent for the machine, too.
    files: Vec<FileId>,
    /// Block of each file, by number of the file.
    blocks: Vec<u32>,
    /// Number of issued requests.
    next: usize,
    /// Next requests of clients that think, by time.
    ready: BTreeSet<(Time, usize)>,
    /// Response time of each request.
    took: Vec<Time>,
    under_way: BTreeMap<usize, UnderWay>,
    /// Bytes of each block that requests under way read or write: a move need not read them.
    at_hand: BTreeMap<FileId, u64>,
    says: Option<Says>,
    page_cache: Option<PageCache>,
    counts: Counts,
    first: Time,
    /// End of the current rest of the devices, and the request before which they rested last.
    rests_until: Time,
    rested: usize,
    end: Time,
}

/// Replays the requests on a volume until the last is answered. Nothing is measured after that, and a machine's timers
/// could go on for ever.
///
/// # Panics
/// If a promise is broken.
pub fn play(setup: Setup, blocks: &Blocks, requests: &Requests) -> Played {
    play_with(setup, blocks, requests, false).0
}

/// Replays as [`play`]; returns the response time of each request.
pub fn responses(setup: Setup, blocks: &Blocks, requests: &Requests) -> Vec<Time> {
    play_with(setup, blocks, requests, false).2
}

/// Replays as [`play`]; returns the events and actions of the tiers' machine as well.
pub fn play_logged(setup: Setup, blocks: &Blocks, requests: &Requests) -> (Played, Vec<Logged>) {
    let (played, log, _) = play_with(setup, blocks, requests, true);
    (played, log)
}

fn play_with(mut setup: Setup, blocks: &Blocks, requests: &Requests, logged: bool) -> (Played, Vec<Logged>, Vec<Time>) {
    let targets = std::mem::take(&mut setup.targets);
    let mut world = World::new(&setup, targets);
    if let Some(tiers) = world.volume.tiers_mut().filter(|_| logged) {
        tiers.log.start();
    }
    world.playing = Some(Box::new(Playing::new(blocks, requests)));
    world.run();
    let log = world.volume.tiers().map_or_else(Vec::new, |tiers| tiers.log.lines().to_vec());
    (world.played(), log, world.playing.map_or_else(Vec::new, |playing| playing.took))
}

impl<'a> Playing<'a> {
    fn new(of: &'a Blocks, requests: &'a Requests) -> Playing<'a> {
        let locations = requests.locations();
        let mut blocks: Vec<u32> = (0..locations.len() as u32).collect();
        blocks.sort_unstable_by_key(|at| locations[*at as usize]);
        let mut files = vec![FileId(0); blocks.len()];
        blocks.iter().enumerate().for_each(|(nth, at)| files[*at as usize] = FileId(nth as u64));
        Playing {
            of,
            requests,
            split: Split::new(&of.weights),
            files,
            blocks,
            next: 0,
            ready: BTreeSet::new(),
            took: vec![Time::ZERO; requests.len()],
            under_way: BTreeMap::new(),
            at_hand: BTreeMap::new(),
            says: of.baseline.map(|baseline| Says::new(baseline, of.bytes)),
            page_cache: of.page_cache.map(|cache| PageCache::new(cache, of.bytes)),
            counts: Counts::default(),
            first: Time::ZERO,
            rests_until: Time::ZERO,
            rested: 0,
            end: Time::ZERO,
        }
    }

    /// Returns whether the last request is answered.
    pub(super) fn is_over(&self) -> bool {
        self.next == self.requests.len() && self.under_way.is_empty()
    }

    /// Returns the bytes of a block that a request under way reads or writes.
    pub(super) fn at_hand(&self, file: FileId) -> u64 {
        self.at_hand.get(&file).copied().unwrap_or(0)
    }

    /// Counts bytes that were read or written for a move.
    pub(super) fn moved(&mut self, bytes: u64) {
        self.counts.moved_bytes += bytes;
    }

    fn location(&self, file: FileId) -> Location {
        self.requests.locations()[self.blocks[file.0 as usize] as usize]
    }

    /// Returns the time of the next request if the devices rest before it.
    fn rests(&mut self, now: Time) -> Option<Time> {
        if let Some((every, rest)) = self.of.rest
            && now >= self.rests_until
            && self.next > 0
            && self.next.is_multiple_of(every)
            && self.rested != self.next
        {
            (self.rested, self.rests_until) = (self.next, now + rest);
        }
        (now < self.rests_until).then_some(self.rests_until)
    }
}

impl World<'_> {
    pub(super) fn prepare_blocks(&mut self) {
        let Some(playing) = &mut self.playing else { return };
        let (of, requests) = (playing.of, playing.requests);
        playing.first = of.before;
        let split = of.old_weights.as_deref().map(|old| std::mem::replace(&mut playing.split, Split::new(old)));
        if of.before > Time::ZERO {
            let first = requests.first_writes();
            let mut there: Vec<u32> = (0..first.len() as u32).filter(|&at| !first[at as usize]).collect();
            // The placement of old data must not depend on the order of the trace; it is the same for every scheme.
            Rng::new(1, 0).shuffle(&mut there);
            there.into_iter().for_each(|at| _ = self.block(at));
        }
        self.playing.iter_mut().zip(split).for_each(|(playing, split)| playing.split = split);
        let clients = match of.arrivals {
            Arrivals::Closed { depth, .. } => depth.max(1),
            Arrivals::Open { .. } => 1,
            Arrivals::Thinking => return requests.firsts().for_each(|(pause, n)| self.thinks(of.before + pause, n)),
        };
        (0..clients.min(requests.len())).for_each(|_| self.events.push(of.before, Rank::Arrival, Happening::Issue));
    }

    /// Sets the time of the next request of a client that thinks.
    fn thinks(&mut self, until: Time, request: usize) {
        self.playing.iter_mut().for_each(|playing| _ = playing.ready.insert((until, request)));
        self.events.push(until, Rank::Arrival, Happening::Issue);
    }

    /// Lets the client of a request go on after it.
    fn goes_on(&mut self, request: usize) {
        let Some(playing) = &self.playing else { return };
        match (playing.of.arrivals, playing.requests.follower(request)) {
            (Arrivals::Closed { think, .. }, _) => self.events.push(self.now + think, Rank::Arrival, Happening::Issue),
            (Arrivals::Thinking, Some((pause, next))) => self.thinks(self.now + pause, next),
            _ => {}
        }
    }

    /// Issues the next request.
    pub(super) fn issue(&mut self) {
        let now = self.now;
        let Some(playing) = &mut self.playing else { return };
        let (of, requests) = (playing.of, playing.requests);
        if playing.next == requests.len() {
            return;
        }
        if let Some(until) = playing.rests(now) {
            return self.events.push(until, Rank::Arrival, Happening::Issue);
        }
        let n = playing.ready.pop_first().map_or(playing.next, |(_, n)| n);
        playing.next += 1;
        playing.under_way.insert(n, UnderWay { since: now, waiting: 1, until: now });
        if let Some(says) = &mut playing.says {
            says.looks_ahead(requests, n);
        }
        if let Arrivals::Open { speed } = of.arrivals
            && n + 1 < requests.len()
        {
            let at = playing.first + Time((requests.get(n + 1).time.0 as f64 / speed) as u64);
            self.events.push(at.max(now), Rank::Arrival, Happening::Issue);
        }
        if n as u64 == of.warm_up {
            self.count_from_now();
        }
        self.issuing = true;
        let pieces = requests.pieces(n);
        for (at, piece) in pieces.iter().enumerate() {
            self.piece(n, *piece, requests.get(n).write, at + 1 == pieces.len());
        }
        self.issuing = false;
        self.waits_no_longer(n);
        if matches!(of.arrivals, Arrivals::Thinking) && requests.get(n).write {
            self.goes_on(n);
        }
    }

    fn piece(&mut self, request: usize, piece: Piece, write: bool, ends_request: bool) {
        let region = if write { Region::Write } else { Region::Read };
        let (from, bytes) = (u64::from(piece.from), u64::from(piece.bytes));
        let (file, home) = self.block(piece.at);
        let target = self.served_by(piece, write, home);
        if write {
            self.overwritten(file, 0, bytes);
        }
        self.used = Some(self.now);
        let tier = self.targets.of(target).tier;
        let Some(playing) = &mut self.playing else { return };
        playing.counts.accesses[usize::from(tier)] += 1;
        if self.setup.config.tiers.is_some() {
            playing.at_hand.insert(file, bytes);
            self.tell_file(file, FileEvent::Accessed { segment: 0, region, bytes, ends_request });
        }
        if !write && self.read_cached(request, file, from, bytes, target) {
            return;
        }
        if write {
            self.write_cached(file, from, bytes);
        }
        let done = self.serve_block(target, bytes, write);
        let under_way = self.playing.as_mut().and_then(|playing| playing.under_way.get_mut(&request));
        under_way.into_iter().for_each(|of| of.until = of.until.max(done));
    }

    /// Serves a request on a target; returns the time of its end.
    fn serve_block(&mut self, target: TargetId, bytes: u64, write: bool) -> Time {
        let tier = usize::from(self.targets.of(target).tier);
        let done = self.targets.serve(self.now, target, bytes, write, Origin::Application { spans: 1 });
        if self.setup.config.tiers.is_some() {
            self.used(tier, done);
        }
        done
    }

    /// Counts down what a request waits for. After the last one it is answered when its pieces are served.
    fn waits_no_longer(&mut self, request: usize) {
        let under_way = self.playing.as_mut().and_then(|playing| playing.under_way.get_mut(&request));
        let Some(of) = under_way else { return };
        of.waiting -= 1;
        if of.waiting == 0 {
            self.events.push(of.until.max(self.now), Rank::Completion, Happening::Answered(request));
        }
    }

    pub(super) fn answered(&mut self, request: usize) {
        let now = self.now;
        let Some(playing) = &mut self.playing else { return };
        let Some(of) = playing.under_way.remove(&request) else { return };
        playing.took[request] = now.since(of.since);
        if request as u64 >= playing.of.warm_up {
            playing.counts.latencies.add(playing.took[request]);
        }
        for piece in playing.requests.pieces(request) {
            playing.at_hand.remove(&playing.files[piece.at as usize]);
        }
        playing.end = now;
        let went_on = matches!(playing.of.arrivals, Arrivals::Thinking) && playing.requests.get(request).write;
        if !went_on {
            self.goes_on(request);
        }
    }

    /// Returns the file and the target of a block; places a new one.
    fn block(&mut self, at: u32) -> (FileId, TargetId) {
        let (bytes, fallback) = (self.setup.segment_bytes, TargetId(self.targets.all.len() as u16 - 1));
        let Some(playing) = &mut self.playing else { return (FileId(0), fallback) };
        let id = playing.files[at as usize];
        if let Some(file) = self.files.get(&id) {
            return (id, lies_on(file));
        }
        let targets = &self.targets.all;
        let fast_bytes = self.setup.config.tiers.as_ref().map_or(u64::MAX, |tiers| tiers.fast_bytes);
        let fast_used: u64 = targets.iter().filter(|target| target.tier == 0).map(|target| target.used).sum();
        let chosen = playing.split.next(|target| {
            let Target { tier, used, bytes: room, .. } = &targets[target];
            used + bytes <= *room && (*tier != 0 || fast_used + bytes <= fast_bytes)
        });
        let target = chosen.map_or(fallback, |at| TargetId(at as u16));
        let (start, stripe_size, objects_of) = (0, bytes, vec![self.maker.object(target)]);
        let segments = vec![Segment { start, end: bytes, stripe_size, objects: objects_of }];
        let mirror = Mirror { state: MirrorState::InSync, segments };
        let has_room = self.targets.take_all(&objects(&mirror, bytes).collect::<Vec<_>>());
        assert!(has_room, "a block was placed where there is no room");
        let tiered = self.setup.config.tiers.is_some();
        self.files.insert(id, File { users: 1, ..single(bytes, mirror, false, tiered) });
        if tiered {
            self.tell_lies(id);
            self.look_at_copies();
        }
        (id, target)
    }

    /// Returns the target of a tier that serves this block.
    fn target_of(&self, at: u32, tier: u8) -> TargetId {
        let of_tier = || self.targets.all.iter().enumerate().filter(|(_, target)| target.tier == tier);
        let nth = at as usize % of_tier().count().max(1);
        TargetId(of_tier().nth(nth).map_or(0, |(target, _)| target) as u16)
    }
}

fn lies_on(file: &File) -> TargetId {
    file.mirrors[0].1.segments[0].objects[0].target
}

//! The world: clients, queues, devices, moves.

mod carry;
mod copies;
mod figures;
mod page_cache;

use super::lru::Lru;
use super::optimum;
use super::requests::{Piece, Requests};
use super::{Arrivals, Scheme, Setup};
use crate::event::{EventQueue, Rank};
use carry::{Carry, Name};
use copies::Copies;
use figures::Counts;
pub use figures::Figures;
use page_cache::PageCache;
use policy::machine::Machine;
use policy::tier::machine::{Event, Logged, Reorganizer};
use policy::tier::split::Split;
use policy::tier::{Region, Tier};
use policy::time::Time;
use std::collections::{BTreeMap, VecDeque};

/// Runs all requests under a scheme.
pub fn run(setup: &Setup, scheme: &Scheme, requests: &Requests) -> Figures {
    match scheme {
        Scheme::Optimum { window } => {
            let with = |balanced| World::new(setup, scheme, requests).optimal(*window, balanced).run();
            let (one, other) = (with(true), with(false));
            if one.span_s <= other.span_s && one.mean_ms <= other.mean_ms || one.span_s < other.span_s {
                one
            } else {
                other
            }
        }
        _ => World::new(setup, scheme, requests).run(),
    }
}

/// Runs all requests under a scheme that reorganises, and gives what went into its machine and came out.
pub fn run_logged(setup: &Setup, scheme: &Scheme, requests: &Requests) -> (Figures, Vec<Logged>) {
    let mut world = World::new(setup, scheme, requests);
    if let Some(machine) = &mut world.machine {
        machine.start_log();
    }
    world.all();
    let log = world.machine.as_ref().map_or_else(Vec::new, |machine| machine.log().to_vec());
    (world.figures(), log)
}

#[derive(Clone, Copy, Debug)]
enum Happening {
    /// The device is done with what it did.
    Done(usize),
    /// A client issues the next request.
    Issue,
    /// The machine wanted to be asked.
    Timer,
    /// The next step of a move or a copy may be made, perhaps.
    Step(Name),
}

#[derive(Clone, Copy, Debug)]
enum Job {
    /// A piece of a request.
    Piece {
        request: usize,
    },
    /// A location is read, and written, for a move or a slow copy.
    Read(Name),
    Write(Name),
    /// Pages are read into the page cache.
    Fetch {
        id: policy::cache::FetchId,
    },
    /// Nobody waits for it.
    Background,
}

#[derive(Debug, Default)]
struct Device {
    queue: VecDeque<(Job, u64)>,
    now: Option<Job>,
    busy_ns: u64,
}

/// A request under way.
#[derive(Clone, Copy, Debug, Default)]
struct UnderWay {
    since: Time,
    pieces: u32,
}

struct World<'a> {
    setup: &'a Setup,
    requests: &'a Requests,
    events: EventQueue<Happening>,
    devices: Vec<Device>,
    fast_devices: usize,
    /// Pieces of requests at each tier: nobody's moves.
    foreground: [usize; 2],
    /// The device of each location, if it has one.
    place: Vec<Option<usize>>,
    /// Locations on each tier.
    lie: [u64; 2],
    split: Split,
    /// Which devices take new data.
    takes: [bool; 2],
    unlimited: bool,
    next: usize,
    under_way: BTreeMap<usize, UnderWay>,
    machine: Option<Reorganizer>,
    timer: Option<Time>,
    /// Moves and copies under way.
    carries: BTreeMap<Name, Carry>,
    copies: Copies,
    /// When a request last came to a device.
    used: Option<Time>,
    page_cache: Option<PageCache>,
    /// Bytes of locations that requests under way read or write: at hand for a move.
    at_hand: BTreeMap<u32, u64>,
    lru: Option<Lru>,
    optimum: Option<(u64, bool)>,
    held: Vec<bool>,
    counts: Counts,
    /// When the first request came.
    first: Time,
    /// Until when the devices rest.
    rests_until: Time,
    /// The request before which they rested last.
    rested: usize,
    end: Time,
}

impl<'a> World<'a> {
    fn new(setup: &'a Setup, scheme: &Scheme, requests: &'a Requests) -> World<'a> {
        let (fast, slow) = (setup.costs.fast_devices as usize, setup.costs.slow_devices as usize);
        let proportional = matches!(scheme, Scheme::Proportional | Scheme::Reorganized { proportional: true, .. });
        let reads = (0..requests.len()).filter(|&n| !requests.get(n).write).count() * 2 >= requests.len();
        let region = if reads { Region::Read } else { Region::Write };
        let speed = |tier| 1.0 / setup.costs.of(tier).access_ns(region, setup.block_bytes as f64).max(1e-9);
        let weight = |tier| if proportional { speed(tier) } else { 1.0 };
        let weights = [vec![weight(Tier::Fast); fast], vec![weight(Tier::Slow); slow]].concat();
        let takes = match scheme {
            Scheme::SlowOnly | Scheme::Lru | Scheme::Optimum { .. } => [false, true],
            Scheme::FastOnly => [true, false],
            _ => [true, true],
        };
        let machine = match scheme {
            Scheme::Reorganized { config, .. } => Some(Reorganizer::new(*config, Time::ZERO)),
            _ => None,
        };
        let capacity = (setup.fast_bytes / setup.block_bytes) as usize;
        World {
            setup,
            requests,
            events: EventQueue::new(),
            devices: (0..fast + slow).map(|_| Device::default()).collect(),
            fast_devices: fast,
            foreground: [0; 2],
            place: vec![None; requests.locations().len()],
            lie: [0; 2],
            split: Split::new(&weights),
            takes,
            unlimited: *scheme == Scheme::FastOnly,
            next: 0,
            under_way: BTreeMap::new(),
            machine,
            timer: None,
            carries: BTreeMap::new(),
            copies: Copies::new(matches!(scheme, Scheme::Reorganized { config, .. } if config.keep_copies)),
            used: None,
            page_cache: setup.page_cache.map(|cache| PageCache::new(cache, setup.block_bytes)),
            at_hand: BTreeMap::new(),
            lru: (*scheme == Scheme::Lru).then(|| Lru::new(capacity)),
            optimum: None,
            held: Vec::new(),
            counts: Counts::default(),
            first: Time::ZERO,
            rests_until: Time::ZERO,
            rested: 0,
            end: Time::ZERO,
        }
    }

    fn optimal(mut self, window: u64, balanced: bool) -> World<'a> {
        self.optimum = Some((window.max(1), balanced));
        self
    }

    fn run(mut self) -> Figures {
        self.all();
        self.figures()
    }

    /// Serves all requests.
    fn all(&mut self) {
        let first = match self.setup.arrivals {
            Arrivals::Closed { depth, .. } => depth.max(1),
            Arrivals::Open { .. } => 1,
        };
        self.first = self.settle();
        (0..first.min(self.requests.len())).for_each(|_| self.events.push(self.first, Rank::Arrival, Happening::Issue));
        while let Some((now, happening)) = self.events.pop() {
            match happening {
                Happening::Done(device) => self.done(now, device),
                Happening::Issue => self.issue(now),
                Happening::Timer => self.timer = None,
                Happening::Step(name) => self.next_step(now, name),
            }
            self.ask(now);
            if self.setup.check {
                self.check();
            }
            // Nothing is measured after the last answer: a machine could go on for ever.
            if self.next == self.requests.len() && self.under_way.is_empty() {
                break;
            }
        }
    }

    fn issue(&mut self, now: Time) {
        if self.next >= self.requests.len() {
            return;
        }
        let n = self.next;
        if now < self.rests_until {
            return self.events.push(self.rests_until, Rank::Arrival, Happening::Issue);
        }
        if let Some((every, rest)) = self.setup.rest
            && n > 0
            && n.is_multiple_of(every)
            && self.rested != n
        {
            self.rested = n;
            self.rests_until = now + rest;
            return self.events.push(self.rests_until, Rank::Arrival, Happening::Issue);
        }
        if n as u64 == self.setup.warm_up {
            self.count_from(now);
        }
        self.next += 1;
        if let Arrivals::Open { speed } = self.setup.arrivals
            && self.next < self.requests.len()
        {
            let at = (self.first + Time((self.requests.get(self.next).time.0 as f64 / speed) as u64)).max(now);
            self.events.push(at, Rank::Arrival, Happening::Issue);
        }
        if let Some((window, balanced)) = self.optimum
            && (n as u64).is_multiple_of(window)
        {
            let best = optimum::best(self.requests, self.setup, n, n + window as usize, balanced);
            self.held = vec![false; self.place.len()];
            best.into_iter().for_each(|at| self.held[at as usize] = true);
        }
        let pieces = self.requests.pieces(n);
        self.under_way.insert(n, UnderWay { since: now, pieces: pieces.len() as u32 });
        let write = self.requests.get(n).write;
        for &piece in pieces {
            self.piece(now, n, piece, write);
        }
    }

    fn piece(&mut self, now: Time, request: usize, piece: Piece, write: bool) {
        let region = if write { Region::Write } else { Region::Read };
        let home = self.home(now, piece.at);
        let device = match (&self.lru, self.optimum) {
            (Some(_), _) => self.cached(now, piece, write, home),
            (None, Some(_)) if self.held[piece.at as usize] => self.device(piece.at, Tier::Fast),
            _ => home,
        };
        if write {
            self.overwritten(piece.at, u64::from(piece.bytes));
        }
        if self.machine.is_some() {
            self.at_hand.insert(piece.at, u64::from(piece.bytes));
        }
        self.counts.accesses[self.tier_of(device) as usize] += 1;
        self.used = Some(now);
        let location = self.location(piece.at);
        self.tell(now, Event::Access { location, region, bytes: u64::from(piece.bytes) });
        let (from, bytes) = (u64::from(piece.from), u64::from(piece.bytes));
        if self.page_cache.is_some() && !write {
            return self.read_cached(now, request, location, from, bytes, device);
        }
        self.write_cached(now, location, from, bytes);
        let tier = self.tier_of(device);
        self.foreground[tier as usize] += 1;
        self.tell(now, Event::Busy(tier));
        self.queue(now, device, Job::Piece { request }, region, u64::from(piece.bytes));
    }

    /// Where a location lies; a new one is placed.
    fn home(&mut self, now: Time, at: u32) -> usize {
        if let Some(device) = self.place[at as usize] {
            return device;
        }
        let room =
            self.unlimited || (self.lie[0] + self.coming() + 1) * self.setup.block_bytes <= self.setup.fast_bytes;
        let (fast_devices, takes) = (self.fast_devices, self.takes);
        let may = |device: usize| if device < fast_devices { takes[0] && room } else { takes[1] };
        let fallback = if takes[1] { fast_devices } else { 0 };
        let device = self.split.next(may).unwrap_or(fallback);
        self.place[at as usize] = Some(device);
        let tier = self.tier_of(device);
        self.lie[tier as usize] += 1;
        let location = self.location(at);
        self.tell(now, Event::Placed { location, tier });
        self.look_at_space(now);
        device
    }

    /// The device that serves a piece when the fast tier is a cache of `home`.
    fn cached(&mut self, now: Time, piece: Piece, write: bool, home: usize) -> usize {
        let Some(lru) = &mut self.lru else { return home };
        if self.setup.fast_bytes < self.setup.block_bytes {
            return home;
        }
        let (hit, left) = lru.access(piece.at, write);
        let block = self.setup.block_bytes;
        let fast = self.device(piece.at, Tier::Fast);
        if let Some((victim, true)) = left {
            let (from, to) = (self.device(victim, Tier::Fast), self.place[victim as usize].unwrap_or(home));
            self.queue(now, from, Job::Background, Region::Read, block);
            self.queue(now, to, Job::Background, Region::Write, block);
            self.counts.moved_bytes += 2 * block;
        }
        if hit {
            return fast;
        }
        // The rest of the block is read as well, and the whole stored: what leaves later is written back as a whole.
        let rest = block - u64::from(piece.bytes);
        if rest > 0 {
            self.queue(now, home, Job::Background, Region::Read, rest);
        }
        if write {
            if rest > 0 {
                self.queue(now, fast, Job::Background, Region::Write, rest);
                self.counts.moved_bytes += 2 * rest;
            }
            return fast;
        }
        self.queue(now, fast, Job::Background, Region::Write, block);
        self.counts.moved_bytes += rest + block;
        home
    }

    fn queue(&mut self, now: Time, device: usize, job: Job, region: Region, bytes: u64) {
        let cost = self.setup.costs.of(self.tier_of(device)).access_ns(region, bytes as f64);
        self.devices[device].queue.push_back((job, cost.max(1.0) as u64));
        self.start(now, device);
    }

    fn start(&mut self, now: Time, number: usize) {
        let device = &mut self.devices[number];
        if device.now.is_none()
            && let Some((job, takes_ns)) = device.queue.pop_front()
        {
            device.now = Some(job);
            device.busy_ns += takes_ns;
            self.events.push(now + Time(takes_ns), Rank::Completion, Happening::Done(number));
        }
    }

    fn done(&mut self, now: Time, number: usize) {
        let job = self.devices[number].now.take();
        self.start(now, number);
        match job {
            Some(Job::Piece { request }) => {
                self.no_longer(now, self.tier_of(number));
                self.piece_done(now, request);
            }
            Some(Job::Fetch { id }) => self.fetched(now, id, number),
            Some(Job::Read(name)) => self.was_read(now, name),
            Some(Job::Write(name)) => self.was_written(now, name),
            Some(Job::Background) | None => {}
        }
    }

    /// A piece is not at the tier any more.
    fn no_longer(&mut self, now: Time, tier: Tier) {
        self.foreground[tier as usize] -= 1;
        if self.foreground[tier as usize] == 0 {
            self.tell(now, Event::Idle(tier));
        }
    }

    fn piece_done(&mut self, now: Time, request: usize) {
        let Some(under_way) = self.under_way.get_mut(&request) else { return };
        under_way.pieces -= 1;
        if under_way.pieces > 0 {
            return;
        }
        if request as u64 >= self.setup.warm_up {
            self.counts.latencies.add(now.since(under_way.since));
        }
        self.under_way.remove(&request);
        if self.machine.is_some() {
            for piece in self.requests.pieces(request) {
                self.at_hand.remove(&piece.at);
            }
        }
        self.end = now;
        if let Arrivals::Closed { think, .. } = self.setup.arrivals {
            self.events.push(now + think, Rank::Arrival, Happening::Issue);
        }
    }

    /// The warm-up is over.
    fn count_from(&mut self, now: Time) {
        self.counts = Counts { began: now, ..Counts::default() };
        self.devices.iter_mut().for_each(|device| device.busy_ns = 0);
    }

    fn tell(&mut self, now: Time, event: Event) {
        if let Some(machine) = &mut self.machine {
            machine.handle(now, event);
        }
    }

    /// Has the machine say what to move.
    fn ask(&mut self, now: Time) {
        self.tell(now, Event::Tick);
        while let Some(action) = self.machine.as_mut().and_then(Reorganizer::poll) {
            self.begin(now, &action);
        }
        let deadline = self.machine.as_ref().and_then(Reorganizer::next_deadline);
        if let Some(at) = deadline
            && self.timer.is_none_or(|timer| at < timer)
        {
            let at = at.max(now);
            // One that is due already was refused for another reason, and that ends with another event.
            if at > now {
                self.timer = Some(at);
                self.events.push(at, Rank::Timer, Happening::Timer);
            }
        }
    }

    /// The device of a tier that a location belongs on.
    fn device(&self, at: u32, tier: Tier) -> usize {
        match tier {
            Tier::Fast => at as usize % self.fast_devices.max(1),
            Tier::Slow => self.fast_devices + at as usize % (self.devices.len() - self.fast_devices).max(1),
        }
    }

    fn tier_of(&self, device: usize) -> Tier {
        if device < self.fast_devices { Tier::Fast } else { Tier::Slow }
    }

    fn check(&self) {
        let mut lie = [0; 2];
        self.place.iter().flatten().for_each(|device| lie[self.tier_of(*device) as usize] += 1);
        assert_eq!(lie, self.lie, "the accounts of the tiers are wrong");
        let full = (self.lie[0] + self.coming()) * self.setup.block_bytes <= self.setup.fast_bytes;
        assert!(full || self.unlimited, "the fast tier holds more than it can");
        let pieces: usize = self.under_way.values().map(|of| of.pieces as usize).sum();
        assert_eq!(pieces, self.foreground.iter().sum::<usize>(), "a piece was lost");
        for (name, of) in self.carries.iter().filter(|(name, _)| !name.copy) {
            let from = self.place[name.at as usize].map(|device| self.tier_of(device));
            assert_eq!(from, Some(of.to.other()), "a move from where the location is not");
        }
        let machine = self.machine.as_ref();
        let known = machine.map_or(self.copies.held.len(), |machine| machine.copies().0);
        assert_eq!(self.copies.held.len(), known, "a copy that only one knows of");
    }
}

#[cfg(test)]
mod tests;

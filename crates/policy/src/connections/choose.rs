//! Chooses the connection of each operation.
//!
//! The driver opens a [`Use`] for each open file. It calls [`Chooser::choose`] for each operation, and
//! [`Chooser::done`] at its end. In between, the bytes count as outstanding on the chosen connection. Nothing here
//! waits; a choice costs a loop over the connections.

use super::lone::Lone;
use super::width::{self, Width};
use super::{ConnectionId, Policy};
use crate::time::Time;

/// Direction of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Bytes from the server.
    Read,
    /// Bytes to the server.
    Write,
}

/// An operation on an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Direction of the bytes.
    pub direction: Direction,
    /// Length in bytes.
    pub bytes: u64,
    /// Whether the operation must go over one connection.
    pub whole: bool,
}

/// Part of an operation on one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Connection that carries it.
    pub connection: ConnectionId,
    /// Offset from the start of the operation, in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
}

/// Parts of one operation. Each part is under way now and ends with [`Chooser::done`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// In ascending order, without gaps; one part for most operations.
    pub parts: Vec<Part>,
}

/// State of one open file.
#[derive(Clone, Debug, Default)]
pub struct Use {
    thread: u32,
    turn: u32,
    home: Option<ConnectionId>,
    /// Connection for reads that come one at a time.
    lone: Lone,
    writes: Activity,
    reads: Activity,
    /// Whether it counts in the `homes` of its home.
    counted: bool,
}

/// Operations of one direction on an open file.
#[derive(Clone, Debug, Default)]
struct Activity {
    width: Width,
    under_way: u32,
    latest: Time,
}

impl Activity {
    /// Records a new operation, which could be split into `parts`.
    fn begin(&mut self, now: Time, parts: u16) {
        if now.since(self.latest) > PAUSE && self.under_way == 0 {
            self.width.pause();
        }
        self.latest = now;
        self.width.begin(now, self.under_way + 1, parts);
    }
}

/// Measured load of one connection.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    outstanding_bytes: u64,
    outstanding: u32,
    /// Number of files whose writes prefer it.
    homes: u32,
    /// Bytes per second while it was busy; 0 until measured.
    rate: f64,
    busy_since: Time,
    busy_bytes: u64,
}

/// Pause in a file's operations after which a measured rate is void: the activity may be another.
const PAUSE: Time = Time::from_millis(500);
/// Weight of the newest measurement in a connection's rate.
const RATE_WEIGHT: f64 = 0.25;
/// Shortest busy span that counts: shorter ones measure the clock and not the connection.
const BUSY_MIN: Time = Time::from_millis(5);
/// Smallest part of a split operation: smaller ones cost more requests than they save time. Measured on GlusterFS:
/// parts of half that size gain nothing.
const PART_BYTES_MIN: u64 = 128 << 10;
/// Cost of one more part, including the switches between threads. Measured: 30 to 80 us on two cores.
const PART_COST: Time = Time(100_000);

/// Chooser among the connections to one server.
#[derive(Clone, Debug)]
pub struct Chooser {
    policy: Policy,
    loads: Vec<Load>,
    width: width::Config,
    turn: u32,
}

impl Chooser {
    /// Begins with connections 0 to `connections - 1`.
    pub fn new(policy: Policy, connections: u16, width: width::Config) -> Chooser {
        Chooser { policy, loads: vec![Load::default(); usize::from(connections.max(1))], width, turn: 0 }
    }

    /// Policy in use.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Bytes under way on a connection.
    pub fn outstanding_bytes(&self, connection: ConnectionId) -> u64 {
        self.loads[usize::from(connection.0)].outstanding_bytes
    }

    /// Measured bytes per second of a connection while it was busy; 0 if never measured.
    pub fn rate(&self, connection: ConnectionId) -> f64 {
        self.loads[usize::from(connection.0)].rate
    }

    /// Opens a file for a thread.
    pub fn open(&mut self, thread: u32) -> Use {
        Use { thread, ..Use::default() }
    }

    /// Closes a file.
    pub fn close(&mut self, file: &mut Use) {
        if let Some(home) = file.home.take().filter(|_| std::mem::take(&mut file.counted)) {
            self.loads[usize::from(home.0)].homes -= 1;
        }
    }

    /// Chooses among the `usable` connections, a bit set; `None` if it is empty.
    pub fn choose(&mut self, now: Time, file: &mut Use, request: Request, usable: u64) -> Option<Choice> {
        let usable = usable & (u64::MAX >> (64 - self.loads.len().min(64)));
        if usable == 0 {
            return None;
        }
        let by_turn = match self.policy {
            Policy::Single => false,
            Policy::Multiple => true,
            Policy::Automatic => request.direction == Direction::Read,
            Policy::Load => return Some(self.by_load(now, file, request, usable)),
        };
        let number = if by_turn {
            file.turn = file.turn.wrapping_add(1); // counted first, so the first operation uses connection 1
            file.turn
        } else {
            file.thread
        };
        let connection = self.numbered(number, usable);
        Some(self.whole(now, connection, request.bytes))
    }

    /// Returns connection `number` modulo all of them; if that is unusable, modulo the usable ones.
    fn numbered(&self, number: u32, usable: u64) -> ConnectionId {
        let wanted = number % self.loads.len() as u32;
        if usable & 1 << wanted != 0 {
            return ConnectionId(wanted as u16);
        }
        let nth = number % usable.count_ones();
        let place = (0..64u16).filter(|c| usable & 1 << c != 0).nth(nth as usize);
        ConnectionId(place.expect("there are that many bits"))
    }

    fn by_load(&mut self, now: Time, file: &mut Use, request: Request, usable: u64) -> Choice {
        let near = match request.direction {
            Direction::Read => usable,
            Direction::Write => {
                let home = match file.home.filter(|home| usable & 1 << home.0 != 0) {
                    Some(home) => home,
                    None => self.settle(file, usable),
                };
                self.near(home, file.writes.width.get(), usable)
            }
        };
        let may = if request.whole { 1 } else { self.parts(request.bytes, usable) };
        let activity = if request.direction == Direction::Read { &mut file.reads } else { &mut file.writes };
        activity.begin(now, may as u16);
        let width = u64::from(activity.width.get());
        let parts = if request.whole || may == 1 { 1 } else { self.parts(request.bytes, near).min(width) };
        let choice = if parts > 1 {
            self.share(now, request.bytes, parts, near)
        } else if request.direction == Direction::Read {
            let connection = self.least(file.lone.wanted().or(file.home), request.bytes, near);
            if request.whole {
                file.lone.opened(connection);
            } else {
                file.lone.begin(now, connection, request.bytes, file.reads.under_way == 0);
            }
            self.whole(now, connection, request.bytes)
        } else if width == 1 {
            self.whole(now, file.home.expect("it was given one"), request.bytes)
        } else {
            let connection = self.least(file.home, request.bytes, near);
            self.whole(now, connection, request.bytes)
        };
        let activity = if request.direction == Direction::Read { &mut file.reads } else { &mut file.writes };
        activity.under_way += choice.parts.len() as u32;
        choice
    }

    /// Assigns a home to a written file: of the connections with the fewest such files, the one with the least load.
    fn settle(&mut self, file: &mut Use, usable: u64) -> ConnectionId {
        self.close(file);
        self.turn = self.turn.wrapping_add(1);
        let n = self.loads.len() as u32;
        let key = |c: u16| {
            let load = &self.loads[usize::from(c)];
            (load.homes, load.outstanding_bytes, (u32::from(c) + n - self.turn % n) % n)
        };
        let home = (0..n as u16).filter(|c| usable & 1 << c != 0).min_by_key(|c| key(*c)).expect("one is usable");
        self.loads[usize::from(home)].homes += 1;
        (file.home, file.counted) = (Some(ConnectionId(home)), true);
        ConnectionId(home)
    }

    /// Returns the set of `width` usable connections from `home` on.
    fn near(&self, home: ConnectionId, width: u16, usable: u64) -> u64 {
        let n = self.loads.len() as u16;
        let ring = (0..n).map(|k| (home.0 + k) % n).filter(|c| usable & 1 << c != 0);
        ring.take(usize::from(width)).fold(0, |set, c| set | 1 << c)
    }

    /// Returns the connection that would finish `bytes` more first. Ties go to the preferred one, then round-robin.
    fn least(&mut self, preferred: Option<ConnectionId>, bytes: u64, among: u64) -> ConnectionId {
        self.turn = self.turn.wrapping_add(1);
        let n = self.loads.len() as u32;
        let fastest = self.loads.iter().map(|load| load.rate).fold(0.0, f64::max);
        let ready = |c: u16| {
            let load = &self.loads[usize::from(c)];
            // An unmeasured connection counts as the fastest, so that it is tried. Small differences of rates are
            // noise.
            let slower = if load.rate > 0.0 && load.rate < fastest / 2.0 { fastest / load.rate } else { 1.0 };
            ((load.outstanding_bytes + bytes) as f64 * slower) as u64
        };
        let key = |c: &u16| {
            let turn = (u32::from(*c) + n - self.turn % n) % n;
            (ready(*c), preferred != Some(ConnectionId(*c)), turn)
        };
        let least = (0..n as u16).filter(|c| among & 1 << c != 0).min_by_key(key);
        ConnectionId(least.expect("one is usable"))
    }

    /// Returns how many idle connections should share an operation: more of them as long as the time saved exceeds the
    /// cost of a part.
    fn parts(&self, bytes: u64, usable: u64) -> u64 {
        let fastest = self.loads.iter().map(|load| load.rate).fold(0.0, f64::max);
        if fastest == 0.0 {
            return 1; // no rate is measured so far
        }
        let loads = self.loads.iter().enumerate();
        let idle = loads.filter(|(c, load)| usable & 1 << c != 0 && load.outstanding == 0);
        // An unmeasured connection counts as fast as the fastest, so that it is tried.
        let rate = |load: &Load| if load.rate > 0.0 { load.rate } else { fastest };
        let (idle, slowest) = idle.fold((0, f64::MAX), |(n, slowest), (_, load)| (n + 1, rate(load).min(slowest)));
        let most = idle.min(bytes / PART_BYTES_MIN);
        let time = |parts: u64| (bytes as f64 / parts as f64) / slowest + (parts - 1) as f64 * PART_COST.as_secs_f64();
        let mut best = 1;
        for parts in 2..=most {
            // More requests must save a tenth of the time.
            if time(parts) < 0.9 * time(best) {
                best = parts;
            }
        }
        best
    }

    fn share(&mut self, now: Time, bytes: u64, parts: u64, usable: u64) -> Choice {
        const PAGE: u64 = 4096;
        let each = bytes.div_ceil(parts).next_multiple_of(PAGE);
        self.turn = self.turn.wrapping_add(1);
        let n = self.loads.len() as u16;
        let start = (self.turn % u32::from(n)) as u16;
        let idle = |c: &u16| usable & 1 << c != 0 && self.loads[usize::from(*c)].outstanding == 0;
        let chosen: Vec<u16> = (0..n).map(|k| (start + k) % n).filter(idle).take(parts as usize).collect();
        let mut shared = Vec::with_capacity(chosen.len());
        for (number, c) in chosen.into_iter().enumerate() {
            let offset = number as u64 * each;
            if offset < bytes {
                let part = Part { connection: ConnectionId(c), offset, bytes: each.min(bytes - offset) };
                self.begin(now, part.connection, part.bytes);
                shared.push(part);
            }
        }
        Choice { parts: shared }
    }

    fn whole(&mut self, now: Time, connection: ConnectionId, bytes: u64) -> Choice {
        self.begin(now, connection, bytes);
        Choice { parts: vec![Part { connection, offset: 0, bytes }] }
    }

    /// Records bytes under way on a connection that another part of the driver chose.
    pub fn begin(&mut self, now: Time, connection: ConnectionId, bytes: u64) {
        let load = &mut self.loads[usize::from(connection.0)];
        if load.outstanding == 0 {
            (load.busy_since, load.busy_bytes) = (now, 0);
        }
        load.outstanding += 1;
        load.outstanding_bytes += bytes;
    }

    /// Ends a part, done or given up. `file` as in [`Chooser::choose`]; `usable` as of now.
    pub fn done(&mut self, now: Time, file: Option<&mut Use>, direction: Direction, part: Part, ok: bool, usable: u64) {
        let load = &mut self.loads[usize::from(part.connection.0)];
        load.outstanding -= 1;
        load.outstanding_bytes -= part.bytes;
        if ok {
            load.busy_bytes += part.bytes;
        }
        let busy = now.since(load.busy_since);
        if busy >= BUSY_MIN && load.busy_bytes >= PART_BYTES_MIN {
            let rate = load.busy_bytes as f64 / busy.as_secs_f64();
            load.rate = if load.rate > 0.0 { load.rate + RATE_WEIGHT * (rate - load.rate) } else { rate };
            (load.busy_since, load.busy_bytes) = (now, 0);
        }
        if let Some(file) = file.filter(|_| self.policy == Policy::Load) {
            let activity = if direction == Direction::Read { &mut file.reads } else { &mut file.writes };
            activity.under_way -= 1;
            if direction == Direction::Read && part.bytes > 0 {
                file.lone.done(now, part.connection, part.bytes, ok, usable);
            }
            let all = (usable.count_ones() as u16).max(1);
            activity.width.done(now, if ok { part.bytes } else { 0 }, all, &self.width);
        }
    }
}

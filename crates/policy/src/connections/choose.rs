//! Which connection serves an operation.
//!
//! The driver opens a [`Use`] for each open file, asks [`Chooser::choose`] for each operation and says with [`Chooser::done`] how it
//! ended. In between the bytes count as outstanding on the connection chosen. Nothing here waits, and a choice costs a walk over the
//! connections.

use super::lone::Lone;
use super::width::{self, Width};
use super::{ConnectionId, Policy};
use crate::time::Time;

/// Which way the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the server.
    Read,
    /// To the server.
    Write,
}

/// An operation on an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Which way.
    pub direction: Direction,
    /// How many.
    pub bytes: u64,
    /// Whether it must go over one connection.
    pub whole: bool,
}

/// Why a connection was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The thread that opened the file has it.
    Thread,
    /// It is its turn.
    Turn,
    /// The file is written over it.
    Home,
    /// It has the least to do.
    Free,
    /// It is one of several idle ones that share a large operation.
    Shared,
}

/// A part of an operation on one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Where.
    pub connection: ConnectionId,
    /// Bytes after the begin of the operation.
    pub offset: u64,
    /// How many.
    pub bytes: u64,
}

/// What was chosen. Each part is under way now and ends with [`Chooser::done`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// In ascending order, without gaps; one for most operations.
    pub parts: Vec<Part>,
    /// Why.
    pub reason: Reason,
}

/// What the chooser knows of one open file.
#[derive(Clone, Debug)]
pub struct Use {
    thread: u32,
    turn: u32,
    home: Option<ConnectionId>,
    /// Where its reads go when they come one at a time.
    lone: Lone,
    writes: Activity,
    reads: Activity,
    /// Whether it counts among the files written over its home.
    counted: bool,
}

impl Use {
    /// The connection that its writes prefer, once there is one.
    pub fn home(&self) -> Option<ConnectionId> {
        self.home
    }

    /// Connections that its writes go over.
    pub fn width(&self) -> u16 {
        self.writes.width.get()
    }
}

/// The operations of one direction on an open file.
#[derive(Clone, Debug, Default)]
struct Activity {
    width: Width,
    under_way: u32,
    latest: Time,
}

impl Activity {
    /// An operation comes that may be split into `parts`.
    fn begin(&mut self, now: Time, parts: u16) {
        if now.since(self.latest) > PAUSE && self.under_way == 0 {
            self.width.pause();
        }
        self.latest = now;
        self.width.begin(now, self.under_way + 1, parts);
    }
}

/// What is known of one connection's load.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    outstanding_bytes: u64,
    outstanding: u32,
    /// Files whose writes have their home here.
    homes: u32,
    /// Bytes per second while it had something to do; 0 until measured.
    rate: f64,
    busy_since: Time,
    busy_bytes: u64,
}

/// A pause in the writes of a file after which a measured rate is no longer that of the same activity.
const PAUSE: Time = Time::from_millis(500);
/// Weight of the newest measure of a connection's rate.
const RATE_WEIGHT: f64 = 0.25;
/// A busy span shorter than that measures the clock and not the connection.
const BUSY_MIN: Time = Time::from_millis(5);
/// Smallest part of what is split: smaller ones cost more requests than they save time. Measured on GlusterFS: half as
/// large ones gain nothing.
const PART_BYTES_MIN: u64 = 128 << 10;
/// What one more part costs, handing it to another thread and back included. Measured: 30 to 80 us on two cores.
const PART_COST: Time = Time(100_000);

/// Chooses among `n` connections.
#[derive(Clone, Debug)]
pub struct Chooser {
    policy: Policy,
    loads: Vec<Load>,
    width: width::Config,
    turn: u32,
}

impl Chooser {
    /// For connections 0 to `connections - 1`.
    pub fn new(policy: Policy, connections: u16, width: width::Config) -> Chooser {
        Chooser { policy, loads: vec![Load::default(); usize::from(connections.max(1))], width, turn: 0 }
    }

    /// The policy.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Bytes under way on a connection.
    pub fn outstanding_bytes(&self, connection: ConnectionId) -> u64 {
        self.loads[usize::from(connection.0)].outstanding_bytes
    }

    /// Bytes per second that a connection was measured to carry while it was busy; 0 if never.
    pub fn rate(&self, connection: ConnectionId) -> f64 {
        self.loads[usize::from(connection.0)].rate
    }

    /// A thread opened a file.
    pub fn open(&mut self, thread: u32) -> Use {
        Use {
            thread,
            turn: 0,
            home: None,
            lone: Lone::default(),
            writes: Activity::default(),
            reads: Activity::default(),
            counted: false,
        }
    }

    /// The file was closed.
    pub fn close(&mut self, file: &mut Use) {
        if let Some(home) = file.home.take().filter(|_| std::mem::take(&mut file.counted)) {
            self.loads[usize::from(home.0)].homes -= 1;
        }
    }

    /// Chooses among the `usable` connections (a bit each); `None` if there are none.
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
        let (number, reason) = if by_turn {
            file.turn = file.turn.wrapping_add(1); // counted first, so the first operation uses connection 1
            (file.turn, Reason::Turn)
        } else {
            (file.thread, Reason::Thread)
        };
        let connection = self.numbered(number, usable);
        Some(self.whole(now, connection, request.bytes, reason))
    }

    /// The connection of that number modulo all of them; if it cannot be used, modulo those that can.
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
            self.whole(now, connection, request.bytes, Reason::Free)
        } else if width == 1 {
            self.whole(now, file.home.expect("it was given one"), request.bytes, Reason::Home)
        } else {
            let connection = self.least(file.home, request.bytes, near);
            self.whole(now, connection, request.bytes, Reason::Free)
        };
        let activity = if request.direction == Direction::Read { &mut file.reads } else { &mut file.writes };
        activity.under_way += choice.parts.len() as u32;
        choice
    }

    /// Gives a file that is written its home: where the fewest files are written, and of these where the least is under way.
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

    /// `width` usable connections, `home` and those that follow it.
    fn near(&self, home: ConnectionId, width: u16, usable: u64) -> u64 {
        let n = self.loads.len() as u16;
        let ring = (0..n).map(|k| (home.0 + k) % n).filter(|c| usable & 1 << c != 0);
        ring.take(usize::from(width)).fold(0, |set, c| set | 1 << c)
    }

    /// Where `bytes` more would be done first. Among equals the preferred one, then by turn.
    fn least(&mut self, preferred: Option<ConnectionId>, bytes: u64, among: u64) -> ConnectionId {
        self.turn = self.turn.wrapping_add(1);
        let n = self.loads.len() as u32;
        let fastest = self.loads.iter().map(|load| load.rate).fold(0.0, f64::max);
        let ready = |c: u16| {
            let load = &self.loads[usize::from(c)];
            // One that was never measured counts as the fastest, so that it is tried. Rates that differ little are noise.
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

    /// How many idle connections of those should share an operation: as many as save more time than handing over their parts costs.
    fn parts(&self, bytes: u64, usable: u64) -> u64 {
        let fastest = self.loads.iter().map(|load| load.rate).fold(0.0, f64::max);
        if fastest == 0.0 {
            return 1; // nothing is known yet
        }
        let loads = self.loads.iter().enumerate();
        let idle = loads.filter(|(c, load)| usable & 1 << c != 0 && load.outstanding == 0);
        // One that was never measured is tried as if it were like the others.
        let rate = |load: &Load| if load.rate > 0.0 { load.rate } else { fastest };
        let (idle, slowest) = idle.fold((0, f64::MAX), |(n, slowest), (_, load)| (n + 1, rate(load).min(slowest)));
        let most = idle.min(bytes / PART_BYTES_MIN);
        let time = |parts: u64| (bytes as f64 / parts as f64) / slowest + (parts - 1) as f64 * PART_COST.as_secs_f64();
        let mut best = 1;
        for parts in 2..=most {
            // A tenth must be gained to be worth more requests.
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
        Choice { parts: shared, reason: Reason::Shared }
    }

    fn whole(&mut self, now: Time, connection: ConnectionId, bytes: u64, reason: Reason) -> Choice {
        self.begin(now, connection, bytes);
        Choice { parts: vec![Part { connection, offset: 0, bytes }], reason }
    }

    /// Bytes are under way on a connection that somebody else chose.
    pub fn begin(&mut self, now: Time, connection: ConnectionId, bytes: u64) {
        let load = &mut self.loads[usize::from(connection.0)];
        if load.outstanding == 0 {
            (load.busy_since, load.busy_bytes) = (now, 0);
        }
        load.outstanding += 1;
        load.outstanding_bytes += bytes;
    }

    /// A part is done, or was given up. `file` as it was when chosen, `usable` now.
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

//! Several connections to one storage server, as a closed network of queues (paper 001, chapters 3 and 4).
//!
//! ```text
//! thread --> chooser --> client c --> socket c --> link --> server's socket c --> daemon --> lock of the file --> device
//!    ^                                                                                                          |
//!    +--------------------------------------- answer, after `turn` -------------------------------------------+
//! ```
//! The chooser is the machine that the mount runs. A station serves one request at a time, in order of arrival; there
//! are several devices. Writes of a file over one connection are in order, since one worker of the server carries them;
//! those over several connections compete for the lock of its inode. A request on a shorter [`Path`] turns back early,
//! as with the loopbacks of the thesis.

use crate::event::{EventQueue, Rank};
use crate::generate::Rng;
use policy::connections::{Chooser, Direction, Part, Policy, Request, Use, WidthConfig};
use policy::time::Time;
use std::collections::VecDeque;

/// Rates of the stations, in bytes per second, and delays.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// A connection's client process, with its part of the kernel.
    pub client: f64,
    /// The thread of a socket, on each side.
    pub socket: f64,
    /// The network that all connections share.
    pub link: f64,
    /// A server daemon.
    pub daemon: f64,
    /// Each of the devices.
    pub device: f64,
    /// Number of devices.
    pub devices: usize,
    /// Delay of an exchange in which no station is busy.
    pub turn: Time,
    /// Time to take a free lock.
    pub lock: Time,
    /// Additional time to take a lock, for each worker that waits for any: waiting workers spin, and cores are shared.
    pub handover: Time,
    /// Whether the server's sockets share one core.
    pub shared_core: bool,
}

named! {
    /// Point at which requests turn back.
    Path {
        /// The device, without a network.
        Local = "local",
        /// The client process.
        Client = "client",
        /// The sockets, without processes.
        Socket = "socket",
        /// The server daemon.
        Server = "server",
        /// The device behind the server.
        Full = "full",
    }
}

impl Path {
    /// Stations on the way.
    fn stages(self) -> &'static [Stage] {
        use Stage::{Client, Daemon, Device, Link, Receive, Send};
        match self {
            Path::Local => &[Device],
            Path::Client => &[Client],
            Path::Socket => &[Send, Link, Receive],
            Path::Server => &[Client, Send, Link, Receive, Daemon],
            Path::Full => &[Client, Send, Link, Receive, Daemon, Device],
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Client,
    Send,
    Link,
    Receive,
    Daemon,
    Device,
}

/// Threads, each with a file of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Number of threads.
    pub threads: usize,
    /// Requests of a thread under way at once.
    pub depth: usize,
    /// Size of a request.
    pub bytes: u64,
    /// Direction of the bytes.
    pub direction: Direction,
    /// Number of requests of all threads.
    pub requests: u64,
    /// Point at which they turn back.
    pub path: Path,
    /// Seed of the service times.
    pub seed: u64,
}

/// Results of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Throughput, in 10^6 bytes per second.
    pub mb_s: f64,
    /// Mean time of a write until it has the lock, in microseconds.
    pub lock_us: f64,
}

/// A part of a request on its way.
struct Job {
    thread: usize,
    operation: usize,
    part: Part,
    /// Number of the station that it reaches next.
    stage: usize,
}

/// A part reaches its next station, or its write ends.
enum Happening {
    Arrives(usize),
    Written(usize),
}

struct World<'a> {
    server: &'a Server,
    load: &'a Load,
    chooser: Chooser,
    usable: u64,
    files: Vec<Use>,
    jobs: Vec<Job>,
    /// Parts under way of each operation.
    parts: Vec<usize>,
    events: EventQueue<Happening>,
    rng: Rng,
    /// Times at which stations are free, for each stage.
    free: Vec<Vec<Time>>,
    /// Writes of a file over a connection, at their worker.
    workers: Vec<VecDeque<usize>>,
    /// Workers' writes that have the lock of a file or wait for it, with their arrival.
    locks: Vec<VecDeque<(usize, Time)>>,
    /// Workers that wait for a lock.
    waiting: u64,
    lock_ns: u64,
}

/// Runs a load over connections, of which connection `c` leads to daemon `c mod daemons`.
pub fn run(server: &Server, load: &Load, policy: Policy, connections: u16, daemons: usize) -> Figures {
    let width = usize::from(connections);
    let mut chooser = Chooser::new(policy, connections, WidthConfig::default());
    let files: Vec<Use> = (0..load.threads).map(|thread| chooser.open(thread as u32)).collect();
    let stations = [width, width, 1, if server.shared_core { 1 } else { width }, daemons, server.devices];
    let mut world = World {
        server,
        load,
        chooser,
        usable: u64::MAX >> (64 - width),
        files,
        jobs: Vec::new(),
        parts: Vec::new(),
        events: EventQueue::new(),
        rng: Rng::new(load.seed, 1),
        free: stations.map(|count| vec![Time::ZERO; count]).into(),
        workers: (0..load.threads * width).map(|_| VecDeque::new()).collect(),
        locks: (0..load.threads).map(|_| VecDeque::new()).collect(),
        waiting: 0,
        lock_ns: 0,
    };
    (0..load.threads).for_each(|thread| (0..load.depth).for_each(|_| world.issue(Time::ZERO, thread)));
    while let Some((now, happening)) = world.events.pop() {
        match happening {
            Happening::Arrives(job) => world.arrives(now, job),
            Happening::Written(job) => world.written(now, job),
        }
    }
    let (bytes, jobs) = ((world.parts.len() as u64 * load.bytes) as f64, world.jobs.len().max(1) as f64);
    Figures { mb_s: bytes / 1e6 / world.events.now().as_secs_f64(), lock_us: world.lock_ns as f64 / 1e3 / jobs }
}

impl World<'_> {
    /// Issues the next request of a thread, while some are left.
    fn issue(&mut self, now: Time, thread: usize) {
        if self.parts.len() as u64 >= self.load.requests {
            return;
        }
        let request = Request { direction: self.load.direction, bytes: self.load.bytes, whole: false };
        let choice = self.chooser.choose(now, &mut self.files[thread], request, self.usable);
        let parts = choice.expect("a connection is usable").parts;
        let operation = self.parts.len();
        self.parts.push(parts.len());
        for part in parts {
            self.events.push(now, Rank::Arrival, Happening::Arrives(self.jobs.len()));
            self.jobs.push(Job { thread, operation, part, stage: 0 });
        }
    }

    /// Service time at a rate, between a half and three halves of its mean.
    fn span(&mut self, bytes: u64, rate: f64) -> Time {
        Time((bytes as f64 / rate * (0.5 + self.rng.unit()) * 1e9) as u64)
    }

    /// End of a service that begins when a station is free.
    fn serve(&mut self, now: Time, stage: Stage, station: usize, bytes: u64, rate: f64) -> Time {
        let span = self.span(bytes, rate);
        let free = &mut self.free[stage as usize][station];
        *free = (*free).max(now) + span;
        *free
    }

    fn arrives(&mut self, now: Time, at: usize) {
        let Job { thread, part, stage, .. } = self.jobs[at];
        let Some(&here) = self.load.path.stages().get(stage) else { return self.answered(now, at) };
        let (c, bytes, server) = (usize::from(part.connection.0), part.bytes, self.server);
        let (station, rate) = match here {
            Stage::Client => (c, server.client),
            Stage::Send => (c, server.socket),
            Stage::Link => (0, server.link),
            Stage::Receive => (if server.shared_core { 0 } else { c }, server.socket),
            Stage::Daemon => (c % self.free[Stage::Daemon as usize].len(), server.daemon),
            Stage::Device if self.load.direction == Direction::Write => {
                let worker = self.worker(at);
                self.workers[worker].push_back(at);
                if self.workers[worker].len() == 1 {
                    self.locks(now, thread, at);
                }
                return;
            }
            Stage::Device => (self.idlest(), server.device),
        };
        let done = self.serve(now, here, station, bytes, rate);
        self.goes_on(done, at);
    }

    /// Sends a part to its next station; after the last one the answer takes `turn`.
    fn goes_on(&mut self, done: Time, at: usize) {
        self.jobs[at].stage += 1;
        let path = self.load.path;
        let is_last = self.jobs[at].stage == path.stages().len();
        let turns = is_last && matches!(path, Path::Server | Path::Full);
        let turn = if turns { self.server.turn } else { Time::ZERO };
        self.events.push(done + turn, Rank::Completion, Happening::Arrives(at));
    }

    fn worker(&self, at: usize) -> usize {
        let Job { thread, part, .. } = &self.jobs[at];
        thread * self.free[Stage::Client as usize].len() + usize::from(part.connection.0)
    }

    /// The device that is free first.
    fn idlest(&self) -> usize {
        let devices = &self.free[Stage::Device as usize];
        (0..devices.len()).min_by_key(|at| devices[*at]).expect("there is a device")
    }

    /// A worker's write asks for the lock of its file.
    fn locks(&mut self, now: Time, file: usize, at: usize) {
        self.locks[file].push_back((at, now));
        self.waiting += 1;
        if self.locks[file].len() == 1 {
            self.writes(now, file);
        }
    }

    /// The first in line takes the lock, and holds it for its write.
    fn writes(&mut self, now: Time, file: usize) {
        let Some(&(at, since)) = self.locks[file].front() else { return };
        self.waiting -= 1;
        let begin = now + self.server.lock + Time(self.server.handover.0 * self.waiting);
        self.lock_ns += begin.since(since).0;
        let (device, bytes) = (self.idlest(), self.jobs[at].part.bytes);
        let done = self.serve(begin, Stage::Device, device, bytes, self.server.device);
        self.events.push(done, Rank::Completion, Happening::Written(at));
    }

    fn written(&mut self, now: Time, at: usize) {
        let (file, worker) = (self.jobs[at].thread, self.worker(at));
        self.locks[file].pop_front();
        self.workers[worker].pop_front();
        if let Some(&next) = self.workers[worker].front() {
            self.locks[file].push_back((next, now));
            self.waiting += 1;
        }
        self.writes(now, file);
        self.goes_on(now, at);
    }

    fn answered(&mut self, now: Time, at: usize) {
        let Job { thread, operation, part, .. } = self.jobs[at];
        let file = Some(&mut self.files[thread]);
        self.chooser.done(now, file, self.load.direction, part, true, self.usable);
        self.parts[operation] -= 1;
        if self.parts[operation] == 0 {
            self.issue(now, thread);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> Server {
        Server {
            client: 4e9,
            socket: 1e9,
            link: 12.5e9,
            daemon: 9e9,
            device: 2e9,
            devices: 4,
            turn: Time::ZERO,
            lock: Time(1000),
            handover: Time(5_000),
            shared_core: false,
        }
    }

    fn load(direction: Direction, threads: usize, depth: usize, path: Path) -> Load {
        Load { threads, depth, bytes: 128 << 10, direction, requests: 4000, path, seed: 1 }
    }

    fn near(got: f64, expected: f64) {
        assert!((got / expected - 1.0).abs() < 0.1, "{got} instead of {expected}");
    }

    /// Bounds of a closed network: the slowest station, and the number of requests over the time of one.
    #[test]
    fn throughput_is_that_of_the_slowest_station() {
        let of = |path, connections, threads| {
            run(&server(), &load(Direction::Read, threads, 4, path), Policy::Multiple, connections, 1).mb_s
        };
        near(of(Path::Full, 1, 16), 1000.0);
        near(of(Path::Full, 4, 16), 4000.0);
        near(of(Path::Full, 32, 64), 8000.0);
        near(of(Path::Server, 32, 64), 9000.0);
        near(of(Path::Local, 1, 64), 8000.0);
        near(of(Path::Client, 1, 16), 4000.0);
        let shared = Server { shared_core: true, ..server() };
        near(run(&shared, &load(Direction::Read, 16, 4, Path::Socket), Policy::Multiple, 2, 1).mb_s, 1000.0);
        // One request at a time: the sum of all services and of the delay.
        let slow = Server { turn: Time::from_millis(1), ..server() };
        let alone = run(&slow, &load(Direction::Read, 1, 1, Path::Full), Policy::Single, 1, 1).mb_s;
        let span_s = 1e-3 + 131_072.0 * (1.0 / 4e9 + 2.0 / 1e9 + 1.0 / 12.5e9 + 1.0 / 9e9 + 1.0 / 2e9);
        near(alone, 0.131_072 / span_s);
    }

    /// Writes of one file over several connections wait for its lock, those over one connection do not.
    #[test]
    fn only_spread_writes_of_a_file_wait_for_its_lock() {
        let of = |policy, connections, depth| {
            run(&server(), &load(Direction::Write, 8, depth, Path::Full), policy, connections, 1)
        };
        assert_eq!(of(Policy::Single, 8, 8).lock_us, 1.0);
        let [two, eight] = [2, 8].map(|connections| of(Policy::Multiple, connections, 8).lock_us);
        assert!(two > 1.0 && eight > 4.0 * two, "{two} and {eight}");
        assert!(of(Policy::Multiple, 8, 1).lock_us < 1.01, "one write of a file at a time");
        assert!(of(Policy::Multiple, 8, 8).mb_s < of(Policy::Single, 8, 8).mb_s);
    }
}

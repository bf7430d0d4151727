//! A server behind several connections in virtual time. Each connection has a rate. The server writes one file at its
//! full rate over one connection, and at a part of it over several.

use crate::connections::{Chooser, Direction, Part, Policy, Request, Use, WidthConfig};
use crate::time::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Latency that a connection adds to each request.
const LATENCY_NS: u64 = 100_000;
/// Virtual bytes moved in a run; enough for many windows.
const RUN_BYTES: u64 = 4 << 30;

/// Threads with one file each.
#[derive(Clone, Copy)]
pub struct Job {
    pub direction: Direction,
    pub threads: usize,
    pub depth: usize,
    pub bytes: u64,
}

pub struct World {
    chooser: Chooser,
    n: u16,
    /// Bytes per second of a connection.
    rate: f64,
    /// Bytes per second at which the server writes a file over one connection; over `w` connections, a `w`-th.
    locked_rate: f64,
    /// One connection is slower.
    pub slow: Option<(u16, f64)>,
}

struct Running {
    /// The thread, and the number of its request.
    owner: (usize, usize),
    part: Part,
}

impl World {
    pub fn new(policy: Policy, n: u16) -> World {
        let chooser = Chooser::new(policy, n, WidthConfig::default());
        World { chooser, n, rate: 100e6, locked_rate: f64::INFINITY, slow: None }
    }

    /// Creates a world with other rates.
    pub fn of(self, rate: f64, locked_rate: f64) -> World {
        World { rate, locked_rate, ..self }
    }

    /// Bytes per second of all threads together.
    pub fn run(mut self, job: Job) -> f64 {
        let mut files: Vec<Use> = (0..job.threads).map(|t| self.chooser.open(t as u32)).collect();
        let mut free_at = vec![0u64; usize::from(self.n)];
        let mut lock_free_at = vec![0u64; job.threads];
        let mut ends: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
        let mut running: Vec<Running> = Vec::new();
        let mut left = vec![vec![0usize; job.depth]; job.threads];
        let mut todo: Vec<(usize, usize)> =
            (0..job.depth).flat_map(|d| (0..job.threads).map(move |t| (t, d))).collect();
        let (mut now, mut moved, mut recent) = (0u64, 0u64, vec![Vec::<u16>::new(); job.threads]);
        while moved < RUN_BYTES {
            for (thread, slot) in std::mem::take(&mut todo) {
                let request = Request { direction: job.direction, bytes: job.bytes, whole: false };
                let choice = self.chooser.choose(Time(now), &mut files[thread], request, u64::MAX).unwrap();
                left[thread][slot] = choice.parts.len();
                for part in choice.parts {
                    let c = part.connection.0;
                    let rate = self.slow.filter(|(slow, _)| *slow == c).map_or(self.rate, |(_, rate)| rate);
                    let sent = free_at[usize::from(c)].max(now) + (part.bytes as f64 / rate * 1e9) as u64;
                    free_at[usize::from(c)] = sent;
                    let mut end = sent + LATENCY_NS;
                    if job.direction == Direction::Write && self.locked_rate.is_finite() {
                        let over = &mut recent[thread];
                        over.insert(0, c);
                        over.truncate(16);
                        let mut set = over.clone();
                        set.sort_unstable();
                        set.dedup();
                        let ns = part.bytes as f64 / self.locked_rate * 1e9 * set.len() as f64;
                        end = end.max(lock_free_at[thread]) + ns as u64;
                        lock_free_at[thread] = end;
                    }
                    ends.push(Reverse((end, running.len())));
                    running.push(Running { owner: (thread, slot), part });
                }
            }
            let Reverse((end, number)) = ends.pop().expect("something is under way");
            now = end;
            let Running { owner: (thread, slot), part } = &running[number];
            moved += part.bytes;
            self.chooser.done(
                Time(now),
                Some(&mut files[*thread]),
                job.direction,
                *part,
                true,
                u64::MAX >> (64 - self.n),
            );
            left[*thread][*slot] -= 1;
            if left[*thread][*slot] == 0 {
                todo.push((*thread, *slot));
            }
        }
        moved as f64 / now as f64 * 1e9
    }
}

//! Processor time by program, for the whole machine: it shows which daemon a row costs.

use std::collections::BTreeMap;
use std::ops::Sub;
use std::time::{Duration, Instant};

/// Time over which the programs' own work is measured.
const IDLE: Duration = Duration::from_secs(4);
/// The daemon of a node, the client of GlusterFS, its bricks.
const PROGRAMS: [&str; 3] = ["entrepot", "glusterfs", "glusterfsd"];

/// Milliseconds by program.
#[derive(Clone, Debug, Default)]
pub struct Processors(BTreeMap<&'static str, f64>);

impl Processors {
    /// Time of all live processes since they started.
    fn now() -> Processors {
        let mut all = Processors::default();
        let tick_ms = 1000.0 / rustix::param::clock_ticks_per_second() as f64;
        for process in std::fs::read_dir("/proc").expect("processes").flatten() {
            let Ok(stat) = std::fs::read_to_string(process.path().join("stat")) else { continue };
            // `PID (NAME) STATE ...`: user and system time are the 12th and 13th field after the name.
            let Some((name, fields)) = stat.split_once('(').and_then(|(_, rest)| rest.rsplit_once(") ")) else {
                continue;
            };
            let Some(program) = PROGRAMS.into_iter().find(|program| *program == name) else { continue };
            let ticks = fields.split(' ').skip(11).take(2).filter_map(|field| field.parse::<f64>().ok());
            *all.0.entry(program).or_default() += ticks.sum::<f64>() * tick_ms;
        }
        all
    }

    /// Time per second without load.
    pub fn idle() -> Processors {
        let (before, began) = (Processors::now(), Instant::now());
        std::thread::sleep(IDLE);
        (Processors::now() - before).times(1.0 / began.elapsed().as_secs_f64())
    }

    /// Time that `act` costs, without that of an idle machine.
    pub fn during(idle: &Processors, act: impl FnOnce()) -> Processors {
        let (before, began) = (Processors::now(), Instant::now());
        act();
        Processors::now() - before - idle.clone().times(began.elapsed().as_secs_f64())
    }

    pub fn mean(all: &[Processors]) -> Processors {
        let mut sum = Processors::default();
        for (program, time) in all.iter().flat_map(|one| &one.0) {
            *sum.0.entry(program).or_default() += time;
        }
        sum.times(1.0 / all.len() as f64)
    }

    pub fn times(mut self, factor: f64) -> Processors {
        self.0.values_mut().for_each(|time| *time *= factor);
        self
    }

    /// Times of the client and of the bricks, after that of the daemon if the subject has one.
    pub fn cells(&self, has_daemon: bool) -> String {
        let of = |program: &&str| format!("{:.2}", self.0.get(program).copied().unwrap_or(0.0));
        PROGRAMS[usize::from(!has_daemon)..].iter().map(of).collect::<Vec<_>>().join(" | ")
    }
}

impl Sub for Processors {
    type Output = Processors;

    fn sub(mut self, other: Processors) -> Processors {
        for (program, time) in other.0 {
            *self.0.entry(program).or_default() -= time;
        }
        self
    }
}

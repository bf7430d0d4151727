//! Counts of the calls that reach the hosts' clients of GlusterFS, by the clients' own counters: unlike seconds, they
//! are the same on a machine with other load.

use crate::gluster::CLIENT_PID;
use crate::hosts::Host;
use crate::real::until;
use std::collections::BTreeMap;
use std::ops::Sub;
use std::time::{Duration, Instant};

/// Directory where a client writes its metrics on request.
const METRICS: &str = "/run/gluster/metrics";
/// The last line of it.
const END: &str = "# End of metrics";
/// The first layer of a client below the kernel.
const FIRST: &str = "meta-autoload";
/// Prefix of the names of the layers that call bricks.
const LAST: &str = "shared-client-";
/// Time over which the daemons' own calls are counted.
const IDLE: Duration = Duration::from_secs(4);
/// Time after which the work after a process's closes is over. A guess.
const AFTER: Duration = Duration::from_millis(400);

/// Calls of all hosts.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    /// Calls of the kernel, by name.
    asked: BTreeMap<String, f64>,
    /// Calls to the bricks.
    sent: f64,
}

impl Calls {
    /// All calls since the clients started.
    pub fn of(hosts: &[Host]) -> Calls {
        let mut all = Calls::default();
        hosts.iter().for_each(|host| all.add(&metrics(host)));
        all
    }

    /// Lines like `LAYER.total.LOOKUP.count 7`.
    fn add(&mut self, text: &str) {
        for line in text.lines() {
            let Some((name, number)) = line.rsplit_once(' ') else { continue };
            let (words, number) = (name.split('.').collect::<Vec<_>>(), number.parse().unwrap_or(0.0));
            match words[..] {
                [FIRST, "total", call, "count"] => *self.asked.entry(call.to_lowercase()).or_default() += number,
                [layer, "total", "fop-count"] if layer.starts_with(LAST) => self.sent += number,
                _ => {}
            }
        }
    }

    /// Calls per second without load.
    pub fn idle(hosts: &[Host]) -> Calls {
        let (before, began) = (Calls::of(hosts), Instant::now());
        std::thread::sleep(IDLE);
        (Calls::of(hosts) - before).times(1.0 / began.elapsed().as_secs_f64())
    }

    /// Calls that `act` causes, without the idle ones.
    pub fn during(hosts: &[Host], idle: &Calls, act: impl FnOnce()) -> Calls {
        let (before, began) = (Calls::of(hosts), Instant::now());
        act();
        std::thread::sleep(AFTER);
        Calls::of(hosts) - before - idle.clone().times(began.elapsed().as_secs_f64())
    }

    pub fn times(mut self, factor: f64) -> Calls {
        self.asked.values_mut().for_each(|calls| *calls *= factor);
        Calls { sent: self.sent * factor, ..self }
    }

    /// The kernel's calls of one name.
    pub fn of_name(&self, name: &str) -> f64 {
        self.asked.get(name).copied().unwrap_or(0.0)
    }

    /// Sum of the kernel's calls.
    pub fn asked(&self) -> f64 {
        self.asked.values().sum()
    }

    /// Calls to the bricks.
    pub fn sent(&self) -> f64 {
        self.sent
    }

    /// The kernel's calls by name, as text.
    pub fn named(&self) -> String {
        let named = self.asked.iter().filter(|(_, calls)| **calls >= 0.05);
        named.map(|(name, calls)| format!("{name} {calls:.1}")).collect::<Vec<_>>().join(", ")
    }
}

impl Sub for Calls {
    type Output = Calls;

    fn sub(mut self, other: Calls) -> Calls {
        for (name, calls) in other.asked {
            *self.asked.entry(name).or_default() -= calls;
        }
        Calls { sent: self.sent - other.sent, ..self }
    }
}

fn metrics(host: &Host) -> String {
    host.must("sh", &["-c", &format!("rm -rf {METRICS}; kill -USR2 $(cat {CLIENT_PID})")]);
    let mut text = String::new();
    until("the client has written its metrics", || {
        let read = host.run("sh", &["-c", &format!("cat {METRICS}/* 2>&1")]);
        text = String::from_utf8_lossy(&read.stdout).into_owned();
        text.contains(END)
    });
    text
}

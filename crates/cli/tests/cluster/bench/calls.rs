//! How many calls reach the hosts' clients of GlusterFS, by what these count themselves: unlike seconds, they are the same on a machine that
//! has much else to do.

use crate::gluster::CLIENT_PID;
use crate::hosts::Host;
use crate::real::until;
use std::collections::BTreeMap;
use std::ops::Sub;
use std::time::{Duration, Instant};

/// Where a client writes its metrics when it is asked for them.
const METRICS: &str = "/run/gluster/metrics";
/// The last line of it.
const END: &str = "# End of metrics";
/// The layer of a client that hears first what the kernel asks.
const FIRST: &str = "meta-autoload";
/// What the names of the layers that call bricks start with.
const LAST: &str = "shared-client-";
/// How long it is counted what daemons do that nobody asked for.
const IDLE: Duration = Duration::from_secs(4);
/// What goes on after a process has closed its files is over by then. A guess.
const AFTER: Duration = Duration::from_millis(400);

/// Calls of all hosts.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    /// What the kernel asked, by name.
    asked: BTreeMap<String, f64>,
    /// What bricks were asked.
    sent: f64,
}

impl Calls {
    /// All that came since the clients started.
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

    /// What comes in a second while nobody asks for anything.
    pub fn idle(hosts: &[Host]) -> Calls {
        let (before, began) = (Calls::of(hosts), Instant::now());
        std::thread::sleep(IDLE);
        (Calls::of(hosts) - before).times(1.0 / began.elapsed().as_secs_f64())
    }

    /// What `act` brings, without what comes anyway.
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

    /// What the kernel asked, all together.
    pub fn asked(&self) -> f64 {
        self.asked.values().sum()
    }

    /// What bricks were asked.
    pub fn sent(&self) -> f64 {
        self.sent
    }

    /// Which they are.
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

//! The machine's own share of a measured time.
//!
//! A task that is ready and waits for a processor lengthens requests as no device does, and so does a hypervisor that
//! runs another guest. `benches/machine.sh` is the same for the rigs of the shell.

use std::fs::read_to_string;
use std::time::Instant;

/// Share above which nothing is judged.
const PERCENT_MAX: f64 = 10.0;

/// Ticks per second of `/proc/stat`, the same on all of Linux' usual machines.
const TICKS: f64 = 100.0;

/// Begin of a measured time.
pub struct Machine {
    began: Instant,
    waited_s: f64,
}

impl Machine {
    /// Starts to measure.
    pub fn start() -> Self {
        Machine { began: Instant::now(), waited_s: waited_s() }
    }

    /// Whether figures of `what` may be judged; prints the share, and the reason if not.
    pub fn allows(&self, what: &str) -> bool {
        let percent = (waited_s() - self.waited_s) / self.began.elapsed().as_secs_f64() * 100.0;
        println!("machine's share of {what}: {percent:.0} %");
        if percent > PERCENT_MAX {
            eprintln!(
                "skipped: {what}: the machine took {percent:.0} % of the time, at most {PERCENT_MAX} % are allowed"
            );
        }
        percent <= PERCENT_MAX
    }
}

/// Seconds so far in which a ready task waited for a processor, and stolen time of a processor.
fn waited_s() -> f64 {
    let pressure = read_to_string("/proc/pressure/cpu").unwrap_or_default();
    let some_us: f64 = pressure.lines().next().and_then(|line| line.rsplit('=').next()?.parse().ok()).unwrap_or(0.0);
    let stat = read_to_string("/proc/stat").unwrap_or_default();
    let stolen: f64 = stat.split_whitespace().nth(8).and_then(|ticks| ticks.parse().ok()).unwrap_or(0.0);
    let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    some_us / 1e6 + stolen / TICKS / processors
}

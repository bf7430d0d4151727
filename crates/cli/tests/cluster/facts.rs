//! Assumptions of the protocol between nodes about a shared file system, each with racing processes on three hosts. The
//! results are in the table of `docs/results/appendix.md`.

mod attributes;
mod bytes;
mod cut;
mod listed;
mod locks;
mod names;
mod replaced;

use std::time::Duration;

/// Rounds of a race; `ENTREPOT_ROUNDS=2000` for more.
fn rounds() -> u64 {
    std::env::var("ENTREPOT_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(60)
}

/// Microseconds that one comes later than the others: now together, now one after the other.
struct Later(u64);

impl Later {
    fn next(&mut self) -> Duration {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        Duration::from_micros(if self.0 & 1 == 0 { 0 } else { (self.0 >> 1) % 900 })
    }
}

/// Prints the durations of calls; the rare one is the slowest of a hundred.
fn show(what: &str, mut took: Vec<Duration>) {
    took.sort();
    let at = |percent: usize| took[(took.len() - 1) * percent / 100];
    println!("{what}: median {:.0?}, 99 of 100 within {:.0?} ({} calls)", at(50), at(99), took.len());
}

//! Yielding of a running move: step by step, and only while the devices are otherwise idle.
//!
//! ```text
//!   step --> were the devices used within `idle`? --no--> go on with the next step
//!              yes: wait until they were idle for `idle` again; after ten seconds of waiting in all give the move up
//! ```
//! A move begins when the devices are idle, for an unknown time. A request during the move waits for the current step
//! only. So a step takes a slow device a few milliseconds, or its positioning time, since shorter steps would move
//! little.
//!
//! Ours; the paper moves on idle devices and does not cover requests during a move.

use super::Tier;
use super::cost::Costs;
use crate::time::Time;

/// Device time of a step without positioning. A guess: less than a disk's positioning.
const STEP_NS: f64 = 4e6;

/// Least and most bytes of a step.
const STEP_BYTES: (u64, u64) = (64 << 10, 4 << 20);

/// Longest total wait of a move before it is given up: it holds room and the file's turn, which others need.
const PATIENCE: Time = Time(10_000_000_000);

/// Decision before the next step of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The step may be made.
    Go,
    /// No step before this time; then another check follows.
    Wait(Time),
    /// The move is given up.
    GiveUp,
}

/// Yielding of one move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Yielding {
    idle: Time,
    waited: Time,
}

impl Yielding {
    /// Makes the state of a move that continues after the devices were unused for `idle`.
    pub fn new(idle: Time) -> Yielding {
        Yielding { idle, waited: Time::ZERO }
    }

    /// Decides whether the next step may be made. `used` is the last use of the devices by others, if any.
    pub fn next(&mut self, now: Time, used: Option<Time>) -> Turn {
        let free_at = used.map_or(now, |used| used + self.idle);
        if free_at <= now {
            return Turn::Go;
        }
        if self.waited >= PATIENCE {
            return Turn::GiveUp;
        }
        self.waited = self.waited + free_at.since(now);
        Turn::Wait(free_at)
    }
}

/// Returns the bytes of a step of a move to this tier: a power of two.
pub fn step_bytes(costs: &Costs, to: Tier) -> u64 {
    let (from, to) = (costs.of(to.other()), costs.of(to));
    let within = |latency_ns: f64, ns_per_byte: f64| latency_ns.max(STEP_NS) / ns_per_byte.max(1e-9);
    let read = within(from.read_latency_ns, from.read_ns_per_byte);
    let write = within(to.write_latency_ns, to.write_ns_per_byte);
    let bytes = (read.min(write) as u64).clamp(STEP_BYTES.0, STEP_BYTES.1);
    1 << bytes.ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tier::cost::DeviceCost;

    #[test]
    fn a_move_waits_while_others_use_the_devices_and_gives_up_in_the_end() {
        let ms = Time::from_millis;
        let mut yielding = Yielding::new(ms(200));
        assert_eq!(yielding.next(ms(0), None), Turn::Go);
        assert_eq!(yielding.next(ms(500), Some(ms(300))), Turn::Go);
        assert_eq!(yielding.next(ms(500), Some(ms(400))), Turn::Wait(ms(600)));
        assert_eq!(yielding.next(ms(600), Some(ms(400))), Turn::Go);
        // The devices are used without end.
        let mut now = ms(1000);
        let ended = loop {
            match yielding.next(now, Some(now)) {
                Turn::Wait(until) => now = until,
                turn => break turn,
            }
        };
        assert_eq!((ended, now), (Turn::GiveUp, ms(1000 + 10_000)), "a tenth of a second had been waited already");
        assert_eq!(yielding.next(now + ms(200), Some(now)), Turn::Go, "left alone, it would go on all the same");
    }

    #[test]
    fn a_step_keeps_a_slow_device_for_some_milliseconds_or_for_as_long_as_it_positions() {
        let device = |read: f64, write: f64, latency_ms: f64| DeviceCost {
            read_latency_ns: latency_ms * 1e6,
            write_latency_ns: latency_ms * 1e6,
            ..DeviceCost::seconds_per_gb(1000.0 / read, 1000.0 / write)
        };
        let of = |fast, slow, to| step_bytes(&Costs { fast, slow, ..Costs::default() }, to) >> 10;
        let (flash, slow, disk) = (device(2000.0, 1000.0, 0.0), device(20.0, 10.0, 0.0), device(180.0, 160.0, 8.0));
        assert_eq!([Tier::Fast, Tier::Slow].map(|to| of(flash, slow, to)), [64, 64]);
        assert_eq!([Tier::Fast, Tier::Slow].map(|to| of(flash, disk, to)), [1024, 1024]);
        assert_eq!(of(flash, flash, Tier::Fast), 2048);
    }
}

//! Attempts of the commands of a data part: whether and when the next follows.
//!
//! The commands of a data part run one after the other. Each is tried up to `retries + 1` times, with a growing pause
//! before each further try, and the status of its last attempt is its status. Permanent failures are not retried. This
//! module reads no script and runs nothing.
//!
//! Source: the reference, section 6.1; pauses, and what is not repeated, are ours.

use crate::time::Time;

/// The pause after the first attempt that failed; each further one is twice as long.
pub const PAUSE_MIN: Time = Time::from_secs(1);
/// The longest pause. A guess: work goes on soon after a server returns.
pub const PAUSE_MAX: Time = Time::from_secs(60);

/// Decides after each attempt of a command whether and when the next follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempts {
    retries: u32,
    made: u32,
    pause: Time,
}

/// The next attempt of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Again {
    /// Its number, from 2.
    pub attempt: u32,
    /// How many there may be in all.
    pub of: u32,
    /// How long to wait before it.
    pub pause: Time,
}

impl Attempts {
    /// No attempt made yet; up to `retries + 1` may be. `pause` is the first, usually [`PAUSE_MIN`].
    pub fn new(retries: u32, pause: Time) -> Attempts {
        Attempts { retries, made: 0, pause }
    }

    /// An attempt ended. `may_pass`: it failed, and a retry may succeed. It may not if the source has no such file, the
    /// user lacks permission, or the command is wrong. `None`: the end of this attempt is the command's.
    pub fn ended(&mut self, may_pass: bool) -> Option<Again> {
        self.made = self.made.saturating_add(1);
        if !may_pass || self.made > self.retries {
            return None;
        }
        let pause = self.pause.min(PAUSE_MAX);
        self.pause = Time(pause.0.saturating_mul(2));
        Some(Again { attempt: self.made + 1, of: self.retries.saturating_add(1), pause })
    }

    /// How many attempts have ended.
    pub fn made(&self) -> u32 {
        self.made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n_retries_are_n_and_one_attempts_with_growing_pauses() {
        let mut attempts = Attempts::new(2, PAUSE_MIN);
        let again = |attempt, of, secs| Some(Again { attempt, of, pause: Time::from_secs(secs) });
        assert_eq!(attempts.ended(true), again(2, 3, 1));
        assert_eq!(attempts.ended(true), again(3, 3, 2));
        assert_eq!((attempts.ended(true), attempts.made()), (None, 3));
        assert_eq!(Attempts::new(5, PAUSE_MIN).ended(false), None);
        assert_eq!(Attempts::new(0, PAUSE_MIN).ended(true), None);
        let mut second = Attempts::new(1, PAUSE_MIN);
        assert_eq!(second.ended(true), again(2, 2, 1));
        assert_eq!(second.ended(false), None);
        let mut many = Attempts::new(100, PAUSE_MIN);
        let pauses =
            (0..100).map(|_| many.ended(true)).map(|again| again.expect("a hundred times").pause.0 / 1_000_000_000);
        assert_eq!(pauses.collect::<Vec<_>>()[..9], [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    }

    /// [S-063]
    #[test]
    fn what_cannot_pass_is_not_tried_again() {
        let mut attempts = Attempts::new(5, PAUSE_MIN);
        assert_eq!((attempts.ended(false), attempts.made()), (None, 1));
    }
}

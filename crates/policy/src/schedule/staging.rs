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

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The command succeeded.
    Succeeded,
    /// It failed, and a retry may succeed.
    Failed,
    /// It failed for good: the source has no such file, the user lacks permission, or the command is wrong.
    FailedForGood,
}

/// Consequence of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Try the command again.
    Again {
        /// Number of the next attempt, from 2.
        attempt: u32,
        /// How many there may be in all.
        of: u32,
        /// How long to wait before it.
        pause: Time,
    },
    /// The last attempt's end is the command's.
    Done,
}

impl Attempts {
    /// No attempt made yet; up to `retries + 1` may be. `pause` is the first, usually [`PAUSE_MIN`].
    pub fn new(retries: u32, pause: Time) -> Attempts {
        Attempts { retries, made: 0, pause }
    }

    /// An attempt ended.
    pub fn ended(&mut self, how: Attempt) -> Verdict {
        self.made = self.made.saturating_add(1);
        if how != Attempt::Failed || self.made > self.retries {
            return Verdict::Done;
        }
        let pause = self.pause.min(PAUSE_MAX);
        self.pause = Time(pause.0.saturating_mul(2));
        Verdict::Again { attempt: self.made + 1, of: self.retries.saturating_add(1), pause }
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
        let again = |attempt, of, secs| Verdict::Again { attempt, of, pause: Time::from_secs(secs) };
        assert_eq!(attempts.ended(Attempt::Failed), again(2, 3, 1));
        assert_eq!(attempts.ended(Attempt::Failed), again(3, 3, 2));
        assert_eq!((attempts.ended(Attempt::Failed), attempts.made()), (Verdict::Done, 3));
        assert_eq!(Attempts::new(5, PAUSE_MIN).ended(Attempt::Succeeded), Verdict::Done);
        assert_eq!(Attempts::new(0, PAUSE_MIN).ended(Attempt::Failed), Verdict::Done);
        let mut second = Attempts::new(1, PAUSE_MIN);
        assert_eq!(second.ended(Attempt::Failed), again(2, 2, 1));
        assert_eq!(second.ended(Attempt::Succeeded), Verdict::Done);
        let mut many = Attempts::new(100, PAUSE_MIN);
        let pauses = (0..100).map(|_| many.ended(Attempt::Failed)).map(|verdict| match verdict {
            Verdict::Again { pause, .. } => pause.0 / 1_000_000_000,
            Verdict::Done => panic!("a hundred times"),
        });
        assert_eq!(pauses.collect::<Vec<_>>()[..9], [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    }

    /// [S-063]
    #[test]
    fn what_cannot_pass_is_not_tried_again() {
        let mut attempts = Attempts::new(5, PAUSE_MIN);
        assert_eq!((attempts.ended(Attempt::FailedForGood), attempts.made()), (Verdict::Done, 1));
    }
}

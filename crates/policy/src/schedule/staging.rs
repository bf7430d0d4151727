//! A script with directives becomes up to three jobs: stage in, compute, stage out.
//!
//! ```text
//!   stage-in            compute               stage-out
//!   queue dataxfer  ->  queue batch       ->  queue dataxfer
//!                       afterok(stage-in)     afterok(compute)
//! ```
//!
//! A part without commands is left out, and what would depend on it depends on what it would have depended on. So a
//! failed stage-in keeps the job from running, and results go home only from a job that succeeded.
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

/// Directives of a script, already parsed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directives {
    /// Commands that stage data in, in order.
    pub stage_in: Vec<String>,
    /// Most retries of a failed stage-in.
    pub stage_in_retries: u32,
    /// Whether anything is left to run without the directives.
    pub compute: bool,
    /// Commands that take results home, in order.
    pub stage_out: Vec<String>,
    /// Most retries of a failed stage-out.
    pub stage_out_retries: u32,
}

/// Kind of part of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PartKind {
    /// Brings data in.
    StageIn,
    /// The script itself.
    Compute,
    /// Takes results home.
    StageOut,
}

/// Where a part is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PartQueue {
    /// The queue of data jobs: no charge, few at once.
    Dataxfer,
    /// The queue of compute jobs.
    Batch,
}

/// One job to submit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Kind of the part.
    pub kind: PartKind,
    /// Queue in which it waits.
    pub queue: PartQueue,
    /// The part that must end well before, by its kind.
    pub after_ok: Option<PartKind>,
    /// Commands of a data part; empty for the script.
    pub commands: Vec<String>,
    /// Most retries of each command.
    pub retries: u32,
}

/// Cuts a script into the jobs to submit, in the order to submit them.
pub fn plan(directives: &Directives) -> Vec<Part> {
    let wanted = [
        (PartKind::StageIn, PartQueue::Dataxfer, !directives.stage_in.is_empty()),
        (PartKind::Compute, PartQueue::Batch, directives.compute),
        (PartKind::StageOut, PartQueue::Dataxfer, !directives.stage_out.is_empty()),
    ];
    let mut parts: Vec<Part> = Vec::with_capacity(wanted.len());
    for (kind, queue, _) in wanted.into_iter().filter(|(.., present)| *present) {
        let (commands, retries) = match kind {
            PartKind::StageIn => (directives.stage_in.clone(), directives.stage_in_retries),
            PartKind::Compute => (Vec::new(), 0),
            PartKind::StageOut => (directives.stage_out.clone(), directives.stage_out_retries),
        };
        let after_ok = parts.last().map(|p| p.kind);
        parts.push(Part { kind, queue, after_ok, commands, retries });
    }
    parts
}

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

    fn directives(stage_in: usize, compute: bool, stage_out: usize) -> Directives {
        let commands = |n: usize, verb: &str| (0..n).map(|i| format!("{verb} {i}")).collect();
        Directives {
            stage_in: commands(stage_in, "in"),
            stage_in_retries: 2,
            compute,
            stage_out: commands(stage_out, "out"),
            stage_out_retries: 1,
        }
    }

    #[test]
    fn three_parts_each_after_the_one_before() {
        let parts = plan(&directives(2, true, 1));
        let shape: Vec<_> = parts.iter().map(|p| (p.kind, p.queue, p.after_ok, p.retries)).collect();
        assert_eq!(
            shape,
            [
                (PartKind::StageIn, PartQueue::Dataxfer, None, 2),
                (PartKind::Compute, PartQueue::Batch, Some(PartKind::StageIn), 0),
                (PartKind::StageOut, PartQueue::Dataxfer, Some(PartKind::Compute), 1),
            ]
        );
        assert_eq!(parts[0].commands, ["in 0", "in 1"]);
        assert!(parts[1].commands.is_empty());
        assert_eq!(parts[2].commands, ["out 0"]);
    }

    #[test]
    fn an_empty_part_is_left_out_and_the_chain_closes() {
        for (stage_in, compute, stage_out, expect) in [
            (0, false, 0, vec![]),
            (0, true, 0, vec![(PartKind::Compute, None)]),
            (1, false, 0, vec![(PartKind::StageIn, None)]),
            (0, true, 1, vec![(PartKind::Compute, None), (PartKind::StageOut, Some(PartKind::Compute))]),
            (1, true, 0, vec![(PartKind::StageIn, None), (PartKind::Compute, Some(PartKind::StageIn))]),
            (1, false, 1, vec![(PartKind::StageIn, None), (PartKind::StageOut, Some(PartKind::StageIn))]),
        ] {
            let parts = plan(&directives(stage_in, compute, stage_out));
            assert_eq!(parts.iter().map(|p| (p.kind, p.after_ok)).collect::<Vec<_>>(), expect);
        }
    }

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

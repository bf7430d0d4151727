//! Decides whether a script ended well, from the record that slurmctld shows of its job.
//!
//! Slurm requests the stage-out of every job that began, also of one that was cancelled, lost its node or runs again.
//! At that moment the state is often still `COMPLETING` with the exit code `0:0`, which a cancelled job has as well.

use super::scontrol::{ShownJob, ended};
use std::time::Duration;

/// Longest polling of a changing state or a silent slurmctld, while the epilogs of all nodes run. A guess.
const WAIT_MAX: Duration = Duration::from_secs(600);

/// The end of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The job ended with 0: its results are staged out.
    Well,
    /// The job failed or was stopped, for this reason: its results stay.
    Badly(String),
    /// Slurm runs the job again: its results stay.
    Again,
    /// The state still changes: poll again.
    Moving,
    /// Slurm does not report the end, for this reason: its results stay, and the owner decides.
    Unknown(String),
}

/// The end of a script after `waited`; `found` is `None` if slurmctld does not answer.
///
/// Only an end that Slurm reports as such is a success. While Slurm waits for our stage-out, `STAGE_OUT` hides the
/// final state, but the exit code is that of the end: a job that is stopped by Slurm has a signal or a status in it.
pub(super) fn ending(found: Option<&ShownJob>, waited: Duration) -> Ending {
    let Some(found) = found else {
        let silent = "slurmctld does not answer".to_owned();
        return if waited < WAIT_MAX { Ending::Moving } else { Ending::Unknown(silent) };
    };
    let Some(state) = found.state.as_deref() else {
        return Ending::Unknown("Slurm has no record of the job any more".into());
    };
    match (state, found.exit_code.as_deref()) {
        ("COMPLETED" | "STAGE_OUT", Some("0:0")) => Ending::Well,
        ("COMPLETED" | "STAGE_OUT" | "FAILED", Some(code)) => Ending::Badly(format!("the script {}", ended(code))),
        ("PENDING" | "REQUEUED" | "REQUEUE_FED" | "REQUEUE_HOLD" | "SPECIAL_EXIT", _) => Ending::Again,
        _ if found.is_over() => Ending::Badly(format!("in Slurm it is {state}")),
        ("COMPLETING" | "RUNNING" | "CONFIGURING" | "SUSPENDED" | "STOPPED" | "RESIZING" | "SIGNALING", _)
            if waited < WAIT_MAX =>
        {
            Ending::Moving
        }
        (_, code) => {
            let code = code.map(|code| format!(" with exit code {code}")).unwrap_or_default();
            Ending::Unknown(format!("Slurm still reports {state}{code}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [S-360]
    #[test]
    fn only_an_end_that_slurm_reports_as_good_is_one() {
        use Ending::{Again, Badly, Moving, Unknown, Well};
        let (soon, late) = (Duration::ZERO, WAIT_MAX);
        let of = |state: &str, code: &str, waited| {
            let exit_code = (!code.is_empty()).then(|| code.to_owned());
            ending(Some(&ShownJob { state: Some(state.to_owned()), exit_code, ..ShownJob::default() }), waited)
        };
        for (state, code) in [("COMPLETED", "0:0"), ("STAGE_OUT", "0:0")] {
            assert_eq!(of(state, code, soon), Well, "{state} {code}");
        }
        let bad = [
            ("COMPLETED", "3:0", "the script ended with status 3"),
            ("STAGE_OUT", "3:0", "the script ended with status 3"),
            ("STAGE_OUT", "0:15", "the script was ended by signal 15"),
            ("FAILED", "1:0", "the script ended with status 1"),
            ("CANCELLED", "0:0", "in Slurm it is CANCELLED"),
            ("CANCELLED", "0:15", "in Slurm it is CANCELLED"),
            ("TIMEOUT", "0:0", "in Slurm it is TIMEOUT"),
            ("NODE_FAIL", "0:0", "in Slurm it is NODE_FAIL"),
            ("PREEMPTED", "0:0", "in Slurm it is PREEMPTED"),
            ("OUT_OF_MEMORY", "0:125", "in Slurm it is OUT_OF_MEMORY"),
            ("DEADLINE", "0:0", "in Slurm it is DEADLINE"),
            ("BOOT_FAIL", "0:0", "in Slurm it is BOOT_FAIL"),
            ("REVOKED", "0:0", "in Slurm it is REVOKED"),
        ];
        for (state, code, why) in bad {
            assert_eq!(of(state, code, soon), Badly(why.into()), "{state} {code}");
        }
        for state in ["PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT"] {
            assert_eq!(of(state, "0:0", soon), Again, "{state}");
        }
        // A job is also COMPLETING with 0:0 just after it was cancelled.
        for state in ["COMPLETING", "RUNNING", "CONFIGURING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING"] {
            assert_eq!(of(state, "0:0", soon), Moving, "{state}");
            assert!(matches!(of(state, "0:0", late), Unknown(_)), "{state}");
        }
        for (state, code) in [("COMPLETED", ""), ("STAGE_OUT", ""), ("A_STATE_OF_LATER", "0:0")] {
            assert!(!matches!(of(state, code, late), Well | Moving), "{state} {code}");
        }
        assert!(matches!(ending(Some(&ShownJob::default()), soon), Unknown(_)), "Slurm has forgotten it");
        assert_eq!(ending(None, soon), Moving);
        assert!(matches!(ending(None, WAIT_MAX), Unknown(_)), "silence is no success");
    }
}

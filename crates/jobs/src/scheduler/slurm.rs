//! Slurm without hooks: three calls of `sbatch`.

use super::{PartStatus, Scheduler, ScriptToEstimate, Submission, status};
use crate::queue::{Error, ask};
use crate::request::{Ending, PartKind};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The Slurm that the commands on this machine reach.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slurm;

impl Scheduler for Slurm {
    fn submit(&self, part: &Submission<'_>) -> Vec<String> {
        let mut words: Vec<String> = vec!["sbatch".into(), "--parsable".into(), format!("--job-name={}", part.name)];
        if let Some(after) = part.after {
            words.push(format!("--dependency=afterok:{after}"));
            // Without this option, a part would wait for ever if its stage-in failed.
            words.push("--kill-on-invalid-dep=yes".into());
        }
        if part.kind != PartKind::Compute {
            words.push(format!("--partition={}", part.data_queue));
            words.push("--ntasks=1".into());
            words.push(format!("--output={}", part.log.display()));
        }
        words.extend(part.cores.map(|n| format!("--ntasks={n}")));
        words.extend(part.delay_s.map(|s| format!("--begin=now+{s}")));
        // Slurm counts whole minutes.
        words.extend(part.walltime_s.map(|s| format!("--time={}", s.div_ceil(60).max(1))));
        words.extend(part.parameters.iter().flatten().cloned());
        words
    }

    fn start_of(&self, script: &ScriptToEstimate<'_>) -> Option<u64> {
        let words = ask_start(script);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env("SLURM_TIME_FORMAT", "%s");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().ok()?;
        child.stdin.take()?.write_all(script.text).ok()?;
        let done = child.wait_with_output().ok()?;
        read_start(&String::from_utf8_lossy(&[done.stdout, done.stderr].concat()))
    }

    fn cancel(&self, ids: &[String]) -> Vec<String> {
        [&["scancel".to_string()], ids].concat()
    }

    fn look(&self, id: &str) -> Result<PartStatus, Error> {
        let answer = ask("scontrol", &["-o", "show", "job", id], &[]);
        status(answer, ("Invalid job id", "Slurm has no record of its end any more"), |text| Ok(parse(text)))
    }
}

fn ask_start(script: &ScriptToEstimate<'_>) -> Vec<String> {
    let mut words: Vec<String> = vec!["sbatch".into(), "--test-only".into()];
    words.extend(script.cores.map(|n| format!("--ntasks={n}")));
    words.extend(script.walltime_s.map(|s| format!("--time={}", s.div_ceil(60).max(1))));
    words
}

/// `sbatch: Job 5 to start at 1795275396 using 4 processors on nodes n1 in partition batch`; in milliseconds.
fn read_start(said: &str) -> Option<u64> {
    let at = said.split("to start at ").nth(1)?.split_whitespace().next()?;
    at.parse::<u64>().ok().map(|s| s * 1000)
}

fn parse(text: &str) -> PartStatus {
    let (state, code) = (field(text, "JobState").unwrap_or_default(), field(text, "ExitCode").unwrap_or_default());
    let path = |name| field(text, name).map(PathBuf::from);
    PartStatus { ending: ending(&state, &code), out: path("StdOut"), err: path("StdErr") }
}

/// The end of a job in this state, with its exit code `STATUS:SIGNAL`; `None` if it may go on.
pub(crate) fn ending(state: &str, code: &str) -> Option<Ending> {
    let (status, signal) = code.split_once(':').unwrap_or((code, "0"));
    let (status, signal) = (status.parse().unwrap_or(0), signal.parse().unwrap_or(0));
    match state {
        "COMPLETED" => Some(Ending::Exited { code: 0 }),
        "CANCELLED" | "REVOKED" => Some(Ending::Cancelled),
        "TIMEOUT" | "DEADLINE" => Some(Ending::Lost { cause: format!("it ran longer than it may ({state})") }),
        "FAILED" if signal > 0 => Some(Ending::Signalled { signal }),
        "FAILED" => Some(Ending::Exited { code: if status == 0 { 1 } else { status } }),
        "NODE_FAIL" | "PREEMPTED" | "BOOT_FAIL" | "OUT_OF_MEMORY" => Some(Ending::Lost { cause: state.into() }),
        _ => None,
    }
}

/// A field of `scontrol -o`: up to the next field name. Values may contain blanks.
fn field(text: &str, name: &str) -> Option<String> {
    let start = format!(" {name}=");
    let at = text.find(&start)? + start.len();
    let mut words = text[at..].trim_end().split(' ');
    let mut value = words.next()?.to_string();
    for word in words.take_while(|word| !word.contains('=')) {
        value = value + " " + word;
    }
    Some(value.trim_end().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn each_part_has_its_words() {
        let parameters = [vec!["-t".to_string(), "30".to_string()]];
        let mut part = Submission {
            name: "n",
            kind: PartKind::StageIn,
            after: None,
            data_queue: "dataxfer",
            cores: None,
            walltime_s: None,
            delay_s: Some(90),
            log: Path::new("/h/log"),
            parameters: &parameters,
            variables: &[],
        };
        assert_eq!(
            Slurm.submit(&part).join(" "),
            "sbatch --parsable --job-name=n --partition=dataxfer --ntasks=1 --output=/h/log --begin=now+90 -t 30"
        );
        part = Submission {
            kind: PartKind::Compute,
            after: Some("7"),
            cores: Some(4),
            walltime_s: Some(61),
            delay_s: None,
            parameters: &[],
            ..part
        };
        assert_eq!(
            Slurm.submit(&part).join(" "),
            "sbatch --parsable --job-name=n --dependency=afterok:7 --kill-on-invalid-dep=yes --ntasks=4 --time=2"
        );
        let script = ScriptToEstimate {
            text: b"",
            cores: Some(4),
            walltime_s: Some(61),
            cores_in_all: 4,
            walltime_in_all_s: 61,
        };
        assert_eq!(ask_start(&script).join(" "), "sbatch --test-only --ntasks=4 --time=2");
        let said = "sbatch: Job 5 to start at 1795275396 using 4 processors on nodes n1 in partition batch\n";
        assert_eq!((read_start(said), read_start("sbatch: error")), (Some(1_795_275_396_000), None));
        assert_eq!(Slurm.read_id("12;c\n").as_deref(), Some("12"));
        assert_eq!(Slurm.read_id("sbatch: error\n"), None);
    }

    #[test]
    fn ends_are_read_as_scontrol_writes_them() {
        let line = |state: &str, code: &str| {
            format!(
                "JobId=7 JobName=x JobState={state} Reason=None ExitCode={code} StdErr=/h/a b.out StdIn=/dev/null StdOut=/h/a b.out Power=\n"
            )
        };
        let look = parse(&line("FAILED", "3:0"));
        assert_eq!((look.ending, look.out), (Some(Ending::Exited { code: 3 }), Some("/h/a b.out".into())));
        assert_eq!(parse(&line("COMPLETED", "0:0")).ending, Some(Ending::Exited { code: 0 }));
        assert_eq!(parse(&line("CANCELLED", "0:15")).ending, Some(Ending::Cancelled));
        assert_eq!(parse(&line("FAILED", "0:9")).ending, Some(Ending::Signalled { signal: 9 }));
        assert_eq!(parse(&line("PENDING", "0:0")).ending, None);
    }
}

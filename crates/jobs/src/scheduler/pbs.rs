//! PBS: three calls of `qsub`. PBS itself deletes the dependents of a failed part.

use super::{PartStatus, Scheduler, ScriptToEstimate, Submission, status};
use crate::queue::{Error, ask, pbs};
use crate::request::{Ending, PartKind};
use object::now_ms;
use serde_json::Value;
use std::path::PathBuf;

/// The PBS that the commands on this machine reach.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pbs;

/// Names longer than this are refused by older servers.
const NAME_CHARS_MAX: usize = 15;

impl Scheduler for Pbs {
    fn submit(&self, part: &Submission<'_>) -> Vec<String> {
        let mut words: Vec<String> = vec!["qsub".into(), "-N".into(), name(part.name)];
        let mut option = |option: &str, value: String| words.extend([option.to_string(), value]);
        if let Some(after) = part.after {
            option("-W", format!("depend=afterok:{after}"));
        }
        if part.kind != PartKind::Compute {
            option("-q", part.data_queue.to_string());
            option("-j", "oe".into());
            option("-o", part.log.display().to_string());
        }
        if let Some(s) = part.delay_s {
            option("-a", stamp(now_ms() / 1000 + s));
        }
        if let Some(cores) = part.cores {
            option("-l", format!("select=1:ncpus={cores}"));
        }
        if let Some(s) = part.walltime_s {
            option("-l", format!("walltime={:02}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60));
        }
        // Only the name is passed: the value comes from the environment of `qsub`.
        let names: Vec<&str> = part.variables.iter().map(|(name, _)| name.as_str()).collect();
        if !names.is_empty() {
            words.extend(["-v".to_string(), names.join(",")]);
        }
        words.extend(part.parameters.iter().flatten().cloned());
        words
    }

    /// `qsub` reads the time of `-a` in the time zone that it runs in.
    fn environment(&self, part: &Submission<'_>) -> &'static [(&'static str, &'static str)] {
        if part.delay_s.is_some() { &[("TZ", "UTC")] } else { &[] }
    }

    /// Estimated from the server's planned starts, since PBS gives no estimate for a job before its submission.
    fn start_of(&self, script: &ScriptToEstimate<'_>) -> Option<u64> {
        let jobs = ask("qstat", &["-f", "-F", "json"], &[]).ok()?;
        let nodes = ask("pbsnodes", &["-a", "-F", "json"], &[]).ok()?;
        let length_ms = script.walltime_in_all_s.saturating_mul(1000);
        pbs::start_of_another(&jobs, &nodes, now_ms(), script.cores_in_all, length_ms)
    }

    fn cancel(&self, ids: &[String]) -> Vec<String> {
        [&["qdel".to_string()], ids].concat()
    }

    fn look(&self, id: &str) -> Result<PartStatus, Error> {
        let answer = ask("qstat", &["-x", "-f", "-F", "json", id], &[]);
        status(answer, ("Unknown Job", "PBS has no record of its end any more"), |text| parse(text, id))
    }
}

/// `CCYYMMDDhhmm.SS` in UTC.
fn stamp(seconds: u64) -> String {
    let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
    let digits: String =
        humantime::format_rfc3339_seconds(at).to_string().chars().filter(char::is_ascii_digit).collect();
    format!("{}.{}", &digits[..12], &digits[12..])
}

/// A name that every server takes: it begins with a letter and holds no blank.
fn name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "_.-".contains(c) { c } else { '_' };
    let name: String = name.chars().map(plain).collect();
    let name = if name.starts_with(|c: char| c.is_ascii_alphabetic()) { name } else { format!("j{name}") };
    name.chars().take(NAME_CHARS_MAX).collect()
}

fn parse(text: &str, id: &str) -> Result<PartStatus, Error> {
    let strange = || Error::Answer { command: "qstat".into(), line: text.chars().take(200).collect() };
    let answer: Value = serde_json::from_str(text).map_err(|_| strange())?;
    let job = answer["Jobs"].get(id).ok_or_else(strange)?;
    let over = matches!(job["job_state"].as_str(), Some("F" | "X" | "C"));
    let ending = over.then(|| match job["Exit_status"].as_i64() {
        Some(code @ 0..=255) => Ending::Exited { code: code as i32 },
        // 128 or 256 and the signal, by version and shell.
        Some(code @ 257..=320) => Ending::Signalled { signal: (code - 256) as i32 },
        Some(code) => Ending::Lost { cause: format!("PBS reports exit status {code}") },
        // Deleted before it ran.
        None => Ending::Cancelled,
    });
    let path = |name: &str| {
        let text = job[name].as_str()?;
        Some(PathBuf::from(text.split_once(':').map_or(text, |(_, path)| path)))
    };
    let joined = job["Join_Path"] == "oe";
    let out = path("Output_Path");
    Ok(PartStatus { ending, err: if joined { out.clone() } else { path("Error_Path") }, out })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_is_not_due_has_its_time_as_qsub_reads_it() {
        assert_eq!(stamp(1_795_266_005), "202611211300.05");
        let part = Submission {
            name: "n",
            kind: PartKind::StageIn,
            after: None,
            data_queue: "dataxfer",
            cores: None,
            walltime_s: None,
            delay_s: Some(60),
            log: std::path::Path::new("/h/log"),
            parameters: &[],
            variables: &[],
        };
        let words = Pbs.submit(&part).join(" ");
        assert!(words.starts_with("qsub -N n -q dataxfer -j oe -o /h/log -a 20"), "{words}");
        assert!(!Pbs.submit(&Submission { delay_s: None, ..part }).contains(&"-a".to_string()));
    }

    #[test]
    fn names_suit_every_server() {
        assert_eq!(name("my job.sh"), "my_job.sh");
        assert_eq!(name("7days-of-assembly-in-one"), "j7days-of-assem");
    }

    #[test]
    fn ends_are_read_as_qstat_writes_them() {
        let job = |state: &str, rest: &str| {
            let text = format!(
                r#"{{"Jobs":{{"7.s":{{"job_state":"{state}","Output_Path":"h:/a/o","Error_Path":"h:/a/e"{rest}}}}}}}"#
            );
            parse(&text, "7.s").unwrap()
        };
        assert_eq!(job("F", r#","Exit_status":0"#).ending, Some(Ending::Exited { code: 0 }));
        assert_eq!(job("F", r#","Exit_status":271"#).ending, Some(Ending::Signalled { signal: 15 }));
        assert_eq!(job("F", "").ending, Some(Ending::Cancelled));
        let running = job("R", r#","Join_Path":"oe""#);
        assert_eq!((running.ending, running.err), (None, Some("/a/o".into())));
        assert!(parse("{}", "7.s").is_err());
    }
}

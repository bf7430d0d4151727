//! Runs the checks, each in a separate process with a deadline.

use super::finding::{CheckResult, Finding, Subject};
use crate::failure::Result;
use object::workers::within;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Timeout of one check; longer than the timeout of the state server within it.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Most concurrent checks.
const SIDE_BY_SIDE: usize = 32;

/// Checks the subjects, and all further ones that their results name.
pub fn make(first: Vec<Subject>) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let mut devices: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    let mut next = first;
    while !next.is_empty() {
        let now: Vec<_> = next.drain(..next.len().min(SIDE_BY_SIDE)).collect();
        for (subject, seen) in now.iter().zip(side_by_side(&now)?) {
            let Some(seen) = seen else {
                let what = format!("no answer within {} s", TIMEOUT.as_secs());
                findings.push(
                    Finding::failure(&subject.name(), what)
                        .so("operations of a daemon hang here as well")
                        .next("look at the device, the mount or the server"),
                );
                continue;
            };
            findings.extend(seen.findings);
            next.extend(seen.further);
            if let Some(device) = seen.device {
                devices.entry(device).or_default().push(subject.name().trim_start_matches("target ").to_owned());
            }
        }
    }
    let shared = devices.values().filter(|names| names.len() > 1).map(|names| {
        let what = format!("{} lie on one file system", names.join(", "));
        Finding::warning("targets", what)
            .so("one device serves them all: stripes are no faster, and a mirror among them does not outlive it")
            .next("give each target a device of its own, unless this is a trial")
    });
    findings.extend(shared);
    Ok(findings)
}

fn side_by_side(subjects: &[Subject]) -> Result<Vec<Option<CheckResult>>> {
    let program = std::env::current_exe()?;
    let mut children = Vec::new();
    for subject in subjects {
        let word = serde_json::to_string(subject).map_err(std::io::Error::from)?;
        let mut command = Command::new(&program);
        command.args(["doctor", "--look", &word]).current_dir("/");
        // A hanging child must not keep the pipes of our caller open.
        children.push(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?);
    }
    let read = |child: &mut Child| {
        let out = child.stdout.take();
        move || {
            let mut text = String::new();
            // Reads one line, not to the end of the stream: a child with a hanging thread does not end.
            BufReader::new(out?).read_line(&mut text).ok()?;
            serde_json::from_str(&text).ok()
        }
    };
    let seen = within(TIMEOUT, "look", children.iter_mut().map(read));
    children.iter_mut().for_each(end);
    Ok(seen.into_iter().map(Option::flatten).collect())
}

/// Kills a late child. A child that hangs in a device ends once the device answers.
fn end(child: &mut Child) {
    if !matches!(child.try_wait(), Ok(Some(_))) {
        let _ = child.kill();
        let _ = child.try_wait();
    }
}

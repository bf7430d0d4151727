//! `entrepot doctor`: checks this machine and the surroundings of a volume for faults.
//!
//! Every check runs in a separate process with a deadline. A check that hangs in a device cannot be ended, and as a
//! thread it would keep this process from ending.

mod around;
mod directory;
mod finding;
mod gluster;
mod looks;
mod machine;
mod volume;

use crate::connect::Context;
use crate::failure::Result;
use crate::shown::{self, Output};
use clap::Args;
use finding::{Finding, Subject, Weight};
use node::control::{Problem, exit, find, mounts, socket_of};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Check this machine for faults that would make a volume fail, run slowly or lose data
///
/// It checks kernel and FUSE, limits, the file systems of namespace, state and targets (space, inodes, permissions,
/// clocks), and files with secrets. It also checks the server of the state, the endpoint, programs that the volume
/// calls, and the daemon if one runs. Every condition that `up` would refuse is a failure. Nothing is changed. A check
/// without an answer ends after 15 seconds and is reported. Without a volume, named or mounted, only the machine is
/// checked. The exit code is 1 if there is a failure; warnings do not change it.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot doctor                              the mounted volume, and this machine
  entrepot doctor scratch/volume.toml          before its first start
  entrepot doctor --output json | jq '.findings[] | select(.state != \"ok\")'")]
pub struct Doctor {
    /// The volume's file.
    file: Option<PathBuf>,
    /// Format of the output.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
    /// This is the process that makes one check.
    #[arg(long, hide = true)]
    look: Option<String>,
}

/// All findings in JSON.
#[derive(Serialize)]
struct Findings<'a> {
    findings: &'a [Finding],
    failures: u64,
    warnings: u64,
}

impl Doctor {
    pub fn run(self, context: &Context) -> Result<u8> {
        if let Some(subject) = &self.look {
            let subject: Subject = serde_json::from_str(subject).map_err(std::io::Error::from)?;
            shown::json_line(&subject.look())?;
            return Ok(0);
        }
        let findings = looks::make(self.begin(context)?)?;
        let of = |weight| findings.iter().filter(|finding| finding.state == weight).count() as u64;
        let (failures, warnings) = (of(Weight::Failure), of(Weight::Warning));
        shown::value(self.output, &Findings { findings: &findings, failures, warnings }, |_| {
            let looks = shown::count(findings.len() as u64, "finding");
            let (failed, warned) = (shown::count(failures, "failure"), shown::count(warnings, "warning"));
            let text: String = findings.iter().map(Finding::text).collect();
            format!("{text}{looks}: {failed}, {warned}\n")
        })?;
        Ok(if failures == 0 { 0 } else { exit::FAILED })
    }

    /// First subjects of checks: the machine, and the volume that was named or is mounted.
    fn begin(&self, context: &Context) -> Result<Vec<Subject>> {
        let named = self.file.clone().or_else(|| context.named());
        let mounted = match &named {
            Some(place) => at_mount_point(place),
            None => match find(None, None) {
                Ok(found) => Some(found.state),
                Err(problem) if problem.exit_code == exit::NO_DAEMON => None,
                Err(problem) => return Err(problem.into()),
            },
        };
        let volume = match (mounted, named) {
            (Some(state), _) => Some(Subject::Mounted { socket: socket_of(&state) }),
            (None, Some(file)) => Some(Subject::Volume { file: absolute(&file)? }),
            (None, None) => None,
        };
        Ok([Subject::Machine].into_iter().chain(volume).collect())
    }
}

/// State directory of the volume mounted at `place`. Compares names only, since any access may hang.
fn at_mount_point(place: &Path) -> Option<PathBuf> {
    let place: PathBuf = std::path::absolute(place).ok()?.components().collect();
    mounts().into_iter().find(|mount| mount.mount_point.as_ref() == Some(&place)).map(|mount| mount.state)
}

fn absolute(file: &Path) -> Result<PathBuf> {
    let wrong = |error: std::io::Error| Problem::wrong(format!("{}: {error}", file.display()));
    Ok(std::path::absolute(file).map_err(wrong)?)
}

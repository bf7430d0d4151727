//! Requests of the hooks and the command line to the daemon: the bodies of `slurm.*` and of their answers.

use super::hooked::Job;
use super::transfer::Transfer;
use crate::request::{self, JobId, JobState, PartKind, Protected, Script, Staging};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// `slurm.setup`: Slurm sets up a job that has staging directives. The answer is empty. Slurm may repeat the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetUp {
    /// Number in Slurm.
    pub job: JobId,
    /// User id of the owner.
    pub uid: u32,
    /// The group of the user.
    pub gid: u32,
    /// The script as Slurm keeps it.
    pub script: Script,
    /// The environment in which it was submitted, as Slurm keeps it.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// `SLURM_CONF` of slurmctld.
    pub conf: Option<PathBuf>,
}

/// `slurm.part`: a user submits a data part of a job. The answer is empty, or a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnePart {
    /// User id of the submitter.
    pub uid: u32,
    /// The job's number here.
    pub job: JobId,
    /// Stage-in, compute or stage-out.
    pub kind: PartKind,
}

/// Progress of a step. Poll until it is done or has failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "standing")]
pub enum Standing {
    /// The step is in progress.
    UnderWay,
    /// The step succeeded.
    Done {
        /// Remark for the user; may be empty.
        note: String,
    },
    /// The step failed.
    Failed {
        /// Cause, for the user.
        cause: String,
    },
}

/// `slurm.log`: output of a staging command of a job. The answer is `jobs::request::LogPiece`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Log {
    /// Index of the command, from 0.
    pub command: usize,
    /// Part of the output, of stage-in or stage-out.
    #[serde(flatten)]
    pub piece: request::Log,
}

/// One line of `slurm.list` and of `scontrol show bbstat`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Number in Slurm.
    pub job: JobId,
    /// The host that keeps the job, on a volume of several nodes.
    pub host: Option<String>,
    /// Name of the owner.
    pub user: String,
    /// Current state of the job.
    pub phase: JobState,
    /// Time of the entry into that state, in milliseconds since 1970.
    pub since_ms: u64,
    /// Current activity, in a few words that name no file.
    pub doing: String,
}

/// The answer to `slurm.show`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Detail {
    /// Details of the job.
    pub job: Job,
    /// Transfers of the job, stage-in first.
    pub transfers: Vec<Transfer>,
    /// Protection of each of its input files, while it waits or runs.
    #[serde(default)]
    pub protection: Vec<Protected>,
    /// Progress of the running transfers.
    pub staging: Option<Staging>,
}

/// Environment of a job, as a hook received it.
pub type Environment = BTreeMap<String, String>;

/// Line that `job_submit.lua` inserts below the first line of a script, so that Slurm passes the script to the
/// plug-in.
pub const MARK: &str = "#STAGE entrepot";

/// The script as its owner wrote it: without our mark, so that line numbers are those of the owner.
pub fn original(script: &[u8]) -> Vec<u8> {
    let mut lines = script.split_inclusive(|b| *b == b'\n');
    let mut original = lines.next().unwrap_or_default().to_vec();
    let mut marked = false;
    for line in lines {
        if !marked && line.trim_ascii() == MARK.as_bytes() {
            marked = true;
        } else {
            original.extend_from_slice(line);
        }
    }
    original
}

/// Reads the file `environment` that Slurm keeps beside a job's script: a count, then the variables, each with a NUL.
/// Variables that are not UTF-8 are left out.
pub fn read_environment(bytes: &[u8]) -> Environment {
    let variables = bytes.get(4..).unwrap_or_default().split(|b| *b == 0);
    let pair = |variable: &[u8]| {
        let (name, value) = std::str::from_utf8(variable).ok()?.split_once('=')?;
        Some((name.to_string(), value.to_string()))
    };
    variables.filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_is_taken_out_once_and_nothing_else() {
        let script = b"#!/bin/sh\n#STAGE entrepot\n#STAGEIN a b\n#STAGE entrepot\nx";
        assert_eq!(original(script), b"#!/bin/sh\n#STAGEIN a b\n#STAGE entrepot\nx");
        assert_eq!(original(b"#!/bin/sh\nx"), b"#!/bin/sh\nx");
        assert_eq!(original(b""), b"");
    }

    #[test]
    fn the_environment_is_read_as_slurm_writes_it() {
        let read = read_environment(b"\x03\0\0\0HOME=/h\0X=a=b\0BAD\xff=1\0");
        assert_eq!(read.into_iter().collect::<Vec<_>>(), [("HOME".into(), "/h".into()), ("X".into(), "a=b".into())]);
        assert!(read_environment(b"").is_empty());
    }
}

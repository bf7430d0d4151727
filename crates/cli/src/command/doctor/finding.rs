//! Subjects of `doctor`, and its findings.

use super::{around, directory, gluster, machine, volume};
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Weight {
    Ok,
    Warning,
    Failure,
}

/// Result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub state: Weight,
    pub subject: String,
    pub what: String,
    /// Consequence; empty without a problem.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// Remedy; empty without a problem.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub change: String,
}

impl Finding {
    pub fn ok(subject: &str, what: impl Into<String>) -> Finding {
        Finding::new(Weight::Ok, subject, what)
    }

    pub fn warning(subject: &str, what: impl Into<String>) -> Finding {
        Finding::new(Weight::Warning, subject, what)
    }

    pub fn failure(subject: &str, what: impl Into<String>) -> Finding {
        Finding::new(Weight::Failure, subject, what)
    }

    fn new(state: Weight, subject: &str, what: impl Into<String>) -> Finding {
        Finding { state, subject: subject.into(), what: what.into(), why: String::new(), change: String::new() }
    }

    /// Adds the consequence.
    pub fn so(self, why: impl Into<String>) -> Finding {
        Finding { why: why.into(), ..self }
    }

    /// Adds the next step.
    pub fn next(self, change: impl Into<String>) -> Finding {
        Finding { change: change.into(), ..self }
    }

    pub fn text(&self) -> String {
        let state = match self.state {
            Weight::Ok => "ok",
            Weight::Warning => "warning",
            Weight::Failure => "FAILURE",
        };
        let mut text = format!("{state:8} {}: {}\n", self.subject, self.what);
        for (head, line) in [("so:  ", &self.why), ("next:", &self.change)] {
            if !line.is_empty() {
                let _ = writeln!(text, "           {head} {line}");
            }
        }
        text
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    Namespace,
    State,
    Target,
}

/// Subject of one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Subject {
    /// This machine, without a volume.
    Machine,
    /// A mounted volume; its daemon returns the path of the file.
    Mounted {
        socket: PathBuf,
    },
    /// Content of the volume's file, and further subjects that follow from it.
    Volume {
        file: PathBuf,
    },
    /// Checks that `up` makes before its start.
    Refusals {
        file: PathBuf,
    },
    Directory {
        name: String,
        role: Role,
        path: PathBuf,
    },
    /// Directories that several nodes share.
    Shared {
        directories: Vec<PathBuf>,
    },
    /// A file that other users must not be able to read.
    Secret {
        key: String,
        path: PathBuf,
    },
    Server {
        file: PathBuf,
    },
    Endpoint {
        listen: SocketAddr,
        has_token: bool,
        has_certificate: bool,
        socket: PathBuf,
    },
    Daemon {
        socket: PathBuf,
    },
}

/// Result of the check of one subject.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CheckResult {
    pub findings: Vec<Finding>,
    /// Subjects to be checked next.
    pub further: Vec<Subject>,
    /// Device number of a target's file system.
    pub device: Option<u64>,
}

impl From<Vec<Finding>> for CheckResult {
    fn from(findings: Vec<Finding>) -> CheckResult {
        CheckResult { findings, ..CheckResult::default() }
    }
}

impl Subject {
    /// Name in findings.
    pub fn name(&self) -> String {
        match self {
            Subject::Machine => "machine".into(),
            Subject::Volume { .. } | Subject::Refusals { .. } => "volume.toml".into(),
            Subject::Mounted { .. } | Subject::Daemon { .. } => "daemon".into(),
            Subject::Directory { name, .. } => name.clone(),
            Subject::Shared { .. } => "shared file systems".into(),
            Subject::Secret { key, .. } => format!("`{key}`"),
            Subject::Server { .. } => "state".into(),
            Subject::Endpoint { .. } => "endpoint".into(),
        }
    }

    /// Checks the subject. May hang.
    pub fn look(&self) -> CheckResult {
        match self {
            Subject::Machine => machine::look().into(),
            Subject::Mounted { socket } => volume::of_daemon(socket),
            Subject::Volume { file } => volume::look(file),
            Subject::Refusals { file } => volume::refusals(file).into(),
            Subject::Directory { name, role, path } => directory::look(name, *role, path),
            Subject::Shared { directories } => gluster::look(directories).into(),
            Subject::Secret { key, path } => around::secret(key, path).into(),
            Subject::Server { file } => around::server(file).into(),
            Subject::Endpoint { listen, has_token, has_certificate, socket } => {
                around::endpoint(*listen, *has_token, *has_certificate, socket).into()
            }
            Subject::Daemon { socket } => around::daemon(socket).into(),
        }
    }
}

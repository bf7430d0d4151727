//! Answers of the daemon at one moment.

use crate::listed::{of_runner, of_slurm};
use endpoint::Job;
use jobs::request::{JobSummary, List, SilentHosts};
use jobs::slurm::wire::Summary;
use node::control::answers::read;
use node::control::{Client, Problem, Request, Top};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// Timeout of the daemon's answers.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Client of the daemon, which keeps its connection until an error.
pub struct Daemon {
    socket: PathBuf,
    client: Option<Client>,
}

/// Answers of one round.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Moment {
    #[serde(flatten)]
    pub top: Top,
    /// Jobs that are not over; nothing if they were not requested.
    pub jobs: Option<Vec<Job>>,
    /// Nodes that did not report their jobs.
    #[serde(skip)]
    pub silent: Vec<String>,
}

impl Moment {
    /// Prints the note on standard error.
    pub fn warn(&self) {
        if let Some(note) = self.note() {
            eprintln!("note: {note}");
        }
    }

    /// Note of the hosts that did not answer.
    pub fn note(&self) -> Option<String> {
        (!self.silent.is_empty())
            .then(|| format!("{} did not answer; jobs there are not shown", self.silent.join(", ")))
    }
}

impl Daemon {
    pub fn new(socket: PathBuf) -> Daemon {
        Daemon { socket, client: None }
    }

    /// Queries the daemon. After a failure the next call begins with a connection.
    pub fn ask(&mut self, with_jobs: bool) -> Result<Moment, Problem> {
        let mut client = match self.client.take() {
            Some(client) => client,
            None => Client::connect(&self.socket)?,
        };
        client.set_timeout(Some(TIMEOUT))?;
        let top = read(client.ask(&Request::Top {}, &mut |_| {})?)?;
        let mut moment = Moment { top, ..Moment::default() };
        if with_jobs {
            let mut silent = Vec::new();
            let mut list = |command: &str| {
                client.request(command, List { all: false }, &mut |note| {
                    silent.extend(read::<SilentHosts>(note).unwrap_or_default().silent);
                })
            };
            let own = read::<Vec<JobSummary>>(list("job.list")?)?.into_iter().map(of_runner);
            let of_slurm = read::<Vec<Summary>>(list("slurm.list")?)?.into_iter().map(of_slurm);
            moment.jobs = Some(own.chain(of_slurm).collect());
            silent.sort();
            silent.dedup();
            moment.silent = silent;
        }
        self.client = Some(client);
        Ok(moment)
    }
}

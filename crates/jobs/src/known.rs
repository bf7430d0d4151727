//! Table of the jobs of all nodes of a volume: the node of each job, and the files that it needs.
//!
//! The table is kept in records that all nodes share, so it outlives each node. Each node keeps its own jobs.

use crate::queue::InputsOf;
use crate::request::{Caller, JobId, Kind};
use meta::records;
use meta::state::{KNOWN_JOBS as KIND, State};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Kind of the records in which a node keeps its runner's jobs.
pub(crate) const OF_RUNNER: &str = "job";
/// Longest age of the cached inputs of jobs elsewhere: they are read for each job of a queue.
const INPUTS_FOR: Duration = Duration::from_secs(5);

/// A job, as published to other nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownJob {
    /// Name under which its node receives calls.
    pub node: String,
    /// Host of that node.
    pub host: String,
    /// Kind of the records in which its node keeps the job.
    pub records: String,
    /// Number of the job in those records.
    pub id: JobId,
    /// User id of its owner.
    pub uid: u32,
    /// Queue of another scheduler in which the job waits, and its number there.
    pub queued: Option<(Kind, String)>,
    /// Staged input of the job, for readers of that queue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<PathBuf>,
    /// Files that must stay until the job is over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<PathBuf>,
}

impl KnownJob {
    fn key(&self) -> String {
        key(&self.node, &self.records, self.id)
    }

    /// Whether that user may see the job and act on it.
    pub fn is_open_to(&self, caller: Caller) -> bool {
        caller.uid == 0 || caller.uid == self.uid
    }
}

/// The key begins with the node, see [`KIND`].
fn key(node: &str, records: &str, id: JobId) -> String {
    format!("{node} {records} {:020}", id.0)
}

/// Jobs of all nodes.
pub struct KnownJobs {
    state: Arc<dyn State>,
    /// This node's name in calls.
    pub(crate) node: String,
    /// This node's host.
    pub(crate) host: String,
    /// Records of this node's jobs as written, by key.
    written: Mutex<BTreeMap<String, KnownJob>>,
    /// Records of other nodes' jobs, as last read.
    read: Mutex<Option<(Instant, Arc<Vec<KnownJob>>)>>,
}

impl KnownJobs {
    /// Opens the table for the node that receives calls under the name `node`.
    pub fn new(state: Arc<dyn State>, node: &str, host: &str) -> KnownJobs {
        let (node, host) = (node.to_owned(), host.to_owned());
        KnownJobs { state, node, host, written: Mutex::default(), read: Mutex::default() }
    }

    /// Publishes a job of this node.
    pub(crate) fn put(&self, known: KnownJob) -> object::Result<()> {
        let key = known.key();
        let mut written = self.written.lock();
        if written.get(&key) == Some(&known) {
            return Ok(());
        }
        records::put(&*self.state, KIND, &key, &known)?;
        written.insert(key, known);
        Ok(())
    }

    /// Removes a job of this node.
    pub(crate) fn remove(&self, records: &str, id: JobId) -> object::Result<()> {
        let key = key(&self.node, records, id);
        self.written.lock().remove(&key);
        self.state.record_remove(KIND, &key).map(drop)
    }

    /// Publishes all jobs that this node keeps in records of this kind, and removes the others.
    pub(crate) fn settle(&self, records: &str, jobs: impl Iterator<Item = KnownJob>) -> object::Result<()> {
        let mut there = BTreeSet::new();
        for job in jobs {
            there.insert(job.id);
            self.put(job)?;
        }
        let is_gone = |job: &KnownJob| job.node == self.node && job.records == records && !there.contains(&job.id);
        self.all()?.into_iter().filter(is_gone).try_for_each(|job| self.remove(records, job.id))
    }

    fn all(&self) -> object::Result<Vec<KnownJob>> {
        Ok(records::all(&*self.state, KIND)?.into_iter().map(|(_, job)| job).collect())
    }

    /// The jobs of the other nodes.
    pub fn elsewhere(&self) -> object::Result<Vec<KnownJob>> {
        Ok(self.all()?.into_iter().filter(|job| job.node != self.node).collect())
    }

    /// A job of another node, by the kind of its records and its number.
    pub fn find(&self, records: &str, id: JobId) -> object::Result<Option<KnownJob>> {
        Ok(self.elsewhere()?.into_iter().find(|job| job.id == id && job.records == records))
    }

    /// Owners of the jobs of other nodes, by kind of records and number.
    pub fn owners_elsewhere(&self) -> object::Result<BTreeMap<(String, JobId), u32>> {
        Ok(self.elsewhere()?.into_iter().map(|job| ((job.records, job.id), job.uid)).collect())
    }

    /// The paths in the volume that unfinished jobs of other nodes need.
    pub fn needed_elsewhere(&self) -> object::Result<Vec<PathBuf>> {
        Ok(self.elsewhere()?.into_iter().flat_map(|job| job.needs).collect())
    }

    /// Inputs staged by jobs of other nodes, by their numbers in a queue.
    pub fn inputs_elsewhere(self: &Arc<Self>, queue: Kind) -> InputsOf {
        let known = self.clone();
        Arc::new(move |id: &str| {
            let all = known.lately();
            let is_it =
                |job: &&KnownJob| job.queued.as_ref().is_some_and(|(kind, name)| (*kind, &**name) == (queue, id));
            all.iter().find(is_it).map(|job| job.inputs.clone()).unwrap_or_default()
        })
    }

    fn lately(&self) -> Arc<Vec<KnownJob>> {
        let mut read = self.read.lock();
        if let Some((_, all)) = read.as_ref().filter(|(at, _)| at.elapsed() < INPUTS_FOR) {
            return all.clone();
        }
        let all = match self.elsewhere() {
            Ok(all) => Arc::new(all),
            Err(error) => {
                tracing::debug!("jobs of other nodes cannot be listed now: {error}");
                read.as_ref().map(|(_, all)| all.clone()).unwrap_or_default()
            }
        };
        *read = Some((Instant::now(), all.clone()));
        all
    }
}

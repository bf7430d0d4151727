//! What the endpoint shows of this daemon: the volume as the store says it, and the jobs of the runner and of Slurm.

use crate::listed::{of_runner, of_slurm};
use crate::users;
use endpoint::{Job, Watched};
use jobs::request::JobSummary;
use jobs::slurm::wire::Summary;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::Arc;
use store::control::{Caller, Handler, Problem, Responder};
use store::daemon::{Core, Health};

/// What is watched.
pub struct Dashboard {
    /// The volume.
    pub core: Arc<Core>,
    /// What serves `job.*`, of all nodes.
    pub runner: Arc<dyn Handler>,
    /// What serves `slurm.*`, of all nodes.
    pub slurm: Arc<dyn Handler>,
}

impl Watched for Dashboard {
    fn metrics(&self) -> String {
        self.core.open_metrics()
    }

    fn health(&self) -> Health {
        self.core.health()
    }

    fn at_a_glance(&self, with_names: bool) -> Result<Value, Problem> {
        self.core.at_a_glance(with_names)
    }

    fn jobs(&self) -> Result<Vec<Job>, Problem> {
        let own = rows::<JobSummary>(&*self.runner, "job.list")?.into_iter().map(of_runner);
        let of_slurm = rows::<Summary>(&*self.slurm, "slurm.list")?.into_iter().map(of_slurm);
        Ok(own.chain(of_slurm).collect())
    }

    fn space(&self) -> Result<Value, Problem> {
        let mut shown = self.core.space_by_user()?;
        for user in shown["users"].as_array_mut().into_iter().flatten() {
            let uid = user["uid"].as_u64().and_then(|uid| u32::try_from(uid).ok());
            user["user"] = json!(uid.and_then(users::name_of).unwrap_or_else(|| user["uid"].to_string()));
        }
        Ok(shown)
    }

    fn file(&self, path: &str) -> Result<Value, Problem> {
        self.core.how_it_lies(path)
    }
}

/// The rows of a list as the operator sees it, of jobs that are not over.
fn rows<T: DeserializeOwned>(handler: &dyn Handler, command: &str) -> Result<Vec<T>, Problem> {
    let operator = Caller {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        pid: std::process::id() as i32,
    };
    // Nodes that do not answer are told as progress: their jobs are not in the list.
    let mut ignored = |_: Value| true;
    let mut out = Responder::new(&mut ignored, Arc::default());
    let rows = handler.handle(&operator, command, json!({"all": false}), &mut out)?;
    serde_json::from_value(rows).map_err(|error| Problem::failed(format!("the list of jobs makes no sense: {error}")))
}

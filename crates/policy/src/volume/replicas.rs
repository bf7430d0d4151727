//! Replicas: mirrors of jobs' input for as long as jobs need them, and failover to them.
//!
//! [`Replication`] says which files have one, [`Failover`] when its objects take over for those on a failed target and
//! when what it lacks then is made anew. A replica that could not be dropped is in use, and dropped later.

use super::changes::{Ask, Want, Wanted};
use super::event::{Purpose, Reason};
use super::file::File;
use super::ownership::Mechanism;
use crate::ids::{FileId, TargetId};
use crate::machine::Machine;
use crate::protect::failover::{self, Failover, Key};
use crate::protect::replica::{self, RemoveReason, Replication};
use crate::time::Time;
use std::collections::BTreeMap;

/// From a replica that could not be dropped to the next try. A guess: somebody ends a move within seconds.
const DROP_AGAIN: Time = Time::from_secs(2);

/// How replicas are set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// Which jobs' input has one.
    pub replication: replica::Config,
    /// What happens when a target fails.
    pub failover: failover::Config,
}

impl Config {
    /// As published, for a system of so many nodes.
    pub fn new(system_nodes: u32) -> Config {
        Config { replication: replica::Config::new(system_nodes), failover: failover::Config::default() }
    }
}

#[derive(Debug)]
pub struct Replicas {
    pub replication: Replication,
    failover: Failover,
    /// Those that could not be dropped, and when they are dropped again.
    drops: Vec<(Time, Wanted)>,
    asks: Vec<Ask>,
}

impl Replicas {
    pub fn new(config: Config) -> Replicas {
        let Config { replication, failover } = config;
        let (replication, failover) = (Replication::new(replication), Failover::new(failover));
        Replicas { replication, failover, drops: Vec::new(), asks: Vec::new() }
    }

    /// What happened to jobs. Of a replica that an earlier driver left incomplete what there is goes.
    pub fn handle(&mut self, now: Time, event: replica::Event, files: &mut BTreeMap<FileId, File>) {
        if let replica::Event::Adopted { file: id } = event
            && let Some(file) = files.get_mut(&id)
        {
            file.replicated = true;
            if !file.has(Purpose::Replica) {
                return self.drop(now, id, RemoveReason::Unwanted);
            }
        }
        self.replication.handle(now, event);
    }

    /// A target failed under a file with a replica.
    pub fn complained(&mut self, now: Time, file: FileId, target: TargetId) {
        self.failover.handle(now, failover::Event::Complained { key: Key { file, target } });
    }

    pub fn target_returned(&mut self, now: Time, target: TargetId) {
        self.failover.handle(now, failover::Event::TargetReturned { target });
    }

    /// Whether a failover of the file goes on: nothing else mends it meanwhile.
    pub fn mends(&self, file: FileId) -> bool {
        self.failover.is_at_work(file)
    }

    pub fn removed(&mut self, now: Time, file: FileId) {
        self.forget(now, file);
        self.drops.retain(|(_, of)| of.file != file);
    }

    /// Nothing takes over for the file any more.
    fn forget(&mut self, now: Time, file: FileId) {
        let keys = self.failover.keys(file).flat_map(|(Key { target, .. }, _)| {
            [Want::Swap { target }, Want::Rebuild { target }].map(|want| Ask::Withdraw(file, want))
        });
        self.asks.extend(keys);
        self.failover.handle(now, failover::Event::Forget { file });
    }

    fn drop(&mut self, now: Time, file: FileId, reason: RemoveReason) {
        self.forget(now, file);
        self.asks.push(Ask::Withdraw(file, Want::Replica));
        self.want(file, Want::DropReplica, Reason::Unneeded(reason));
    }

    fn want(&mut self, file: FileId, want: Want, reason: Reason) {
        let by =
            if matches!(want, Want::Replica | Want::DropReplica) { Mechanism::Replicas } else { Mechanism::Repair };
        self.asks.push(Ask::Want(Wanted { by, file, want, reason }));
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Time) {
        if self.replication.next_deadline().is_some_and(|at| at <= now) {
            self.replication.handle(now, replica::Event::Tick);
        }
        self.failover.handle(now, failover::Event::Tick);
        self.asks.extend(self.drops.extract_if(.., |(at, _)| *at <= now).map(|(_, of)| Ask::Want(of)));
    }

    pub fn next_deadline(&self) -> Option<Time> {
        let machines = [self.replication.next_deadline(), self.failover.next_deadline()];
        machines.into_iter().flatten().chain(self.drops.iter().map(|(at, _)| *at)).min()
    }

    /// What is asked of files, of which it is noted which have, or are to have, a replica.
    pub fn collect(&mut self, now: Time, files: &mut BTreeMap<FileId, File>) -> Vec<Ask> {
        while let Some(action) = self.replication.poll() {
            match action {
                replica::Action::Create { file, reason, .. } => {
                    self.want(file, Want::Replica, Reason::Protect(reason));
                }
                replica::Action::Remove { file, reason } => self.drop(now, file, reason),
            }
        }
        while let Some(action) = self.failover.poll() {
            let (key, want, reason) = match action {
                failover::Action::Swap { key, reason } => (key, Want::Swap { target: key.target }, reason),
                failover::Action::Rebuild { key, reason } => (key, Want::Rebuild { target: key.target }, reason),
            };
            self.want(key.file, want, Reason::Failover(reason));
        }
        for ask in &self.asks {
            if let Ask::Want(of) = ask
                && of.by == Mechanism::Replicas
                && let Some(file) = files.get_mut(&of.file)
            {
                file.replicated = true;
            }
        }
        std::mem::take(&mut self.asks)
    }

    /// What was wanted of a file is done, or is not.
    pub fn ended(&mut self, now: Time, of: &Wanted, made: bool, file: Option<&mut File>) {
        let id = of.file;
        match of.want {
            Want::Replica => {
                let event =
                    if made { replica::Event::Created { file: id } } else { replica::Event::CreateFailed { file: id } };
                self.replication.handle(now, event);
            }
            Want::DropReplica if !made && file.is_some() => return self.drops.push((now + DROP_AGAIN, *of)),
            Want::DropReplica => self.replication.handle(now, replica::Event::Removed { file: id }),
            Want::Swap { target } | Want::Rebuild { target } => {
                let key = Key { file: id, target };
                self.failover.handle(
                    now,
                    match (of.want, made) {
                        (Want::Swap { .. }, true) => failover::Event::Swapped { key },
                        (Want::Swap { .. }, false) => failover::Event::NoReplica { key },
                        (_, true) => failover::Event::Rebuilt { key },
                        (_, false) => failover::Event::RebuildFailed { key },
                    },
                );
            }
            _ => {}
        }
        if let Some(file) = file {
            file.replicated = self.replication.life(id).is_some();
        }
    }
}

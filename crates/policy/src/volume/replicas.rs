//! Replicas: mirrors of jobs' input while jobs need them, and failover to them.
//!
//! [`Replication`] decides which files have a replica. [`Failover`] decides when its objects replace those on a failed
//! target, and when the replica is rebuilt. A replica that could not be dropped is in use, and is dropped later.

use super::changes::{Ask, Want, Wanted};
use super::event::{Purpose, Reason};
use super::file::File;
use super::ownership::Mechanism;
use crate::ids::FileId;
use crate::machine::Machine;
use crate::protect::failover::{self, Failover, Key};
use crate::protect::replica::{self, RemoveReason, Replication};
use crate::time::Time;
use std::collections::BTreeMap;

/// Delay before another attempt to drop a replica. A guess: a move ends within seconds.
const DROP_AGAIN: Time = Time::from_secs(2);

/// Settings of replicas.
#[derive(Clone, Debug)]
pub struct Config {
    /// Selection of jobs whose input is replicated.
    pub replication: replica::Config,
    /// Reaction to a failed target.
    pub failover: failover::Config,
}

impl Config {
    /// Settings as published, for a system of `system_nodes` nodes.
    pub fn new(system_nodes: u32) -> Config {
        Config { replication: replica::Config::new(system_nodes), failover: failover::Config::default() }
    }
}

#[derive(Debug)]
pub struct Replicas {
    pub replication: Replication,
    pub failover: Failover,
    /// Replicas that could not be dropped, and the times of the next attempts.
    drops: Vec<(Time, Wanted)>,
    asks: Vec<Ask>,
}

impl Replicas {
    pub fn new(config: Config) -> Replicas {
        let Config { replication, failover } = config;
        let (replication, failover) = (Replication::new(replication), Failover::new(failover));
        Replicas { replication, failover, drops: Vec::new(), asks: Vec::new() }
    }

    /// Handles an event of jobs. An adopted replica that an earlier driver left incomplete is dropped.
    pub fn handle(&mut self, now: Time, event: replica::Event, files: &mut BTreeMap<FileId, File>) {
        if let replica::Event::Adopted(id) = event
            && let Some(file) = files.get_mut(&id)
        {
            file.replicated = true;
            if !file.has(Purpose::Replica) {
                return self.drop(now, id, RemoveReason::Unwanted);
            }
        }
        self.replication.handle(now, event);
    }

    pub fn removed(&mut self, now: Time, file: FileId) {
        self.forget(now, file);
        self.drops.retain(|(_, of)| of.file != file);
    }

    /// Ends all failovers of the file.
    fn forget(&mut self, now: Time, file: FileId) {
        let keys = self.failover.keys(file).flat_map(|(Key { target, .. }, _)| {
            [Want::Swap(target), Want::Rebuild(target)].map(|want| Ask::Withdraw(file, want))
        });
        self.asks.extend(keys);
        self.failover.handle(now, failover::Event::Forget(file));
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

    /// Handles the passing of time.
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

    /// Collects the requested changes, and marks the files that have, or will have, a replica.
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
                failover::Action::Swap { key, reason } => (key, Want::Swap(key.target), reason),
                failover::Action::Rebuild { key, reason } => (key, Want::Rebuild(key.target), reason),
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

    /// Handles the end of a change of a file.
    pub fn ended(&mut self, now: Time, of: &Wanted, made: bool, file: Option<&mut File>) {
        let id = of.file;
        match of.want {
            Want::Replica => {
                let event = if made { replica::Event::Created(id) } else { replica::Event::CreateFailed(id) };
                self.replication.handle(now, event);
            }
            Want::DropReplica if !made && file.is_some() => return self.drops.push((now + DROP_AGAIN, *of)),
            Want::DropReplica => self.replication.handle(now, replica::Event::Removed(id)),
            Want::Swap(target) | Want::Rebuild(target) => {
                let key = Key { file: id, target };
                self.failover.handle(
                    now,
                    match (of.want, made) {
                        (Want::Swap { .. }, true) => failover::Event::Swapped(key),
                        (Want::Swap { .. }, false) => failover::Event::NoReplica(key),
                        (_, true) => failover::Event::Rebuilt(key),
                        (_, false) => failover::Event::RebuildFailed(key),
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

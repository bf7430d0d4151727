//! The targets of a volume: lookup, cached space, states, and the threads that watch over them.

use super::inline::InlineSlots;
use super::{Execution, Limits, State, Target, TargetSpec};
use policy::TargetId;
use policy::layout::TargetView;
use std::sync::Arc;

/// A target changed its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Which.
    pub target: TargetId,
    /// What it was.
    pub from: State,
    /// What it is.
    pub to: State,
    /// Why, for people.
    pub reason: String,
}

/// How the targets of a volume are run.
pub struct TargetsOptions {
    /// Where operations are executed.
    pub execution: Execution,
    /// Limits of each target.
    pub limits: Limits,
    /// When a target is suspect and when failed.
    pub health: super::health::Config,
    /// Slots of the hot path.
    pub slots: Arc<InlineSlots>,
}

impl TargetsOptions {
    /// For tests: everything on the caller's thread, defaults for the rest.
    pub fn inline() -> TargetsOptions {
        todo!()
    }
}

/// The targets of a volume.
pub struct Targets {}

impl Targets {
    /// No target yet; starts the watching threads (none with [`Execution::Inline`]).
    pub fn new(options: TargetsOptions) -> Arc<Targets> {
        let _ = options;
        todo!()
    }
    /// Adds a target, usable at once.
    pub fn add(&self, spec: TargetSpec) -> Arc<Target> {
        let _ = spec;
        todo!()
    }
    /// Forgets a target. Operations under way end as they can.
    pub fn remove(&self, id: TargetId) -> Option<Arc<Target>> {
        let _ = id;
        todo!()
    }
    /// The target of that number.
    pub fn get(&self, id: TargetId) -> Option<Arc<Target>> {
        let _ = id;
        todo!()
    }
    /// The target of that name.
    pub fn by_name(&self, name: &str) -> Option<Arc<Target>> {
        let _ = name;
        todo!()
    }
    /// All, by number.
    pub fn all(&self) -> Vec<Arc<Target>> {
        todo!()
    }
    /// What choosing targets needs to know, with the space as last seen.
    pub fn views(&self) -> Vec<TargetView> {
        todo!()
    }
    /// Probes all targets at the same time and waits for every answer or its deadline. Those that did not answer well.
    pub fn probe_all(&self) -> Vec<TargetId> {
        todo!()
    }
    /// The operator fails, drains or restores a target. `None` if there is none of that number.
    pub fn operate(&self, id: TargetId, order: Order) -> Option<State> {
        let _ = (id, order);
        todo!()
    }
    /// Calls `listener` after every change of a state, in order, never from inside another listener.
    pub fn on_change(&self, listener: impl Fn(&Change) + Send + Sync + 'static) {
        let _ = listener;
        todo!()
    }
    /// Stops the watching threads.
    pub fn stop(&self) {
        todo!()
    }
}

/// What an operator can order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Use it no more.
    Fail,
    /// Trust it again.
    Restore,
    /// Move everything off it.
    Drain,
}

//! Events of moves: the old and the new targets of the bytes, the mechanism that requested the move, and the reason.

use super::Mover;
use crate::events::{Event, Kind, cause};
use crate::{Error, Result};
use object::target::Targets;
use policy::layout::{Layout, Reason};
use policy::{FileId, ObjectId, TargetId};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Mover {
    /// Records the end of a move. A move that ended as busy is retried and not recorded.
    pub(super) fn tell(
        &self,
        id: FileId,
        (verb, reason): (&str, Reason),
        old: Option<&Layout>,
        result: &Result<Arc<Layout>>,
    ) {
        let mut event = match result {
            Err(Error::Busy(_)) => return,
            Err(error) => Event::new(Kind::Move, format!("{verb}: failed: {}", said(&self.pool.targets, error))),
            Ok(new) if old.is_some_and(|old| old.generation == new.generation) => return,
            Ok(new) => {
                let mut event = Event::new(Kind::Move, verb);
                let old = old.map(objects).unwrap_or_default();
                let new = objects(new);
                (event.from, event.to) = (self.names(old.difference(&new)), self.names(new.difference(&old)));
                event
            }
        };
        let (by, why) = self.cause(reason);
        (event.by, event.why) = (Some(by.into()), Some(why));
        event.path = self.pool.path_of(id).map(|path| path.display().to_string());
        if event.path.is_none() {
            event.what = format!("file {id}: {}", event.what);
        }
        self.pool.events.record(event);
    }

    /// The mechanism that requested the change on this thread, and the reason.
    pub(super) fn cause(&self, reason: Reason) -> (&'static str, String) {
        cause().unwrap_or_else(|| (mechanism(reason), words(&self.pool.targets, reason)))
    }

    fn names<'a>(&self, objects: impl Iterator<Item = &'a (TargetId, ObjectId)>) -> Vec<String> {
        let targets: BTreeSet<TargetId> = objects.map(|(target, _)| *target).collect();
        targets.into_iter().map(|target| self.pool.targets.name_of(target)).collect()
    }
}

fn objects(layout: &Layout) -> BTreeSet<(TargetId, ObjectId)> {
    layout.objects().map(|(_, object)| (object.target, object.id)).collect()
}

/// Text of an error, with the name of its target instead of its number.
pub fn said(targets: &Targets, error: &Error) -> String {
    match error {
        Error::Target { target, error } => format!("target {}: {error}", targets.name_of(*target)),
        other => other.to_string(),
    }
}

/// Mechanism of a change without a recorded cause.
fn mechanism(reason: Reason) -> &'static str {
    match reason {
        Reason::Drained(_) => "drain",
        Reason::MirrorStale(_)
        | Reason::Resynced
        | Reason::RecoveryStarted(_)
        | Reason::Recovered
        | Reason::FailedOver(_) => "repair",
        _ => "user",
    }
}

/// Reason of a change of a layout, for people.
pub fn words(targets: &Targets, reason: Reason) -> String {
    let name = |target: TargetId| targets.name_of(target);
    match reason {
        Reason::Grown => "it grew beyond the segments that it had".into(),
        Reason::StagedIn => "it was staged in with a known size".into(),
        Reason::Requested => "the user or its directory asked for this layout".into(),
        Reason::MirrorAdded => "a mirror was added".into(),
        Reason::MirrorDropped => "a mirror was dropped".into(),
        Reason::MirrorStale(t) => format!("a mirror missed a write because of target {}", name(t)),
        Reason::Resynced => "a stale mirror was brought up to date".into(),
        Reason::RecoveryStarted(t) => {
            format!("target {} failed, and recovery of its part from the source began", name(t))
        }
        Reason::Recovered => "the recovered part is complete".into(),
        Reason::FailedOver(t) => format!("target {} failed, and its part was copied from another mirror", name(t)),
        Reason::Drained(t) => format!("target {} was being emptied", name(t)),
        Reason::Moved => "a command moved a part of it".into(),
        Reason::Restriped => "it was striped again for its load".into(),
        Reason::Merged => "its owner merged it with other files".into(),
        Reason::Split => "its owner gave it objects of its own again".into(),
    }
}

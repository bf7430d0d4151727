//! `events.show`: the events of the volume, for callers with permission. A slow reader delays only its own
//! connection, and receives the number of events that it missed.

use crate::control::answers::EventLine;
use crate::control::{Caller, Events as Asked, Problem, Responder};
use crate::daemon::Core;
use crate::daemon::resolve::inside_of;
use engine::events::Event;
use std::time::Duration;

/// Events taken from the rings at once.
const BATCH: usize = 64;
/// Interval of checks whether the caller hung up.
const LOOK_EVERY: Duration = Duration::from_millis(500);

pub fn run(core: &Core, caller: &Caller, what: &Asked, out: &mut Responder<'_>) -> Result<EventLine, Problem> {
    let events = &core.pool.events;
    let _held = events.follower(caller.uid).ok_or_else(|| {
        Problem::busy("the limit of readers of events, or that of one user, is reached")
            .try_this("end one of them, and try again")
    })?;
    let (newest, run) = (events.last(), events.run());
    let resumes = what.after.filter(|(of, _)| *of == run).map(|(_, number)| number);
    // Events dropped before the request do not count as missed.
    let known = if resumes.is_some() { 0 } else { newest };
    let mut at = resumes.unwrap_or(0).min(newest);
    let line = |at| EventLine { at: Some((run, at)), ..EventLine::default() };
    if !out.progress(&line(at)) {
        return Ok(EventLine::default());
    }
    loop {
        let batch = events.batch(at, BATCH);
        let missed = EventLine { missed: Some(batch.missed), ..EventLine::default() };
        if batch.missed > 0 && at >= known && !out.progress(&missed) {
            return Ok(EventLine::default());
        }
        for event in batch.events.iter().filter(|event| is_asked(event, what) && may_see(core, caller, event)) {
            if !out.progress(&EventLine { event: Some(Event::clone(event)), ..line(event.number) }) {
                return Ok(EventLine::default());
            }
        }
        at = batch.last;
        if at >= newest && !what.follow {
            return Ok(line(at));
        }
        while !events.wait(at, LOOK_EVERY) && !out.stop().is_set() {}
        if out.stop().is_set() {
            return Ok(line(at));
        }
    }
}

fn is_asked(event: &Event, what: &Asked) -> bool {
    event.at_ms >= what.from_ms.unwrap_or(0)
        && (what.kinds.is_empty() || what.kinds.contains(&event.kind))
        && what.target.as_ref().is_none_or(|target| event.names(target))
}

/// Operators see all events. Other users see events that name no file, events of their own jobs, and events of their
/// own files in reachable directories.
fn may_see(core: &Core, caller: &Caller, event: &Event) -> bool {
    if caller.is_operator() || event.for_all {
        return true;
    }
    event.owner == Some(caller.uid)
        && event.path.as_deref().is_none_or(|path| core.may_see(caller, &inside_of(path)).is_ok())
}

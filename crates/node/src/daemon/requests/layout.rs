//! `layout.*`: the layout of a file, and the verbs that change it.

use super::{explain, told};
use crate::control::answers::{self, Change, Done, Explanation, Mirror, Object, Segment, Text};
use crate::control::{Caller, Merge, Problem, Request, Responder, Result};
use crate::daemon::Core;
use crate::daemon::resolve::{Purpose, identity};
use engine::file::File;
use meta::namespace::request::{check_mirrors, parse_request};
use policy::layout::{Layout, Merged, MirrorState, OPEN_END, ObjectState, Placement, Position, Reason};
use policy::{TargetId, Time};
use std::sync::Arc;

/// Interval of checks of a caller that waits for a move.
const MOVE_LOOK_EVERY: std::time::Duration = std::time::Duration::from_millis(50);

pub fn get(core: &Core, caller: &Caller, path: &str) -> Result<answers::Layout> {
    let (file, _) = core.file_of(caller, path, Purpose::See)?;
    Ok(describe(core, path, &file))
}

pub fn explain(core: &Core, caller: &Caller, path: &str) -> Result<Explanation> {
    let (file, _) = core.file_of(caller, path, Purpose::See)?;
    // As with `source get`, only users that may read the file get the names of its sources.
    let readable = match caller.is_operator() {
        true => explain::source(&file),
        false => core.stager.silent(&identity(caller)).source_get(path).ok().flatten(),
    };
    Ok(Explanation { path: path.to_owned(), sentences: explain::sentences(core, &file, readable.as_ref()) })
}

/// Serves a request to change the layout of a file.
pub fn change(core: &Core, caller: &Caller, request: Request, out: &mut Responder<'_>) -> Result<Text> {
    let file_of = |path: &str| core.file_of(caller, path, Purpose::Change).map(|(file, _)| file);
    let mover = &core.mover;
    let layout = match request {
        Request::AddMirror { path, tier, stripe_count } => {
            let file = file_of(&path)?;
            core.adapt.add_mirror(&file, &placement(core, &file, tier.as_deref(), stripe_count)?)?
        }
        Request::DropMirror { path, mirror } => core.adapt.drop_mirror(&file_of(&path)?, mirror)?,
        Request::Replace { path, from, to } => replace(core, &file_of(&path)?, &from, to.as_deref())?,
        Request::Move { path, mirror, segment, to } => {
            let file = file_of(&path)?;
            let to = to.iter().map(|name| target(core, name)).collect::<Result<Vec<_>>>()?;
            mover.move_segment_to(&file, mirror, segment, &to)?
        }
        Request::Resync { path } => resync(core, &file_of(&path)?, out)?,
        Request::Split { path } => mover.split(&file_of(&path)?)?,
        _ => return Err(Problem::wrong("this is no request to change a layout")),
    };
    let count = layout.mirrors.len();
    let mirrors = if count == 1 { "1 mirror".into() } else { format!("{count} mirrors") };
    Ok(told(format!("done: {mirrors}, generation {}", layout.generation)))
}

/// Checks whether a request can be met. The attribute itself reports only a refusal, without the reason.
pub fn check(core: &Core, request: &str) -> Result<Done> {
    let tiers = &core.volume.config().tiers;
    let checked = parse_request(request, &core.volume.placement(), tiers)
        .and_then(|placement| check_mirrors(&placement, tiers, core.volume.targets()));
    checked.map_err(|e| Problem::wrong(e.to_string()).try_this("`entrepot layout set --help` lists the choices"))?;
    Ok(Done {})
}

/// Placement of one more mirror on that tier and that many targets; the defaults are those of the volume and the
/// file.
fn placement(core: &Core, file: &File, tier: Option<&str>, stripe_count: Option<usize>) -> Result<Placement> {
    let tiers = &core.volume.config().tiers;
    let tier = match tier {
        None => None,
        Some(name) => Some(tiers.iter().position(|t| t == name).ok_or_else(|| {
            Problem::wrong(format!("there is no tier {name}")).try_this(format!("its tiers are {}", tiers.join(", ")))
        })? as u8),
    };
    let wide = file.layout().and_then(|l| l.mirrors.first()?.segments.last().map(|s| s.objects.len()));
    let default = core.volume.placement();
    let stripe_count = stripe_count.or(wide).unwrap_or(default.stripe_count).clamp(1, object::target::TARGETS_MAX);
    Ok(Placement { stripe_count, tier, mirrors: 1, ..default })
}

fn target(core: &Core, name: &str) -> Result<TargetId> {
    let found = core.volume.targets().by_name(name).map(|t| t.id());
    found.ok_or_else(|| {
        Problem::not_found(format!("there is no target {name}"))
            .try_this("`entrepot target list` shows those there are")
    })
}

/// Rebuilds stale mirrors, or waits if another caller's request already does.
fn resync(core: &Core, file: &Arc<File>, out: &mut Responder<'_>) -> Result<Arc<Layout>> {
    let mut joined = false;
    loop {
        let in_sync = |l: &Arc<Layout>| l.mirrors.iter().all(|m| m.state == MirrorState::InSync);
        if let Some(layout) = file.layout().filter(|l| joined && in_sync(l)) {
            return Ok(layout);
        }
        let moved = |id| core.mover.progress().is_moved(id);
        match core.mover.resync(file) {
            Err(crate::Error::Busy(_)) if file.id().is_some_and(moved) => {}
            done => return Ok(done?),
        }
        if !joined {
            out.progress("a move of this file is under way; waiting for its end");
        }
        joined = true;
        while file.id().is_some_and(moved) {
            if out.stop().is_set() {
                return Err(Problem::new(crate::control::exit::INTERRUPTED, "stopped; the move goes on"));
            }
            std::thread::sleep(MOVE_LOOK_EVERY);
        }
    }
}

/// Merges files: interleaves their bytes in shared objects.
pub fn merge(core: &Core, caller: &Caller, what: &Merge) -> Result<Text> {
    let (first, _) = core.file_of(caller, &what.path, Purpose::Change)?;
    let mut place = placement(core, &first, what.tier.as_deref(), what.stripe_count)?;
    if let Some(size) = what.stripe_size {
        if !(4096..=Merged::UNIT_BYTES_MAX).contains(&size) || !size.is_multiple_of(4096) {
            let cause = format!("{size} bytes cannot be a stripe");
            return Err(Problem::wrong(cause).try_this("give a multiple of 4096 of at most 1 GiB"));
        }
        place.stripe_size = size;
    }
    let here = || core.volume.targets().tier_of(first.layout()?.mirrors.first()?.segments.first()?);
    place.tier = place.tier.or_else(here);
    let mut files = vec![first.clone()];
    for other in &what.others {
        files.push(core.file_of(caller, other, Purpose::Change)?.0);
    }
    core.mover.merge(&files, &place).map_err(|(number, error)| {
        let path = |number: usize| if number == 0 { &what.path } else { &what.others[number - 1] };
        let cause = format!("{} is not merged: {error}", path(number));
        let started = number > 0 && !matches!(error, crate::Error::Invalid(_));
        let problem = Problem { cause, ..Problem::from(error) };
        if started {
            let so = format!("{number} of the files are merged, the others are as they were, and all are in order");
            problem.so(so).try_this("run it again for all, or `entrepot layout split` those")
        } else {
            problem.try_this("leave it out, or mend it, and try again; `entrepot layout FILE` shows how it lies")
        }
    })?;
    let (count, unit) = (files.len(), place.stripe_size);
    Ok(told(format!("done: {count} files in turns of {unit} bytes")))
}

fn replace(core: &Core, file: &Arc<File>, from: &str, to: Option<&str>) -> Result<Arc<Layout>> {
    let on = target(core, from)?;
    let layout = file.layout();
    if !layout.is_some_and(|l| l.objects().any(|(_, o)| o.target == on)) {
        return Err(Problem::not_found(format!("the file has nothing on {from}"))
            .try_this("`entrepot layout FILE` shows where it lies"));
    }
    match to {
        None => Ok(core.mover.replace_target(file, on, Reason::Moved)?),
        Some(to) => Ok(core.mover.replace_target_by(file, on, target(core, to)?)?),
    }
}

/// Name of a target, or its number when the target is forgotten.
pub fn name_of(core: &Core, id: TargetId) -> String {
    core.volume.targets().get(id).map_or_else(|| format!("forgotten target {}", id.0), |t| t.name().to_string())
}

pub fn describe(core: &Core, path: &str, file: &File) -> answers::Layout {
    let answer = answers::Layout { path: path.to_owned(), size: file.size(), ..answers::Layout::default() };
    let Some(layout) = file.layout() else { return answers::Layout { inline: true, ..answer } };
    let object = |at: Position, o: &policy::layout::Object| {
        let turns = o.merged.map(|merged| {
            let names = file.with_object(at, o.id, |h| h.names()).ok();
            answers::Merged { slot: merged.slot, of: merged.of, unit: merged.unit_bytes, names }
        });
        let state = if o.state == ObjectState::Complete { "complete" } else { "partial" };
        Object {
            target: name_of(core, o.target),
            target_state: core.volume.targets().get(o.target).map_or("failed".into(), |t| t.state().to_string()),
            object: o.id.to_string(),
            state: state.into(),
            merged: turns,
        }
    };
    let segment = |mirror: usize, segment: usize, s: &policy::layout::Segment| {
        let at = |index| Position { mirror, segment, index };
        Segment {
            start: s.start,
            end: (s.end != OPEN_END).then_some(s.end),
            stripe_size: s.stripe_size,
            objects: s.objects.iter().enumerate().map(|(n, o)| object(at(n), o)).collect(),
            objects_count: None,
        }
    };
    let mirror = |(number, m): (usize, &policy::layout::Mirror)| Mirror {
        state: if m.state == MirrorState::InSync { "in_sync" } else { "stale" }.into(),
        segments: m.segments.iter().enumerate().map(|(n, s)| segment(number, n, s)).collect(),
        segments_count: None,
    };
    let change =
        |(at, reason): &(Time, Reason)| Change { at_ms: at.0 / 1_000_000, why: explain::reason(core, *reason) };
    answers::Layout {
        file: Some(layout.file.to_string()),
        generation: Some(layout.generation),
        mirrors: layout.mirrors.iter().enumerate().map(mirror).collect(),
        history: Some(layout.history.iter().map(change).collect()),
        ..answer
    }
}

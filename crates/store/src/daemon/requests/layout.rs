//! `layout.*`: where a file lies, and the verbs that change it.

use super::{explain, read, unknown};
use crate::control::{Caller, Problem, Responder};
use crate::daemon::Core;
use crate::daemon::resolve::Purpose;
use crate::file::File;
use crate::namespace::request::{check_mirrors, parse_request};
use policy::layout::{Layout, Merged, MirrorState, OPEN_END, ObjectState, Placement, Position, Reason};
use policy::{FileId, TargetId, Time};
use serde_json::{Value, json};
use std::sync::Arc;

/// A caller that waits for a move looks so often.
const MOVE_LOOK_EVERY: std::time::Duration = std::time::Duration::from_millis(50);

#[derive(serde::Deserialize)]
struct Args {
    path: String,
    tier: Option<String>,
    stripe_count: Option<usize>,
    #[serde(default)]
    mirror: usize,
    #[serde(default)]
    segment: usize,
    from: Option<String>,
    to: Option<Value>,
    stripe_size: Option<u64>,
    /// What shall be asked for, as the attribute takes it.
    #[serde(default)]
    request: String,
    #[serde(default)]
    others: Vec<String>,
}

pub fn serve(
    core: &Arc<Core>,
    caller: &Caller,
    verb: &str,
    args: Value,
    out: &mut Responder<'_>,
) -> Result<Value, Problem> {
    let args: Args = read(args)?;
    if verb == "check" {
        return check(core, &args.request);
    }
    let purpose = if matches!(verb, "get" | "explain") { Purpose::See } else { Purpose::Change };
    let (file, _) = core.file_of(caller, &args.path, purpose)?;
    let layout = match verb {
        "get" => return Ok(describe(core, &args.path, &file)),
        "explain" => return Ok(json!({"path": args.path, "sentences": explain::sentences(core, &file)})),
        "add-mirror" => core.mover.add_mirror(&file, &placement(core, &file, &args)?)?,
        "drop-mirror" => core.mover.drop_mirror(&file, args.mirror)?,
        "replace" => replace(core, &file, &args)?,
        "move" => {
            let to = targets(core, &args)?;
            core.mover.move_segment_to(&file, args.mirror, args.segment, &to)?
        }
        "resync" => resync(core, &file, out)?,
        "merge" => return merge(core, caller, file, &args),
        "split" => core.mover.split(&file)?,
        _ => return Err(unknown(&format!("layout.{verb}"))),
    };
    let count = layout.mirrors.len();
    let mirrors = if count == 1 { "1 mirror".into() } else { format!("{count} mirrors") };
    Ok(json!({"text": format!("done: {mirrors}, generation {}", layout.generation)}))
}

/// Whether a request can be met. The attribute by which it is made could only say that it cannot.
fn check(core: &Core, request: &str) -> Result<Value, Problem> {
    let tiers = &core.volume.config().tiers;
    let checked = parse_request(request, &core.volume.placement(), tiers)
        .and_then(|placement| check_mirrors(&placement, tiers, core.volume.targets()));
    checked.map_err(|e| Problem::wrong(e.to_string()).try_this("`entrepot layout set --help` says what there is"))?;
    Ok(json!({}))
}

fn placement(core: &Core, file: &File, args: &Args) -> Result<Placement, Problem> {
    let tiers = &core.volume.config().tiers;
    let tier = match &args.tier {
        None => None,
        Some(name) => Some(tiers.iter().position(|t| t == name).ok_or_else(|| {
            Problem::wrong(format!("there is no tier {name}")).try_this(format!("its tiers are {}", tiers.join(", ")))
        })? as u8),
    };
    let wide = file.layout().and_then(|l| l.mirrors.first()?.segments.last().map(|s| s.objects.len()));
    let default = core.volume.placement();
    let stripe_count = args.stripe_count.or(wide).unwrap_or(default.stripe_count).clamp(1, crate::volume::TARGETS_MAX);
    Ok(Placement { stripe_count, tier, mirrors: 1, ..default })
}

fn target(core: &Core, name: &str) -> Result<TargetId, Problem> {
    let found = core.volume.targets().by_name(name).map(|t| t.id());
    found.ok_or_else(|| {
        Problem::not_found(format!("there is no target {name}"))
            .try_this("`entrepot target list` shows those there are")
    })
}

/// Makes stale mirrors anew. Where that is under way already, in the background or by somebody else, it is waited for.
fn resync(core: &Core, file: &Arc<File>, out: &mut Responder<'_>) -> Result<Arc<Layout>, Problem> {
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
            out.progress(json!("a move of this file is under way; waiting for its end"));
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

/// Puts the bytes of several files piece by piece beside each other.
fn merge(core: &Arc<Core>, caller: &Caller, first: Arc<File>, args: &Args) -> Result<Value, Problem> {
    let mut place = placement(core, &first, args)?;
    if let Some(size) = args.stripe_size {
        if !(4096..=Merged::UNIT_BYTES_MAX).contains(&size) || !size.is_multiple_of(4096) {
            let cause = format!("{size} bytes cannot be a stripe");
            return Err(Problem::wrong(cause).try_this("give a multiple of 4096 of at most 1 GiB"));
        }
        place.stripe_size = size;
    }
    let here = || core.volume.targets().tier_of(first.layout()?.mirrors.first()?.segments.first()?);
    place.tier = place.tier.or_else(here);
    let mut files = vec![first.clone()];
    for other in &args.others {
        files.push(core.file_of(caller, other, Purpose::Change)?.0);
    }
    core.mover.merge(&files, &place).map_err(|(number, error)| {
        let path = |number: usize| if number == 0 { &args.path } else { &args.others[number - 1] };
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
    Ok(json!({"text": format!("done: {count} files in turns of {unit} bytes")}))
}

/// The targets named in `to`.
fn targets(core: &Core, args: &Args) -> Result<Vec<TargetId>, Problem> {
    let names: Vec<String> = match args.to.clone() {
        Some(Value::String(one)) => vec![one],
        Some(Value::Null) | None => Vec::new(),
        Some(many) => read(many)?,
    };
    names.iter().map(|name| target(core, name)).collect()
}

fn replace(core: &Core, file: &Arc<File>, args: &Args) -> Result<Arc<Layout>, Problem> {
    let from = target(core, args.from.as_deref().unwrap_or_default())?;
    let layout = file.layout();
    if !layout.is_some_and(|l| l.objects().any(|(_, o)| o.target == from)) {
        return Err(Problem::not_found(format!(
            "the file has nothing on {}",
            args.from.as_deref().unwrap_or_default()
        ))
        .try_this("`entrepot layout FILE` shows where it lies"));
    }
    match targets(core, args)?.as_slice() {
        [] => Ok(core.mover.replace_target(file, from, Reason::Moved)?),
        [to, ..] => Ok(core.mover.replace_target_by(file, from, *to)?),
    }
}

/// The name of a target, or its number when it is forgotten.
pub fn name_of(core: &Core, id: TargetId) -> String {
    core.volume.targets().get(id).map_or_else(|| format!("forgotten target {}", id.0), |t| t.name().to_string())
}

/// The path of a file, or its number where that is not noted.
pub fn file_named(core: &Core, id: FileId) -> String {
    core.pool.name_of(id)
}

fn describe(core: &Core, path: &str, file: &File) -> Value {
    let size = file.size();
    let Some(layout) = file.layout() else {
        return json!({"path": path, "size": size, "inline": true, "mirrors": []});
    };
    let object = |at: Position, o: &policy::layout::Object| {
        let turns = o.merged.map(|merged| {
            let names = file.with_object(at, o.id, |h| h.names()).ok();
            json!({"slot": merged.slot, "of": merged.of, "unit": merged.unit_bytes, "names": names})
        });
        json!({
            "target": name_of(core, o.target),
            "target_state": core.volume.targets().get(o.target).map_or("failed".into(), |t| t.state().to_string()),
            "object": format!("{:016x}", o.id.0),
            "state": match o.state { ObjectState::Complete => "complete", ObjectState::Partial => "partial" },
            "merged": turns,
        })
    };
    let segment = |mirror: usize, segment: usize, s: &policy::layout::Segment| {
        let at = |index| Position { mirror, segment, index };
        json!({
            "start": s.start,
            "end": (s.end != OPEN_END).then_some(s.end),
            "stripe_size": s.stripe_size,
            "objects": s.objects.iter().enumerate().map(|(n, o)| object(at(n), o)).collect::<Vec<_>>(),
        })
    };
    let mirror = |number: usize, m: &policy::layout::Mirror| {
        json!({
            "state": match m.state { MirrorState::InSync => "in_sync", MirrorState::Stale => "stale" },
            "segments": m.segments.iter().enumerate().map(|(n, s)| segment(number, n, s)).collect::<Vec<_>>(),
        })
    };
    let change =
        |(at, reason): &(Time, Reason)| json!({"at_ms": at.0 / 1_000_000, "why": explain::reason(core, *reason)});
    json!({
        "path": path,
        "size": size,
        "inline": false,
        "file": layout.file.to_string(),
        "generation": layout.generation,
        "mirrors": layout.mirrors.iter().enumerate().map(|(n, m)| mirror(n, m)).collect::<Vec<_>>(),
        "history": layout.history.iter().map(change).collect::<Vec<_>>(),
    })
}

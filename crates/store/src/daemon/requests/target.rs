//! `target.*`: orders of the operator.

use super::{read, unknown};
use crate::control::{Caller, Problem, Responder, exit};
use crate::daemon::Core;
use crate::target::{Order, State, Target};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;

#[derive(serde::Deserialize)]
struct Args {
    name: String,
    #[serde(default)]
    force: bool,
    #[serde(default)]
    wait: bool,
    #[serde(default)]
    tier: String,
    #[serde(default)]
    dir: PathBuf,
}

pub fn serve(
    core: &Arc<Core>,
    caller: &Caller,
    verb: &str,
    args: Value,
    out: &mut Responder<'_>,
) -> Result<Value, Problem> {
    if verb == "list" {
        return Ok(json!({"targets": list(core)}));
    }
    caller.must_be_operator(&format!("{verb} a target"))?;
    let args: Args = read(args)?;
    let name = args.name.as_str();
    let text = match verb {
        "add" => {
            core.volume.add_target(name, &args.dir, &args.tier)?;
            core.volume.targets().measure_now(); // who looks next sees its space
            format!("target {name} was added: new data go there from now on, what is there stays where it is")
        }
        "remove" => {
            core.volume.remove_target(name, args.force)?;
            format!("target {name} is forgotten")
        }
        "fail" => order(core, name, Order::Fail)?,
        "restore" => order(core, name, Order::Restore)?,
        "drain" => drain(core, &args, out)?,
        _ => return Err(unknown(&format!("target.{verb}"))),
    };
    Ok(json!({"text": text}))
}

/// The targets as they are.
pub fn list(core: &Core) -> Value {
    let config = core.volume.config();
    let one = |t: &Arc<Target>| {
        let space = t.space();
        let servers = || config.targets.iter().find(|c| c.name == t.name())?.connections().map(|c| c.servers.as_ref());
        json!({
            "name": t.name(),
            "id": t.id().0,
            "tier": config.tiers.get(usize::from(t.tier())),
            "state": t.state().to_string(),
            "total_bytes": space.total_bytes,
            "free_bytes": space.free_bytes,
            "path": servers().or(t.directory()),
            "connections": t.connections(),
        })
    };
    core.volume.targets().all().iter().map(one).collect()
}

fn order(core: &Core, name: &str, order: Order) -> Result<String, Problem> {
    let state = core.volume.order_target(name, order)?;
    Ok(match state {
        State::Ok => format!("target {name} is ok"),
        State::Failed => {
            format!("target {name} is failed: it is used no more, and what it held is read from mirrors or sources")
        }
        other => format!("target {name} is {other}"),
    })
}

fn drain(core: &Arc<Core>, args: &Args, out: &mut Responder<'_>) -> Result<String, Problem> {
    let name = args.name.as_str();
    core.volume.order_target(name, Order::Drain)?;
    if !args.wait {
        return Ok(format!("target {name} is being emptied; `entrepot status` shows how far it is"));
    }
    let Some(target) = core.volume.targets().by_name(name) else {
        return Err(Problem::not_found(format!("target {name} is gone")));
    };
    core.background.drain_now(core, target.id(), |progress| {
        let text = format!("{} files moved, {} left, {} of them in use", progress.files, progress.left, progress.busy);
        out.progress(json!(text))
    });
    match target.run(|medium| medium.list()) {
        Ok(objects) if objects.is_empty() => {
            Ok(format!("target {name} is empty; `entrepot target remove {name}` forgets it"))
        }
        Ok(objects) if core.volume.is_garbage(target.id(), &objects) => Ok(format!(
            "no file lies on target {name} any more; {} objects that it does not let go of are nobody's; \
             `entrepot target remove {name}` forgets it",
            objects.len()
        )),
        Ok(objects) => {
            Err(Problem::new(exit::INCOMPLETE, format!("target {name} still holds {} objects", objects.len()))
                .so("it stays draining; nothing is lost")
                .try_this("`entrepot status` says why; `entrepot check --repair` removes orphans; then drain it again"))
        }
        Err(e) => Err(Problem::failed(format!("target {name} cannot be looked at: {e}"))
            .so("whether it is empty is not known")
            .try_this("`entrepot target list` shows its state")),
    }
}

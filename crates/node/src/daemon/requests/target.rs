//! `target.*`: orders of the operator.

use super::told;
use crate::control::answers::{Target, Targets, Text, Tier};
use crate::control::{Caller, Problem, Responder, Result, exit};
use crate::daemon::Core;
use object::target::{self, Order, Reach, State};
use policy::units::show_count;
use std::path::Path;
use std::sync::Arc;

pub fn add(core: &Core, caller: &Caller, name: &str, dir: &Path, tier: &str) -> Result<Text> {
    caller.must_be_operator("add a target")?;
    core.volume.add_target(name, dir, tier)?;
    core.volume.targets().measure_now(); // the next status shows its space
    Ok(told(format!("target {name} was added: new data go there from now on, existing data stay where they are")))
}

pub fn remove(core: &Core, caller: &Caller, name: &str, force: bool) -> Result<Text> {
    caller.must_be_operator("remove a target")?;
    core.volume.remove_target(name, force)?;
    Ok(told(format!("target {name} is forgotten")))
}

/// The targets, and the space of each tier and of all, each file system counted once.
pub fn room(core: &Core) -> Targets {
    let space = core.volume.targets().space();
    let (total_bytes, free_bytes) = (space.total_bytes, space.free_bytes);
    Targets { targets: list(core), tiers: tiers(core), total_bytes, free_bytes }
}

/// The space of each tier.
pub fn tiers(core: &Core) -> Vec<Tier> {
    let one = |(at, name): (u8, &String)| {
        let space = core.volume.targets().space_on(at);
        Tier { name: name.clone(), total_bytes: space.total_bytes, free_bytes: space.free_bytes }
    };
    (0..).zip(&core.volume.config().tiers).map(one).collect()
}

/// The targets with their states.
pub fn list(core: &Core) -> Vec<Target> {
    let config = core.volume.config();
    let one = |t: &Arc<target::Target>| {
        let space = t.space();
        let section = config.targets.iter().find(|c| c.name == t.name());
        let servers = section.and_then(|c| c.connections()).map(|c| c.servers.as_ref());
        Target {
            name: t.name().to_owned(),
            id: t.id().0,
            tier: config.tiers.get(usize::from(t.tier())).cloned(),
            state: match t.reach() {
                Reach::Elsewhere if !t.is_given_up() => "elsewhere".to_string(),
                _ => t.state().to_string(),
            },
            order_kept: core.volume.is_order_kept(t.id()),
            only_on: section.map(|c| c.only_on.clone()),
            total_bytes: space.total_bytes,
            free_bytes: space.free_bytes,
            path: servers.or(t.directory()).map(Path::to_path_buf),
            connections: t.connections(),
        }
    };
    core.volume.targets().all().iter().map(one).collect()
}

pub fn order(core: &Core, caller: &Caller, name: &str, order: Order) -> Result<Text> {
    caller.must_be_operator(if order == Order::Fail { "fail a target" } else { "restore a target" })?;
    Ok(told(match core.volume.order_target(name, order)? {
        State::Ok => format!("target {name} is ok"),
        State::Failed => {
            format!("target {name} is failed: it is no longer used, and its data are read from mirrors or sources")
        }
        other => format!("target {name} is {other}"),
    }))
}

pub fn drain(core: &Arc<Core>, caller: &Caller, name: &str, wait: bool, out: &mut Responder<'_>) -> Result<Text> {
    caller.must_be_operator("drain a target")?;
    core.volume.order_target(name, Order::Drain)?;
    if !wait {
        return Ok(told(format!("target {name} is being emptied; `entrepot status` shows how far it is")));
    }
    let Some(target) = core.volume.targets().by_name(name) else {
        return Err(Problem::not_found(format!("target {name} is gone")));
    };
    core.background.drain_now(target.id(), |progress| {
        let text = format!("{} files moved, {} left, {} of them in use", progress.files, progress.left, progress.busy);
        out.progress(&text)
    });
    match target.run(|medium| medium.list()) {
        Ok(objects) if objects.is_empty() => {
            Ok(told(format!("target {name} is empty; `entrepot target remove {name}` forgets it")))
        }
        Ok(objects) if core.volume.is_garbage(target.id(), &objects) => Ok(told(format!(
            "no file lies on target {name} any more; {} that cannot be removed belong to no file; \
             `entrepot target remove {name}` forgets it",
            show_count(objects.len() as u64, "object")
        ))),
        Ok(_) if target.state() == State::Ok => {
            Err(Problem::new(exit::INCOMPLETE, format!("target {name} was restored before it was empty"))
                .so("files lie on it and will be placed on it")
                .try_this(format!("`entrepot target drain {name}` goes on")))
        }
        Ok(objects) => Err(Problem::new(
            exit::INCOMPLETE,
            format!("target {name} still holds {}", show_count(objects.len() as u64, "object")),
        )
        .so("it stays draining; nothing is lost")
        .try_this("`entrepot status` shows the cause; `entrepot check --repair` removes orphans; then drain it again")),
        Err(e) => Err(Problem::failed(format!("target {name} cannot be checked: {e}"))
            .so("the target may still hold objects")
            .try_this("`entrepot target list` shows its state")),
    }
}

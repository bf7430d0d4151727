//! `node.*`: the nodes of the volume, and their drains and removals.

use super::told;
use crate::control::answers::{self, Life, Text};
use crate::control::{Caller, Problem, Responder, Result, exit};
use crate::daemon::{Core, forget as forgetting};
use crate::nodes::{Info, Nodes, Shown};
use policy::cluster::Node;
use std::time::{Duration, Instant};

const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Time within which a node that begins to drain restarts under another number.
const GONE: Duration = Duration::from_secs(5);

fn nodes(core: &Core) -> Result<&Nodes> {
    core.nodes.as_deref().ok_or_else(|| {
        Problem::wrong("this volume is one node's: its state is kept in a file there")
            .so("there are no nodes")
            .try_this("for several nodes name a Redis server as `state` in `volume.toml`, see `docs/guide/operate/cluster.md`")
    })
}

pub fn list(core: &Core) -> Result<answers::Nodes> {
    nodes(core).map(all)
}

/// The nodes of the volume, including the dead ones.
pub fn all(nodes: &Nodes) -> answers::Nodes {
    let alive = |shown: Shown| {
        let state = match &shown.draining {
            None => "ok",
            Some(draining) if draining.is_over() => "drained",
            Some(_) => "draining",
        };
        let life = Life {
            pid: shown.info.as_ref().map(|info| info.pid),
            is_self: shown.is_self,
            leads: shown.leads,
            kept_by: shown.draining.and_then(|draining| draining.kept_by).unwrap_or_default(),
        };
        answer(shown.node, shown.info, state, Some(life))
    };
    let dead = |(node, info)| answer(node, Some(info), "dead", None);
    answers::Nodes {
        nodes: nodes.shown().into_iter().map(alive).collect(),
        dead_nodes: nodes.dead().ok().map(|all| all.into_iter().map(dead).collect()),
    }
}

fn answer(node: Node, info: Option<Info>, state: &str, life: Option<Life>) -> answers::Node {
    let since_ms = info.as_ref().map(|info| info.since_ms);
    let (host, mount_point) = info.map(|info| (info.host, info.mount_point)).unzip();
    answers::Node { node: node.0, host, mount_point, since_ms, state: state.into(), life }
}

/// The node with that number or on that host.
fn named(nodes: &Nodes, name: &str) -> Result<Shown> {
    let shown = nodes.shown();
    let is = |shown: &Shown| shown.node.0.to_string() == name || shown.info.as_ref().is_some_and(|i| i.host == name);
    let mut found: Vec<_> = shown.iter().filter(|shown| is(shown)).cloned().collect();
    match (found.pop(), found.is_empty()) {
        (Some(one), true) => Ok(one),
        (Some(_), false) => Err(Problem::wrong(format!("several nodes are on {name}"))
            .so("nothing was done")
            .try_this("name one by its number; `entrepot node list` shows them")),
        (None, _) => Err(Problem::not_found(format!("no node {name} has the volume")).so("nothing was done").try_this(
            "`entrepot node list` shows those that have it; one that is dead is given up with `entrepot node forget`",
        )),
    }
}

pub fn drain(core: &Core, caller: &Caller, name: &str, wait: bool, out: &mut Responder<'_>) -> Result<Text> {
    caller.must_be_operator("drain a node")?;
    let nodes = nodes(core)?;
    let node = named(nodes, name)?;
    order(nodes, &node, true)?;
    let own = |shown: &Shown| shown.info.as_ref().map(|info| info.own.clone());
    let mut seen = Instant::now();
    loop {
        let now = nodes.shown().into_iter().find(|shown| own(shown) == own(&node));
        let Some(now) = now else {
            if seen.elapsed() >= GONE {
                return Ok(told(format!("{} is gone", node.node)));
            }
            std::thread::sleep(LOOK_EVERY);
            continue;
        };
        seen = Instant::now();
        match now.draining {
            Some(draining) if draining.is_over() => {
                return Ok(told(format!("{} is drained: it may be shut down with `entrepot down` there", now.node)));
            }
            None => {
                return Err(Problem::new(exit::INCOMPLETE, format!("{} does not drain any more", now.node))
                    .try_this("it was started again, or restored: drain it again"));
            }
            Some(_) if !wait => {
                return Ok(told(format!("{} drains; `entrepot node list` shows when it may be shut down", now.node)));
            }
            Some(draining) => {
                let kept_by = draining.kept_by.unwrap_or_default().join(", ");
                out.progress(&format!("waits for {kept_by}"));
            }
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

pub fn restore(core: &Core, caller: &Caller, name: &str) -> Result<Text> {
    caller.must_be_operator("restore a node")?;
    let nodes = nodes(core)?;
    let node = named(nodes, name)?;
    order(nodes, &node, false)?;
    Ok(told(format!("{name} takes part again")))
}

fn order(nodes: &Nodes, node: &Shown, drains: bool) -> Result<()> {
    nodes.order_draining(node, drains).map_err(|error| {
        Problem::failed(error.to_string())
            .so("the node may not have received the order")
            .try_this("repeat the command on that node")
    })
}

pub fn forget(core: &Core, caller: &Caller, name: &str) -> Result<Text> {
    caller.must_be_operator("forget a node")?;
    forgetting::forget(core, nodes(core)?, name).map(told)
}

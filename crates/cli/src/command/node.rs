//! `entrepot node`: lists, drains, restores and forgets nodes of a volume.

use crate::answer;
use crate::command::work;
use crate::connect::Context;
use crate::failure::Result;
use crate::shown::{self, Output};
use clap::{Args, Subcommand};
use node::control::Request;
use node::control::answers::{self, Life, Nodes};

/// List, drain, restore or forget nodes of the volume
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot node list
  entrepot node list --output json | jq '.nodes[] | select(.leads)'
  entrepot node drain n3               and then `entrepot down` there
  entrepot node forget n3              if it died and will not come back")]
pub struct Node {
    #[command(subcommand)]
    verb: Verb,
    /// Format of the output.
    #[arg(long, value_enum, default_value = "text", global = true)]
    output: Output,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the nodes: the leader, those that drain, and dead ones
    #[command(after_help = "EXAMPLES:\n  entrepot node list\n  entrepot node list --output json")]
    List,
    /// Prepare a node for its shutdown: it hands over the lead and starts no background work
    #[command(
        after_help = "EXAMPLES:\n  entrepot node drain n3\n  entrepot node drain 12 --no-wait   and look at `entrepot node list`"
    )]
    Drain {
        /// Number of the node, or its host.
        node: String,
        /// Do not wait for the end of the draining.
        #[arg(long)]
        no_wait: bool,
    },
    /// End the draining of a node
    #[command(after_help = "EXAMPLES:\n  entrepot node restore n3")]
    Restore {
        /// Number of the node, or its host.
        node: String,
    },
    /// Remove a dead node that will not come back, and settle its remains
    #[command(after_help = "EXAMPLES:\n  entrepot node forget n3\n  entrepot node forget 12")]
    Forget {
        /// Number of the node, or its host.
        node: String,
    },
}

impl Node {
    pub fn run(self, context: &Context) -> Result<u8> {
        let request = match self.verb {
            Verb::List => {
                answer::show(self.output, context.ask_store(&Request::Nodes {})?, table)?;
                return Ok(0);
            }
            Verb::Drain { node, no_wait } => Request::DrainNode { node, wait: !no_wait },
            Verb::Restore { node } => Request::RestoreNode { node },
            Verb::Forget { node } => Request::ForgetNode { node },
        };
        work::order(context, &request, self.output)
    }
}

/// Formats the nodes as columns, with the next step for dead ones.
pub fn table(answer: &Nodes) -> String {
    let (alive, dead) = (&answer.nodes, answer.dead_nodes.as_deref().unwrap_or_default());
    let mut text = rows(alive.iter().chain(dead));
    for node in dead {
        let host = node.host.as_deref().unwrap_or_default();
        // The host has a live node as well, so the dead one is named by its number.
        let name = match alive.iter().any(|other| other.host == node.host) {
            true => node.node.to_string(),
            false => host.to_owned(),
        };
        text.push_str(&format!(
            "node {} on {host} died: start its daemon again there, or `entrepot node forget {name}` if it will not come back\n",
            node.node,
        ));
    }
    if answer.dead_nodes.is_none() {
        text.push_str("failed nodes are unknown: the state store does not answer\n");
    }
    text
}

fn rows<'a>(nodes: impl Iterator<Item = &'a answers::Node>) -> String {
    let row = |n: &answers::Node| {
        let kept_by = n.life.as_ref().map(|life| life.kept_by.join(", ")).unwrap_or_default();
        let state = match (&*n.state, &*kept_by) {
            ("ok", _) => String::new(),
            (state, "") => state.to_owned(),
            (state, kept_by) => format!("{state}: {kept_by}"),
        };
        let is =
            |role: fn(&Life) -> bool, text: &str| if n.life.as_ref().is_some_and(role) { text } else { "" }.to_owned();
        let roles = [is(|life| life.leads, "leads"), is(|life| life.is_self, "this one"), state];
        let roles: Vec<String> = roles.into_iter().filter(|role| !role.is_empty()).collect();
        let [host, mount_point] = [&n.host, &n.mount_point].map(|text| text.clone().unwrap_or_default());
        vec![n.node.to_string(), host, mount_point, shown::moment_ms(n.since_ms.unwrap_or(0)), roles.join(", ")]
    };
    shown::table(&["node", "host", "mounted at", "since", ""], nodes.map(row).collect())
}

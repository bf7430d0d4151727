//! `entrepot node`: the nodes that have a volume, and those that are to leave it.

use crate::command::work;
use crate::connect::Context;
use crate::failure::Result;
use crate::shown::{self, Output, list, number, word};
use clap::{Args, Subcommand};
use serde_json::Value;
use store::control::Request;

/// Show the nodes that have the volume, and have one leave it
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot node list
  entrepot node list --output json | jq '.nodes[] | select(.leads)'
  entrepot node drain n3               and then `entrepot down` there
  entrepot node forget n3              when it died and will not come back")]
pub struct Node {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show the nodes that have a lease, which of them leads, which drain, and which died
    #[command(after_help = "EXAMPLES:\n  entrepot node list\n  entrepot node list --output json")]
    List {
        /// How to write it.
        #[arg(long, value_enum, default_value = "text")]
        output: Output,
    },
    /// Have a node end what it does, so that it may be shut down: it leads no more, and begins nothing by itself
    #[command(
        after_help = "EXAMPLES:\n  entrepot node drain n3\n  entrepot node drain 12 --no-wait   and look at `entrepot node list`"
    )]
    Drain {
        /// Its number, or its host.
        node: String,
        /// Do not wait until it may be shut down.
        #[arg(long)]
        no_wait: bool,
    },
    /// Have a node that drains take part again
    #[command(after_help = "EXAMPLES:\n  entrepot node restore n3")]
    Restore {
        /// Its number, or its host.
        node: String,
    },
    /// Settle what a dead node left that will not come back
    #[command(after_help = "EXAMPLES:\n  entrepot node forget n3\n  entrepot node forget 12")]
    Forget {
        /// Its number, or its host.
        node: String,
    },
}

impl Node {
    pub fn run(self, context: &Context) -> Result<u8> {
        let request = match self.verb {
            Verb::List { output } => {
                let answer = context.ask_store(&Request::Nodes {})?;
                match output {
                    Output::Json => shown::json(&answer)?,
                    Output::Text => shown::text(&table(&answer))?,
                }
                return Ok(0);
            }
            Verb::Drain { node, no_wait } => Request::DrainNode { node, wait: !no_wait },
            Verb::Restore { node } => Request::RestoreNode { node },
            Verb::Forget { node } => Request::ForgetNode { node },
        };
        let mut client = context.connect()?;
        let answer = work::follow(|progress| client.ask(&request, progress), None)?;
        shown::text(&format!("{}\n", word(&answer, "text")))?;
        Ok(0)
    }
}

/// The nodes as columns, and what to do about those that died.
pub fn table(answer: &Value) -> String {
    let (alive, dead) = (list(answer, "nodes"), list(answer, "dead_nodes"));
    let mut text = rows(alive.iter().chain(dead));
    for node in dead {
        // A host that is there again is named by its dead node's number.
        let name = match alive.iter().any(|other| word(other, "host") == word(node, "host")) {
            true => number(node, "node").to_string(),
            false => word(node, "host").to_string(),
        };
        text.push_str(&format!(
            "node {} on {} died: start its daemon again there, or `entrepot node forget {name}` if it will not come back\n",
            number(node, "node"),
            word(node, "host")
        ));
    }
    if answer["dead_nodes"].is_null() {
        text.push_str("which nodes died is not known: the store of the state does not answer\n");
    }
    text
}

fn rows<'a>(nodes: impl Iterator<Item = &'a Value>) -> String {
    let row = |n: &Value| {
        let kept_by: Vec<&str> = list(n, "kept_by").iter().filter_map(Value::as_str).collect();
        let state = match (word(n, "state"), kept_by.is_empty()) {
            ("ok", _) => String::new(),
            (state, true) => state.to_string(),
            (state, false) => format!("{state}: {}", kept_by.join(", ")),
        };
        let is = |key: &str, text: &str| if n[key] == true { text.to_string() } else { String::new() };
        let roles = [is("leads", "leads"), is("is_self", "this one"), state];
        let roles: Vec<String> = roles.into_iter().filter(|role| !role.is_empty()).collect();
        let since = shown::moment_ms(number(n, "since_ms"));
        let columns = [number(n, "node").to_string(), word(n, "host").into(), word(n, "mount_point").into(), since];
        columns.into_iter().chain([roles.join(", ")]).collect()
    };
    shown::table(&["node", "host", "mounted at", "since", ""], nodes.map(row).collect())
}

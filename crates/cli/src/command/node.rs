//! `entrepot node`: the nodes that have a volume.

use crate::connect::Context;
use crate::failure::Result;
use crate::shown::{self, Output, list, number, word};
use clap::{Args, Subcommand};
use serde_json::Value;
use store::control::Request;

/// List the nodes that have the volume
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot node list
  entrepot node list --output json | jq '.nodes[] | select(.leads)'")]
pub struct Node {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show the nodes that have a lease, and which of them leads
    #[command(after_help = "EXAMPLES:\n  entrepot node list\n  entrepot node list --output json")]
    List {
        /// How to write it.
        #[arg(long, value_enum, default_value = "text")]
        output: Output,
    },
}

impl Node {
    pub fn run(self, context: &Context) -> Result<u8> {
        let Verb::List { output } = self.verb;
        let answer = context.ask_store(&Request::Nodes {})?;
        match output {
            Output::Json => shown::json(&answer)?,
            Output::Text => shown::text(&table(list(&answer, "nodes")))?,
        }
        Ok(0)
    }
}

/// The nodes as columns.
pub fn table(nodes: &[Value]) -> String {
    let row = |n: &Value| {
        let role = match (n["leads"] == true, n["is_self"] == true) {
            (true, true) => "leads, this one",
            (true, false) => "leads",
            (false, true) => "this one",
            (false, false) => "",
        };
        let since = shown::moment_ms(number(n, "since_ms"));
        vec![number(n, "node").to_string(), word(n, "host").into(), word(n, "mount_point").into(), since, role.into()]
    };
    shown::table(&["node", "host", "mounted at", "since", ""], nodes.iter().map(row).collect())
}

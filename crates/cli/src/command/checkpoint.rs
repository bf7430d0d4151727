//! `entrepot checkpoint`: versions of applications' checkpoints, and how often to write one.

mod versions;

use crate::connect::Context;
use crate::failure::Result;
use crate::shown;
use clap::{Args, Subcommand};
use policy::burst::advice::{daly_s, lost, young_s};
use serde_json::json;
use std::time::Duration;
use store::control::Problem;
pub use versions::burst_line;
use versions::{Begin, Commit, List, Status};

/// Checkpoints: begin, commit, list, and advice on how often
///
/// On a volume with a burst buffer (`[burst]` in volume.toml) files whose path matches one of its patterns are checkpoints by
/// themselves, complete when they are closed. `begin` and `commit` are for those whose paths say nothing, and for those who want it said
/// explicitly: a version that was begun counts only once it was committed.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot checkpoint begin wave --path run7/state --size 80GB --nodes 512
  entrepot checkpoint commit wave
  entrepot checkpoint list wave
  entrepot checkpoint status
  entrepot checkpoint advise --cost 5min --mtbf 24h")]
pub struct Checkpoint {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Begin(Begin),
    Commit(Commit),
    List(List),
    Status(Status),
    /// The best interval between two checkpoints, after Young and Daly
    ///
    /// The interval is the time of computing between the end of one checkpoint and the beginning of the next.
    #[command(after_help = "\
EXAMPLES:
  entrepot checkpoint advise --cost 5min --mtbf 24h
  entrepot checkpoint advise --app wave
  entrepot checkpoint advise --cost 40s --nodes 512 --node-mtbf 5years --restart 2min")]
    Advise(Advise),
}

/// What `advise` is asked.
#[derive(Debug, Args)]
struct Advise {
    /// An application of this volume: what its last checkpoint cost, and its time between failures, are taken from what was seen.
    #[arg(long, value_name = "NAME")]
    app: Option<String>,
    /// How long a checkpoint takes: 5min, 40s.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, required_unless_present = "app")]
    cost: Option<Duration>,
    /// Mean time between failures of the whole application.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, required_unless_present_any = ["nodes", "app"])]
    mtbf: Option<Duration>,
    /// Or: so many nodes, any of which ends it.
    #[arg(long, value_name = "N", requires = "node_mtbf", conflicts_with = "mtbf", value_parser = clap::value_parser!(u32).range(1..))]
    nodes: Option<u32>,
    /// Mean time between failures of a node.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    node_mtbf: Option<Duration>,
    /// How long a restart takes.
    #[arg(long, default_value = "0s", value_name = "TIME", value_parser = humantime::parse_duration)]
    restart: Duration,
    /// For programs.
    #[arg(long)]
    json: bool,
}

impl Checkpoint {
    pub fn run(self, context: &Context) -> Result<u8> {
        match self.verb {
            Verb::Begin(verb) => verb.run(context),
            Verb::Commit(verb) => verb.run(context),
            Verb::List(verb) => verb.run(context),
            Verb::Status(verb) => verb.run(context),
            Verb::Advise(verb) => verb.run(context),
        }
    }
}

impl Advise {
    fn run(self, context: &Context) -> Result<u8> {
        let (mut cost, mut mtbf) = (self.cost, self.mtbf);
        if let Some(app) = &self.app {
            let (seen_cost, seen_mtbf) = versions::seen(context, app)?;
            cost = cost.or(seen_cost);
            mtbf = mtbf.or(seen_mtbf.filter(|_| self.nodes.is_none()));
        }
        let Advise { nodes, node_mtbf, restart, json, .. } = self;
        let Some(cost) = cost else {
            return Err(Problem::wrong("this application has not written a checkpoint yet")
                .try_this("give --cost")
                .into());
        };
        let mtbf = match (mtbf, nodes.zip(node_mtbf)) {
            (Some(mtbf), _) => mtbf.as_secs_f64(),
            (None, Some((nodes, of_node))) => of_node.as_secs_f64() / f64::from(nodes),
            (None, None) => {
                return Err(Problem::wrong("nobody knows how long it runs between failures")
                    .try_this("give --mtbf, or --nodes with --node-mtbf")
                    .into());
            }
        };
        let (cost, restart) = (cost.as_secs_f64(), restart.as_secs_f64());
        if cost <= 0.0 || mtbf <= 0.0 {
            return Err(Problem::wrong("--cost and the time between failures are above 0").into());
        }
        let (young, daly) = (young_s(cost, mtbf), daly_s(cost, mtbf));
        if json {
            shown::json(&json!({ "mtbf_s": mtbf, "young_s": young, "daly_s": daly,
                "lost_share": lost(daly, cost, restart, mtbf) }))?;
            return Ok(0);
        }
        let span = |s: f64| humantime::format_duration(Duration::from_secs(s.round() as u64)).to_string();
        let mut text = format!(
            "time between failures  {}\ninterval               {} (Daly; Young: {})\n",
            span(mtbf),
            span(daly),
            span(young)
        );
        if cost >= 2.0 * mtbf {
            text += "A checkpoint takes longer than twice the time between failures: the application will hardly advance.\n";
        }
        text += "\ninterval   lost to checkpoints, repeated work and restarts\n";
        for factor in [0.25, 0.5, 1.0, 2.0, 4.0] {
            let share = lost(daly * factor, cost, restart, mtbf);
            text += &format!(
                "{:<10} {:>5.1} % {}\n",
                span(daly * factor),
                share * 100.0,
                "#".repeat((share * 50.0) as usize)
            );
        }
        shown::text(&text)?;
        Ok(0)
    }
}

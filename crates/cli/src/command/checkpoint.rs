//! `entrepot checkpoint`: what there is to say about an application's checkpoints.

use crate::failure::Result;
use crate::shown;
use clap::{Args, Subcommand};
use policy::burst::advice::{daly_s, lost, young_s};
use serde_json::json;
use std::time::Duration;
use store::control::Problem;

/// Advice on checkpoints
#[derive(Debug, Args)]
#[command(after_help = "EXAMPLES:\n  entrepot checkpoint advise --cost 5min --mtbf 24h")]
pub struct Checkpoint {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// The best interval between two checkpoints, after Young and Daly
    ///
    /// The interval is the time of computing between the end of one checkpoint and the beginning of the next.
    #[command(after_help = "\
EXAMPLES:
  entrepot checkpoint advise --cost 5min --mtbf 24h
  entrepot checkpoint advise --cost 40s --nodes 512 --node-mtbf 5years --restart 2min")]
    Advise {
        /// How long a checkpoint takes: 5min, 40s.
        #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
        cost: Duration,
        /// Mean time between failures of the whole application.
        #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, required_unless_present = "nodes")]
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
    },
}

impl Checkpoint {
    pub fn run(self) -> Result<u8> {
        let Verb::Advise { cost, mtbf, nodes, node_mtbf, restart, json } = self.verb;
        let mtbf = match (mtbf, nodes.zip(node_mtbf)) {
            (Some(mtbf), _) => mtbf.as_secs_f64(),
            (None, Some((nodes, of_node))) => of_node.as_secs_f64() / f64::from(nodes),
            (None, None) => return Err(Problem::wrong("neither --mtbf nor --nodes with --node-mtbf is given").into()),
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

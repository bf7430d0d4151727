//! `entrepot-lab sim cluster`: one volume on many nodes, and their load on the namespace, the store and the leader.

use super::words::span;
use crate::failure::Result;
use crate::table::{self, Answer, Column, Output, column};
use clap::Args;
use node::control::Problem;
use policy::Time;
use sim::cluster::{Costs, Figures, Load, Setup, run};

/// One volume on many nodes: leases, holds of files, moves, and the number of nodes at which each server saturates
///
/// Every node runs the machines of the live volume for its lease and its holds, and the store serves the table of
/// holders. Each call waits for its turn at the shared file system, the store or the leader. Costs of calls are
/// processor times, measured on one machine (docs/results/cluster-scale.md). At the end of each run the leader is
/// killed.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot-lab sim cluster
  entrepot-lab sim cluster --nodes 3,10,100,1000,3000 --output csv
  entrepot-lab sim cluster --nodes 1000 --shared 50            every second use is of a file of all nodes
  entrepot-lab sim cluster --nodes 1000 --watchers 1000        every node lists the leases every second
  entrepot-lab sim cluster --nodes 1000 --gone 40              a rack fails, and the leader is in it")]
pub struct Cluster {
    /// Nodes, a run for each number.
    #[arg(long, default_value = "1000", value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=10_000))]
    nodes: Vec<u32>,
    /// Targets of the volume.
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    targets: u32,
    /// Nodes that had the volume before, and are over.
    #[arg(long, default_value_t = 0, value_name = "N")]
    past: u32,
    /// Leave out the measures for many nodes: leases do not grow with them, names of nodes that are over stay, each
    /// node looks at all idle targets and reads all targets' states after an order.
    #[arg(long)]
    plain: bool,
    /// Number of the lowest nodes that look at the leases of the others every second; the live volume has 4.
    #[arg(long, default_value_t = policy::cluster::lease::Config::default().watchers, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    watchers: u32,
    /// Time between failures of nodes.
    #[arg(long, default_value = "20s", value_name = "TIME", value_parser = span)]
    fail_every: Time,
    /// Percentage of opened files that all nodes use.
    #[arg(long, default_value_t = 10, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(..=100))]
    shared: u32,
    /// Servers of the namespace.
    #[arg(long, default_value_t = Costs::default().servers, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    servers: u32,
    /// Cost to list one name of a directory.
    #[arg(long, value_name = "TIME", value_parser = span)]
    name: Option<Time>,
    /// Number of the lowest nodes that fail at the end, the leader first.
    #[arg(long, default_value_t = 1, value_name = "N")]
    gone: u32,
    /// Time that is counted, after 70 s that are not.
    #[arg(long, default_value = "30s", value_name = "TIME", value_parser = span)]
    span: Time,
    /// Seed of the simulation.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How to write it.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

impl Cluster {
    pub fn answer(&self) -> Result<Answer> {
        if let Some(few) = self.nodes.iter().find(|nodes| **nodes < self.gone) {
            let problem = Problem::wrong(format!("{} of {few} nodes cannot fail", self.gone));
            return Err(problem.so("nothing was simulated").try_this("give --gone a smaller number").into());
        }
        let figures: Vec<Figures> = self.nodes.iter().map(|nodes| run(&self.setup(*nodes))).collect();
        let columns = columns();
        let json = || table::json(&columns, &figures);
        Ok(table::answer(self.output, &columns, &figures, || text(&columns, &figures), json))
    }

    fn setup(&self, nodes: u32) -> Setup {
        let usual = Setup::default();
        let name = self.name.unwrap_or(usual.costs.name);
        Setup {
            nodes,
            targets: self.targets,
            past: self.past,
            plain: self.plain,
            lease: policy::cluster::lease::Config { watchers: self.watchers, ..usual.lease },
            costs: Costs { servers: self.servers, name, ..usual.costs },
            load: Load { shared: f64::from(self.shared) / 100.0, fail_every: Some(self.fail_every), ..usual.load },
            warm_up: usual.warm_up,
            span: self.span,
            gone: self.gone,
            seed: self.seed,
        }
    }
}

fn columns() -> Vec<Column<'static, Figures>> {
    vec![
        column("nodes", |of: &Figures| of.nodes).shown("nodes", 0),
        column("renewals", |of: &Figures| of.renewals).shown("renewals/s", 1),
        column("looks", |of: &Figures| of.looks),
        column("names", |of: &Figures| of.names).shown("names/s", 0),
        column("lapses", |of: &Figures| of.lapses).shown("lapsed", 0),
        column("expelled", |of: &Figures| of.expelled).shown("expelled", 0),
        column("lease_share", |of: &Figures| of.lease_share).digits(4).percent("leases %", 1),
        column("namespace_share", |of: &Figures| of.namespace_share).digits(4).percent("namespace %", 1),
        column("namespace_busy", |of: &Figures| of.namespace_busy).digits(4),
        column("open_ms", |of: &Figures| of.open_ms).digits(3).shown("open ms", 2),
        column("enter_ms", |of: &Figures| of.enter_ms).digits(3).shown("write ms", 2),
        column("wait_ms", |of: &Figures| of.wait_ms).digits(3).shown("p99 ms", 1),
        column("refused", |of: &Figures| of.refused).shown("refused", 0),
        column("cached", |of: &Figures| of.cached).digits(4).percent("cached %", 0),
        column("requests", |of: &Figures| of.requests).digits(3).shown("requests/open", 2),
        column("steps", |of: &Figures| of.steps).digits(3).shown("calls/open", 2),
        column("recalls", |of: &Figures| of.recalls).digits(1).shown("recalls/s", 1),
        column("moves", |of: &Figures| of.moves),
        column("moves_failed", |of: &Figures| of.moves_failed),
        column("move_ms", |of: &Figures| of.move_ms).digits(3).shown("move ms", 1),
        column("store_calls", |of: &Figures| of.store_calls).shown("store/s", 0),
        column("store_share", |of: &Figures| of.store_share).digits(4).percent("store %", 1),
        column("events", |of: &Figures| of.events),
        column("leader_share", |of: &Figures| of.leader_share).digits(4).percent("leader %", 1),
        column("leader_lag_s", |of: &Figures| of.leader_lag_s).digits(3),
        column("takeover_s", |of: &Figures| of.takeover_s).shown("takeover s", 1),
        column("lease_nodes", |of: &Figures| of.lease_nodes),
        column("namespace_nodes", |of: &Figures| of.namespace_nodes),
        column("store_nodes", |of: &Figures| of.store_nodes),
        column("leader_nodes", |of: &Figures| of.leader_nodes),
        column("order_s", |of: &Figures| of.order_s).digits(3).shown("order s", 2),
        column("back_s", |of: &Figures| of.back_s).digits(3).shown("back s", 2),
        column("space_looks", |of: &Figures| of.space_looks).digits(3).shown("looks/target", 2),
        column("start_s", |of: &Figures| of.start_s).digits(1),
    ]
}

/// The table, and the number of nodes at which each part saturates, which is the same for all rows.
fn text(columns: &[Column<'_, Figures>], figures: &[Figures]) -> String {
    let mut text = table::text(columns, figures);
    let Some(of) = figures.last() else { return text };
    let lines = [
        format!(
            "nodes whose leases the namespace serves: {}; with their calls for files: {}",
            of.lease_nodes, of.namespace_nodes
        ),
        format!(
            "nodes that the store serves: {}; whose events the leader processes: {}",
            of.store_nodes, of.leader_nodes
        ),
        format!(
            "with {} nodes: all that start at once have the volume open after {:.0} s, one after the other, if a turn takes what is guessed",
            of.nodes, of.start_s
        ),
    ];
    for line in lines {
        text += &format!("{line}\n");
    }
    text
}

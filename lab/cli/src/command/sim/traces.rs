//! Traces for a simulation, in the words of the command line: files and generated workloads.

use crate::failure::Result;
use clap::Args;
use node::control::Problem;
use sim::grid::TraceWish;
use std::path::PathBuf;

/// Options of the traces.
#[derive(Debug, Args)]
pub(super) struct TraceArgs {
    /// A trace; several are put together, each with files of its own (`sim cache`: each a client of one server).
    #[arg(long, value_name = "FILE")]
    trace: Vec<PathBuf>,
    /// A generated workload instead of a trace, in words: oltp, web, multi, vod, zipf, hotspot ...; see
    /// docs/reference/traces.md.
    #[arg(long, value_name = "WORKLOAD")]
    generate: Vec<String>,
    /// The seed of generated workloads.
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// The traces' format, if their content does not say.
    #[arg(long)]
    format: Option<String>,
    /// The traces' unit of time (s, ms, us, ns), if their format does not say.
    #[arg(long)]
    time_unit: Option<String>,
    /// Columns of a text trace: time[:s|ms|us|ns], offset and length[:bytes|sectors|blocks], op, client, device, file;
    /// `-` for others.
    #[arg(long, value_name = "COLUMNS")]
    columns: Option<String>,
    /// Skip and count malformed lines.
    #[arg(long)]
    lenient: bool,
    /// End after so many requests.
    #[arg(long, value_name = "N")]
    pub(super) limit_requests: Option<u64>,
}

impl TraceArgs {
    /// Whether none is named.
    pub(super) fn is_empty(&self) -> bool {
        self.trace.is_empty() && self.generate.is_empty()
    }

    /// The traces, files first; at least one.
    pub(super) fn wishes(&self) -> Result<Vec<TraceWish>> {
        if self.is_empty() {
            let problem = Problem::wrong("no trace is named").so("nothing was simulated");
            return Err(problem.try_this("give --trace FILE, or --generate WORKLOAD such as oltp:scale=0.1").into());
        }
        let common = TraceWish {
            format: self.format.clone(),
            time_unit: self.time_unit.clone(),
            columns: self.columns.clone(),
            lenient: self.lenient,
            seed: self.seed,
            ..TraceWish::default()
        };
        let files = self.trace.iter().map(|path| TraceWish {
            name: path.display().to_string(),
            path: Some(path.clone()),
            ..common.clone()
        });
        let generated = self.generate.iter().map(|workload| TraceWish {
            name: format!("{workload}, seed {}", self.seed),
            generate: Some(workload.clone()),
            ..common.clone()
        });
        Ok(files.chain(generated).collect())
    }
}

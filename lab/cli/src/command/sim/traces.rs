//! Traces for a simulation, in the words of the command line: files and generated workloads.

use super::setup_problem;
use crate::command::trace::Decoding;
use crate::failure::Result;
use clap::Args;
use node::control::Problem;
use sim::simulate::{Opener, Workload};
use sim::trace;
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
    #[command(flatten)]
    decoding: Decoding,
    /// End after so many requests.
    #[arg(long, value_name = "N")]
    pub(super) limit_requests: Option<u64>,
}

/// A trace with its name.
pub(super) struct NamedTrace {
    pub name: String,
    pub opener: Box<dyn Opener>,
}

impl TraceArgs {
    /// Whether none is named.
    pub(super) fn is_empty(&self) -> bool {
        self.trace.is_empty() && self.generate.is_empty()
    }

    /// The traces, files first; at least one. Blocks have `block_bytes` where the format counts in blocks.
    pub(super) fn named(&self, block_bytes: u32) -> Result<Vec<NamedTrace>> {
        if self.is_empty() {
            let problem = Problem::wrong("no trace is named").so("nothing was simulated");
            return Err(problem.try_this("give --trace FILE, or --generate WORKLOAD such as oltp:scale=0.1").into());
        }
        let file = |path: &PathBuf| {
            let (path, options) = (path.clone(), self.decoding.options(Some(block_bytes)));
            NamedTrace { name: path.display().to_string(), opener: Box::new(move || trace::open(&path, &options)) }
        };
        let mut traces: Vec<NamedTrace> = self.trace.iter().map(file).collect();
        for words in &self.generate {
            let (workload, seed) = (Workload::parse(words).map_err(|error| setup_problem(&error))?, self.seed);
            let opener = Box::new(move || Ok(workload.open(seed)));
            traces.push(NamedTrace { name: format!("{words}, seed {seed}"), opener });
        }
        Ok(traces)
    }
}

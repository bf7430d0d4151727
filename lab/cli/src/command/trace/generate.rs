//! `entrepot-lab trace generate`: traces with the characteristics of published workloads.

use super::{not_written, whole};
use crate::failure::Result;
use crate::shown;
use clap::Args;
use node::control::Problem;
use sim::simulate::Workload;
use sim::trace::Target;
use std::path::PathBuf;

/// Generate a trace, in the native format; the same seed gives the same bytes everywhere
#[derive(Debug, Args)]
#[command(after_help = "\
WORKLOADS (also of `sim --generate`), with parameters after a colon:
  oltp, web    like the SPC traces: scale (share of the published footprint and amount); oltp: reads (share; Financial1 has 0.23)
  multi        like the Purdue trace: scale
               all three: calls (most requests that one call joins), crossing (share of pages that cross two blocks)
  vod          video on demand: streams, random (readers), drawn (1: each stream draws its request size), seconds
  copies, downloads   files to sites of falling bandwidth: seconds
  rates        streams: rates (1000/3000, per second), sigma (0/3, of the mean), gaps (1/3, their variation), seconds
  zipf, hotspot, scan, scan-over   footprint (MiB), request (KiB), requests, writes (share), rate (per second), theta, or
               spot (share) and shift (requests), scatter (0: blocks of similar popularity are adjacent)
  queries, webserver   scale

EXAMPLES:
  entrepot-lab trace generate oltp oltp.trace.zst --seed 1
  entrepot-lab trace generate vod:streams=32,seconds=120 vod.trace
  entrepot-lab trace generate rates:rates=1000/7000 two.trace")]
pub(super) struct Generate {
    /// The workload and its parameters.
    workload: String,
    /// The file to write; compressed if it ends with .zst or .gz.
    to_file: PathBuf,
    /// Seed of the generator.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Generate {
    pub(super) fn run(self) -> Result<u8> {
        let workload = Workload::parse(&self.workload).map_err(|error| {
            Problem::wrong(error.to_string()).so("nothing was generated").try_this("give such as zipf:theta=0.8")
        })?;
        let written = whole(&self.to_file, Target::Native { block_bytes: 0, has_times: true }, |writer| {
            // A generated trace has no malformed lines.
            workload.open(self.seed).flatten().try_for_each(|r| writer.write(&r).map_err(not_written))
        })?;
        shown::text(&format!("{} records in {}, seed {}\n", written.records, self.to_file.display(), self.seed))?;
        Ok(0)
    }
}

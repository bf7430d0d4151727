//! `entrepot-lab sim recovery`: a lost target, and its objects from their source.

use super::words::{rate, size, size_or_none, span};
use crate::failure::Result;
use crate::table::{self, Answer, Output, column};
use clap::Args;
use policy::time::Time;
use serde_json::json;
use sim::recovery::{Figures, Setup, Source, run};

/// Recovery of lost objects from their source: detection, patch, and the time that readers lose
///
/// The coordinator is the one of the mount. Without --reader the objects are patched before a job starts.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot-lab sim recovery --size 512MiB --count 32 --stripe 4MiB
  entrepot-lab sim recovery --size 256MiB --rate 6.31 --reader 10 --mid-way")]
pub struct Recovery {
    /// Size of each file.
    #[arg(long, default_value = "256MiB", value_name = "SIZE", value_parser = size)]
    size: u64,
    /// Files that lost an object, each with a reader.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=4096))]
    files: u64,
    /// Bytes of a stripe.
    #[arg(long, default_value = "1MiB", value_name = "SIZE", value_parser = size)]
    stripe: u64,
    /// Objects of each file.
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=512))]
    count: u32,
    /// MB/s of the source.
    #[arg(long, default_value_t = 34.41, value_name = "MB/S", value_parser = rate)]
    rate: f64,
    /// Time to open a session at the source.
    #[arg(long, default_value = "0ms", value_name = "TIME", value_parser = span)]
    session: Time,
    /// Delay of a range that does not follow the one before.
    #[arg(long, default_value = "10ms", value_name = "TIME", value_parser = span)]
    seek: Time,
    /// Distance that the source reads ahead; a nearer range costs its share of the delay.
    #[arg(long, default_value = "0", value_name = "SIZE", value_parser = size_or_none)]
    window: u64,
    /// Ranges of a file under way at once.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    at_once: u32,
    /// Targets that are probed.
    #[arg(long, default_value_t = 32, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    targets: u64,
    /// Time of a probe at the node that probes.
    #[arg(long, default_value = "0.6ms", value_name = "TIME", value_parser = span)]
    probe: Time,
    /// Time after which a target without an answer has failed.
    #[arg(long, default_value = "25s", value_name = "TIME", value_parser = span)]
    timeout: Time,
    /// Time of a step of the metadata.
    #[arg(long, default_value = "5ms", value_name = "TIME", value_parser = span)]
    metadata: Time,
    /// Mean MB/s at which a program reads each file; its pace varies.
    #[arg(long, value_name = "MB/S", value_parser = rate)]
    reader: Option<f64>,
    /// The target fails when half of each file is read, and not before.
    #[arg(long, requires = "reader")]
    mid_way: bool,
    /// Seed of the readers' pace.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How to write it.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

impl Recovery {
    pub fn answer(&self) -> Result<Answer> {
        let source = Source { rate: self.rate * 1e6, session: self.session, seek: self.seek, window: self.window };
        let setup = Setup {
            size: self.size,
            files: self.files,
            stripe_size: self.stripe,
            stripe_count: self.count as usize,
            source,
            at_once: self.at_once as usize,
            targets: self.targets,
            probe: self.probe,
            timeout: self.timeout,
            metadata: self.metadata,
            reader: self.reader.map(|rate| rate * 1e6),
            mid_way: self.mid_way,
            seed: self.seed,
        };
        let columns = [
            column("probe_s", |of: &Figures| of.probe_s).digits(4).shown("probe s", 4),
            column("detect_s", |of: &Figures| of.detect_s).digits(4).shown("detection s", 2),
            column("steps", |of: &Figures| of.steps).shown("metadata steps", 0),
            column("patch_s", |of: &Figures| of.patch_s).digits(4).shown("patch s", 3),
            column("stage_s", |of: &Figures| of.stage_s).digits(4).shown("whole file s", 3),
            column("overhead_s", |of: &Figures| of.overhead_s).digits(4).shown("readers lose s", 3),
        ];
        let rows = [run(&setup)];
        let json = || json!(table::json(&columns, &rows)[0]);
        Ok(table::answer(self.output, &columns, &rows, || table::text(&columns, &rows), json))
    }
}

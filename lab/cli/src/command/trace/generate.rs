//! `entrepot-lab trace generate`: traces with the characteristics of published workloads.

use super::whole;
use crate::failure::{Failure, Result};
use crate::shown;
use clap::{Args, Subcommand};
use node::control::Problem;
use sim::generate::{self, Arrivals, Mixed, MixedShape, Multi, MultiShape};
use sim::simulate::Workload;
use sim::trace::{Record, Target};
use std::path::PathBuf;

/// Generate a trace, in the native format; the same seed gives the same bytes everywhere
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot-lab trace generate oltp oltp.trace.zst --seed 1
  entrepot-lab trace generate vod vod.trace --streams 32 --seconds 120
  entrepot-lab trace generate streams two.trace --rates 1000,7000
  entrepot-lab trace generate streams uneven.trace --rates 1000,1000 --arrivals poisson,5")]
pub(super) struct Generate {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Debug, Args)]
struct Common {
    /// The file to write; compressed if it ends with .zst or .gz.
    to_file: PathBuf,
    /// Seed of the generator.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Debug, Args)]
struct Scaled {
    /// Share of the published footprint and amount, for quick runs.
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
}

#[derive(Debug, Subcommand)]
enum Kind {
    /// Sequential streams of 4 KiB reads with given rates
    #[command(after_help = "EXAMPLES:\n  entrepot-lab trace generate streams two.trace --rates 1000,7000")]
    Streams {
        #[command(flatten)]
        common: Common,
        /// Requests per second of each stream.
        #[arg(long, value_delimiter = ',', default_value = "1000,3000")]
        rates: Vec<f64>,
        /// How requests of each stream come: `even`, `poisson`, or a number: the standard deviation of the rate over
        /// 100 ms as a multiple of its mean. The last one holds for the streams after it.
        #[arg(long, value_delimiter = ',', default_value = "even", value_parser = arrivals)]
        arrivals: Vec<Arrivals>,
        /// Length in seconds.
        #[arg(long, default_value_t = 30)]
        seconds: u64,
    },
    /// Video on demand: a request every 33 ms per stream, of 16 to 128 KiB
    #[command(after_help = "EXAMPLES:\n  entrepot-lab trace generate vod vod.trace --streams 32 --random-readers 4")]
    Vod {
        #[command(flatten)]
        common: Common,
        /// Number of streams.
        #[arg(long, default_value_t = 16)]
        streams: u32,
        /// Random readers beside them, 30 reads of 8 KiB per second each.
        #[arg(long, default_value_t = 0)]
        random_readers: u32,
        /// Length in seconds.
        #[arg(long, default_value_t = 60)]
        seconds: u64,
    },
    /// Copies of files of 128 MiB: one local, one to NFS, six by scp to sites of falling bandwidth
    #[command(after_help = "EXAMPLES:\n  entrepot-lab trace generate copy copy.trace --seconds 60")]
    Copy {
        #[command(flatten)]
        common: Common,
        /// Length in seconds.
        #[arg(long, default_value_t = 30)]
        seconds: u64,
    },
    /// A web server's downloads: five sites of falling bandwidth, four downloads each
    #[command(after_help = "EXAMPLES:\n  entrepot-lab trace generate downloads web-server.trace --seconds 60")]
    Downloads {
        #[command(flatten)]
        common: Common,
        /// Length in seconds.
        #[arg(long, default_value_t = 30)]
        seconds: u64,
    },
    /// Like the SPC OLTP trace: 11 % random, 529 MiB footprint, 10 GiB requested
    #[command(after_help = "EXAMPLES:\n  entrepot-lab trace generate oltp oltp.trace.zst --reads 0.23")]
    Oltp {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        scaled: Scaled,
        /// Share of reads (the whole Financial1 has 0.23).
        #[arg(long, default_value_t = 1.0)]
        reads: f64,
    },
    /// Like the SPC Web trace: 74 % random, 8392 MiB footprint, 10 GiB requested
    #[command(after_help = "EXAMPLES:\n  entrepot-lab trace generate web web.trace.zst --scale 0.1")]
    Web {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        scaled: Scaled,
    },
    /// Any workload that the simulators generate, in the words of their `--generate`
    #[command(
        after_help = "EXAMPLES:\n  entrepot-lab trace generate workload hotspot:spot=0.05,shift=60000 hotspot.trace.zst\n  entrepot-lab trace generate workload webserver:scale=0.1 web-server.trace.zst --seed 2"
    )]
    Workload {
        /// zipf, hotspot, scan, scan-over, queries, webserver, oltp, web ... and parameters after a colon; see
        /// docs/guide/simulator.md.
        words: String,
        #[command(flatten)]
        common: Common,
    },
    /// Like the Purdue Multi trace: cscope, gcc and viewperf on 12 514 files of 792 MiB, 25 % random, closed loop
    #[command(after_help = "EXAMPLES:\n  entrepot-lab trace generate multi multi.trace.zst")]
    Multi {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        scaled: Scaled,
    },
}

/// A window of rates that vary; guessed, for the paper names none.
const WINDOW_NS: u64 = 100_000_000;

/// The largest deviation: one window in 10 001 has all requests.
const SIGMA_MAX: f64 = 100.0;

fn arrivals(word: &str) -> std::result::Result<Arrivals, String> {
    match word {
        "even" => Ok(Arrivals::Constant),
        "poisson" => Ok(Arrivals::Poisson),
        number => match number.parse() {
            Ok(sigma) if (0.0..=SIGMA_MAX).contains(&sigma) => Ok(Arrivals::Bursty { sigma, window_ns: WINDOW_NS }),
            _ => Err(format!("`even`, `poisson`, or a number from 0 to {SIGMA_MAX}")),
        },
    }
}

fn wrong(cause: &str, next_step: &str) -> Failure {
    Failure::Problem(Problem::wrong(cause).so("nothing was generated").try_this(next_step))
}

impl Scaled {
    fn checked(&self) -> Result<f64> {
        let fine = self.scale > 0.0 && self.scale <= 100.0;
        if fine { Ok(self.scale) } else { Err(wrong("--scale must be above 0 and at most 100", "give 1 or 0.1")) }
    }
}

impl Generate {
    pub(super) fn run(self) -> Result<u8> {
        match self.kind {
            Kind::Streams { common, rates, arrivals, seconds } => {
                if rates.iter().any(|r| !(0.001..=1e9).contains(r)) {
                    return Err(wrong("a rate must be from 0.001 to 1e9 per second", "give such as --rates 1000,3000"));
                }
                let last = arrivals.last().copied().unwrap_or(Arrivals::Constant);
                let arrivals = arrivals.iter().copied().chain(std::iter::repeat(last));
                let streams: Vec<_> = rates.into_iter().zip(arrivals).collect();
                common.write(generate::rates(&streams, seconds, common.seed))
            }
            Kind::Vod { common, streams, random_readers, seconds } => {
                common.write(generate::vod(streams, random_readers, seconds, false, common.seed))
            }
            Kind::Copy { common, seconds } => common.write(generate::copies(seconds, common.seed)),
            Kind::Downloads { common, seconds } => common.write(generate::downloads(seconds, common.seed)),
            Kind::Oltp { common, scaled, reads } => {
                if !(0.0..=1.0).contains(&reads) {
                    return Err(wrong("--reads must be from 0 to 1", "give such as --reads 0.23"));
                }
                let shape = MixedShape { read_share: reads, ..generate::oltp_like().scaled(scaled.checked()?) };
                common.write(Mixed::new(shape, common.seed))
            }
            Kind::Web { common, scaled } => {
                common.write(Mixed::new(generate::web_like().scaled(scaled.checked()?), common.seed))
            }
            Kind::Workload { words, common } => {
                let workload =
                    Workload::parse(&words).map_err(|e| wrong(&e.to_string(), "give such as zipf:theta=0.8"))?;
                // A generated trace has no malformed lines.
                common.write(workload.open(common.seed).flatten())
            }
            Kind::Multi { common, scaled } => {
                common.write(Multi::new(MultiShape::default().scaled(scaled.checked()?), common.seed))
            }
        }
    }
}

impl Common {
    fn write(&self, mut records: impl Iterator<Item = Record>) -> Result<u8> {
        let written = whole(&self.to_file, Target::Native { block_bytes: 0, has_times: true }, |writer| {
            records.try_for_each(|r| writer.write(&r).map_err(super::not_written))
        })?;
        shown::text(&format!("{} records in {}, seed {}\n", written.records, self.to_file.display(), self.seed))?;
        Ok(0)
    }
}

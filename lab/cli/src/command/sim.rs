//! `entrepot-lab sim`: worlds in virtual time.

mod burst;
mod cache;
mod center;
mod cluster;
mod connections;
mod disk;
mod figures;
mod recovery;
mod replacement;
mod stripe;
mod tier;
mod traces;
mod volume;
mod words;

use super::said;
use crate::failure::Result;
use crate::shown;
use crate::table::{Answer, Output};
use clap::{Args, Subcommand};
use node::control::Problem;
use sim::replay::SurveyError;
use sim::setup::SetupError;
use sim::simulate::SimulateError;
use std::sync::atomic::{AtomicBool, Ordering};
pub use words::size;

/// Simulate caches, prefetchers, disks and computing centres in virtual time
///
/// The policies are the ones that the mount runs. The same command with the same input writes the same bytes, on any
/// machine.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot-lab sim cache --trace oltp.spc --l1 linux --l1-size 5% --l2 sarc --l2-size 200% --coordinator pfc
  entrepot-lab sim center --jobs KTH.swf.gz --failures lanl.csv.gz --sweep stripes=2,8,32 --sweep recovery=none,on-the-fly,ideal
  entrepot-lab sim cluster --nodes 3,10,100,1000
  entrepot-lab sim connections --read --depth 16
  entrepot-lab sim disk validate measurements/
  entrepot-lab sim recovery --size 512MiB --count 32
  entrepot-lab sim replacement --trace OLTP.lis.zst --policy lru,arc,s3-fifo --size 1000,5%
  entrepot-lab sim burst --dwpp 1.6 --congestion high
  entrepot-lab sim stripe run --devices 24
  entrepot-lab sim tier --generate zipf:theta=1.0 --fast-size 20%
  entrepot-lab sim volume volume.toml --faults 2")]
pub struct Sim {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Burst(Box<burst::Burst>),
    Cache(Box<cache::Cache>),
    Center(Box<center::Center>),
    Cluster(Box<cluster::Cluster>),
    Connections(Box<connections::Connections>),
    Disk(disk::Disk),
    Recovery(Box<recovery::Recovery>),
    Replacement(Box<replacement::Replacement>),
    Stripe(Box<stripe::Stripe>),
    Tier(Box<tier::Tier>),
    Volume(Box<volume::Volume>),
}

impl Sim {
    pub fn run(self) -> Result<u8> {
        match self.verb {
            Verb::Center(center) => center.run(),
            Verb::Disk(disk) => disk.run(),
            verb => verb.answer()?.write(),
        }
    }

    /// The answer, without remarks.
    pub fn quiet_answer(&self) -> Result<Answer> {
        QUIET.store(true, Ordering::Relaxed);
        self.verb.answer()
    }
}

impl Verb {
    fn answer(&self) -> Result<Answer> {
        match self {
            Verb::Burst(burst) => burst.answer(),
            Verb::Cache(cache) => cache.answer(),
            Verb::Center(center) => Ok(center.answer()?.0),
            Verb::Cluster(cluster) => cluster.answer(),
            Verb::Connections(connections) => connections.answer(),
            Verb::Disk(_) => Err(super::no_answer()),
            Verb::Recovery(recovery) => recovery.answer(),
            Verb::Replacement(replacement) => replacement.answer(),
            Verb::Stripe(stripe) => stripe.answer(),
            Verb::Tier(tier) => tier.answer(),
            Verb::Volume(volume) => volume.answer(),
        }
    }
}

/// Whether remarks are left out, because many simulations run side by side.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Writes a remark beside the answer: on standard output for people, on standard error otherwise.
fn remark(output: Output, text: &str) -> Result<()> {
    match output {
        _ if QUIET.load(Ordering::Relaxed) => {}
        Output::Text => shown::text(text)?,
        _ => eprint!("{text}"),
    }
    Ok(())
}

fn setup_problem(error: &SetupError) -> Problem {
    said(&error.to_string(), true)
}

fn survey_problem(error: &SurveyError) -> Problem {
    match error {
        SurveyError::Trace(error) => super::trace::problem(error),
        _ => said(&error.to_string(), false),
    }
}

fn simulate_problem(error: &SimulateError) -> Problem {
    if let SimulateError::Survey(error) = error {
        return survey_problem(error);
    }
    let wrong = matches!(error, SimulateError::Setup(_) | SimulateError::Level(_) | SimulateError::NoTimes { .. });
    said(&error.to_string(), wrong)
}

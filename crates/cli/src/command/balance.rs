//! `entrepot balance`: evens out the fill of the targets of each tier.

use crate::connect::Context;
use crate::failure::Result;
use crate::shown::{self, Output};
use clap::builder::ValueParser;
use clap::{Args, Subcommand};
use node::control::answers::{self, BalanceOutcome};
use node::control::{Request, exit};
use std::time::Duration;

/// Interval of progress checks with `--wait`.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Even out the fill of the targets of each tier, after one was added
///
/// Files move from targets that are fuller than their tier to emptier ones, at the speed of `[mover] rate`, until each
/// is as full as its tier within the spread. No file changes its tier, and widths and mirrors stay. Files in use stay
/// where they are, and so do checkpoints, input that has a copy for a job, and merged files. `entrepot events` names
/// each move with its reason. On a volume of several nodes the leader does it, whichever node runs the command. A
/// restart of its daemon ends it, and so does a change of the leader: moved files stay moved, `entrepot balance
/// status` reports the end (exit code 7), and `start` begins with the rest.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot target add fast3 /nvme3/entrepot --tier fast && entrepot balance start
  entrepot balance status
  entrepot balance pause      and later: entrepot balance resume")]
pub struct Balance {
    #[command(subcommand)]
    verb: Verb,
    /// Format of the output.
    #[arg(long, value_enum, default_value = "text", global = true)]
    output: Output,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Start balancing targets
    #[command(after_help = "EXAMPLES:\n  entrepot balance start\n  entrepot balance start --spread 2% --wait")]
    Start {
        /// Largest difference between the fill of a target and that of its tier.
        #[arg(long, default_value = "5%", value_parser = percent(), value_name = "PERCENT")]
        spread: u64,
        /// Return at the end of the balance.
        #[arg(long)]
        wait: bool,
    },
    /// Show the progress of the present balance, or the end of the last one
    #[command(after_help = "EXAMPLES:\n  entrepot balance status\n  entrepot balance status --output json")]
    Status,
    /// Pause the moves
    #[command(after_help = "EXAMPLES:\n  entrepot balance pause")]
    Pause,
    /// Resume the moves
    #[command(after_help = "EXAMPLES:\n  entrepot balance resume")]
    Resume,
    /// End the balance; moved files stay moved
    #[command(after_help = "EXAMPLES:\n  entrepot balance stop")]
    Stop,
}

/// Parses percents to thousandths.
fn percent() -> ValueParser {
    ValueParser::from(|text: &str| {
        let number = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>().ok();
        let number = number.filter(|number| (0.1..=50.0).contains(number));
        number.map(|number| (number * 10.0).round() as u64).ok_or("give a percentage from 0.1% to 50%, such as `5%`")
    })
}

impl Balance {
    pub fn run(self, context: &Context) -> Result<u8> {
        let (request, waits) = match self.verb {
            Verb::Start { spread, wait } => (Request::StartBalance { spread }, wait),
            Verb::Status => (Request::Balance {}, false),
            Verb::Pause => (Request::PauseBalance {}, false),
            Verb::Resume => (Request::ResumeBalance {}, false),
            Verb::Stop => (Request::StopBalance {}, true),
        };
        let answer = context.ask_store(&request)?;
        let answer = if waits { waited(context)? } else { answer };
        shown::value(self.output, &answer, text)?;
        Ok(match answer.run.outcome {
            Some(BalanceOutcome::Failed) => exit::FAILED,
            Some(BalanceOutcome::Cut) => exit::INCOMPLETE,
            _ => 0,
        })
    }
}

fn waited(context: &Context) -> Result<answers::Balance> {
    loop {
        let answer: answers::Balance = context.ask_store(&Request::Balance {})?;
        if answer.state == "idle" {
            return Ok(answer);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn text(answer: &answers::Balance) -> String {
    let answers::Balance { state, run } = answer;
    let answers::BalanceRun { host, pass, files, kept, moves, bytes, ended, .. } = run;
    let made = format!("{} of {}", shown::count(*moves, "move"), shown::bytes(*bytes));
    match ended {
        _ if state != "idle" => format!(
            "{state}: {made} made; pass {pass}, {files} files seen, {kept} of them kept where they lie (by {host})\n"
        ),
        None => "the volume was not balanced so far\n".into(),
        Some(ended) => format!("{made} made; {ended}\n"),
    }
}

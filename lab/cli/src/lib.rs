//! The laboratory's command line: parses it, runs the subcommand's file, prints errors. Programs take the answer of a
//! command instead of its output.

mod chart;
mod command;
mod table;

pub use command::answer;
pub use failure::Failure;
pub use node::control::exit;
pub use table::Answer;

use clap::Parser;
use std::process::ExitCode;
use terminal::{failure, log, served, shown};

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    match command::Cli::parse().run() {
        Ok(code) => ExitCode::from(code),
        Err(failure) => failure.show(),
    }
}

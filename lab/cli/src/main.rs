//! The laboratory's binary, `entrepot-lab`: parses the command line, runs the subcommand's file, prints errors.

mod chart;
mod command;
mod table;

use clap::Parser;
use std::process::ExitCode;
use terminal::{failure, log, served, shown};

fn main() -> ExitCode {
    match command::Cli::parse().run() {
        Ok(code) => ExitCode::from(code),
        Err(failure) => failure.show(),
    }
}

//! The laboratory's binary, `entrepot-lab`: reads the command line, hands it to the subcommand's file, shows what went wrong.

mod command;

use clap::Parser;
use std::process::ExitCode;
use terminal::{failure, log, served, shown, table};

fn main() -> ExitCode {
    match command::Cli::parse().run() {
        Ok(code) => ExitCode::from(code),
        Err(failure) => failure.show(),
    }
}

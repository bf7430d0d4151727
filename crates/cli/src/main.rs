//! The binary of operators and users, `entrepot`: parses the command line, runs the subcommand's file, prints errors.

mod accounts_on_volume;
mod answer;
mod command;
mod connect;
mod connections_in_numbers;
mod copies_on_volume;
mod dashboard;
mod inputs_on_volume;
mod jobs_in_numbers;
mod jobs_on_volume;
mod listed;
mod mount_form;
mod promises_on_volume;
mod users;
mod values;

use std::process::ExitCode;
use terminal::{failure, log, served, shown, table};

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    if let Some(asked) = command::complete::CompletionRequest::read(&words) {
        return asked.run().map_or_else(|failure| failure.show(), ExitCode::from);
    }
    let done = match mount_form::read(&words) {
        Some(asked) => asked.run(),
        None => command::Cli::read().and_then(command::Cli::run),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(failure) => failure.show(),
    }
}

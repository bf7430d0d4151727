//! Failures of commands, shown as cause, consequence and next step.

use engine::volume::Problems;
use node::control::{Problem, exit};
use serde::{Deserialize, Serialize};
use std::io::IsTerminal;
use std::process::ExitCode;

/// Reason why a command failed.
#[derive(Debug, Serialize, Deserialize)]
pub enum Failure {
    /// A single problem.
    Problem(Problem),
    /// The configuration is wrong, maybe in several places.
    Configuration(Problems),
    /// All messages have been printed; only the exit code is left.
    Said(u8),
}

/// Result of a command: its exit code.
pub type Result<T> = std::result::Result<T, Failure>;

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Failure {
        Failure::Problem(problem)
    }
}

impl From<Problems> for Failure {
    fn from(problems: Problems) -> Failure {
        Failure::Configuration(problems)
    }
}

impl From<std::io::Error> for Failure {
    fn from(e: std::io::Error) -> Failure {
        if e.kind() == std::io::ErrorKind::BrokenPipe {
            // The reader of our output closed the pipe: no failure.
            return Failure::Said(0);
        }
        Failure::Problem(Problem::new(exit::of_io(&e), e.to_string()).try_this(exit::next_of_io(&e)))
    }
}

impl Failure {
    /// Returns the system's error about a named thing, with the exit code of that cause.
    pub fn of_io(what: &str, e: &std::io::Error) -> Problem {
        Problem::new(exit::of_io(e), format!("{what}: {e}")).try_this(exit::next_of_io(e))
    }

    /// Writes it to standard error and returns the exit code.
    pub fn show(&self) -> ExitCode {
        let code = match self {
            Failure::Problem(p) => {
                show(&p.cause, &p.consequence, &p.next_step);
                p.exit_code
            }
            Failure::Configuration(problems) => {
                for p in &problems.0 {
                    let place = p
                        .place
                        .as_ref()
                        .map_or(String::new(), |(file, line, column)| format!("{}:{line}:{column}: ", file.display()));
                    show(&format!("{place}{}", p.cause), &p.consequence, &p.mend);
                }
                problems.0.iter().find_map(|p| p.exit_code).unwrap_or(exit::WRONG_INPUT)
            }
            Failure::Said(code) => *code,
        };
        ExitCode::from(code)
    }
}

fn show(cause: &str, consequence: &str, next_step: &str) {
    let (bold, plain) = if std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
        ("\x1b[1;31m", "\x1b[0m")
    } else {
        ("", "")
    };
    let [cause, consequence, next_step] = [cause, consequence, next_step].map(crate::shown::inert);
    eprintln!("{bold}error:{plain} {cause}");
    eprintln!("  so:   {consequence}");
    eprintln!("  next: {next_step}");
}

//! The supervisor that each part of a job runs under: `entrepot job-exec --spec FILE [--step N]`.

use std::path::Path;
use std::process::ExitCode;

/// Runs the part that the file describes. With a step it becomes that command itself, as the user.
pub fn main(spec: &Path, step: Option<usize>) -> ExitCode {
    let _ = (spec, step);
    todo!()
}

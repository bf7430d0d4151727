//! The supervisor alone, for the tests of the runner. In the product it is `entrepot job-exec`.

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["--spec", spec] => jobs::exec::main(&PathBuf::from(spec), None),
        ["--spec", spec, "--step", step] => match step.parse() {
            Ok(step) => jobs::exec::main(&PathBuf::from(spec), Some(step)),
            Err(_) => ExitCode::from(2),
        },
        _ => {
            eprintln!("usage: job_exec --spec FILE [--step N]");
            ExitCode::from(2)
        }
    }
}

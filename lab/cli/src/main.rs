//! The laboratory's binary, `entrepot-lab`.

use std::process::ExitCode;

fn main() -> ExitCode {
    lab::main()
}

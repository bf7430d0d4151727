//! `entrepot checkpoint restart`: the directory of the newest complete version, for scripts.

use crate::connect::{Context, not_mounted};
use crate::failure::Result;
use crate::shown::{self, Output};
use clap::Args;
use node::control::answers::{self, read};
use node::control::{Client, Request};
use std::path::Path;

/// Print the directory of the newest complete version, to restart from
///
/// No other output is printed. Without a version the exit code is 5, and a script begins from the start. The directory
/// is the `--path` of `begin`; for versions that were recognised by their paths, or renamed since, it is the innermost
/// directory with all their files. A version with a removed file is skipped.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot checkpoint restart wave
  cp -r \"$(entrepot checkpoint restart wave)\"/. .
  if from=$(entrepot checkpoint restart wave); then ./wave --from \"$from\"; else ./wave; fi
  entrepot checkpoint restart wave --output json | jq -r .label")]
pub struct Restart {
    /// Name of the application.
    app: String,
    /// Format of the output.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

impl Restart {
    pub fn run(self, context: &Context) -> Result<u8> {
        let volume = context.find()?;
        let Some(at) = &volume.mount_point else {
            return Err(not_mounted("the volume is not mounted here"));
        };
        let mut client = Client::connect(&volume.socket())?;
        let mut version: answers::Restart = read(client.ask(&Request::RestartFrom { app: self.app }, &mut |_| {})?)?;
        version.directory = in_mount(at, &version.directory);
        shown::value(self.output, &version, |version| format!("{}\n", version.directory))?;
        Ok(0)
    }
}

/// Path of a directory of the volume below the mount point.
fn in_mount(at: &Path, directory: &str) -> String {
    if directory.is_empty() { at.display().to_string() } else { at.join(directory).display().to_string() }
}

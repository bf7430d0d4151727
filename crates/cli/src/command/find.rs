//! `entrepot find`: lists files by their place and their use.

use crate::connect::{Context, Inside};
use crate::failure::Result;
use crate::shown::{self, Output};
use crate::users;
use crate::values;
use clap::Args;
use node::control::answers::{File, Search, read};
use node::control::{Client, Find as Asked, FindState, Request, exit};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;

/// Names of the states.
const FIND_STATES: [&str; 4] = ["away", "stale", "partial", "unmirrored"];

/// List files by target, tier, owner, age, size or state
///
/// Each line is a path below the mount point, in the order of the scan. Root and the user who runs the daemon find all
/// files, other users their own. Age counts from the last use: the last write, or the last read that the namespace's
/// file system recorded. Small files in stubs are on no target. A file must match all options. The exit code is 7 if a
/// part could not be read.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot find --target fast0                        files that a drain of fast0 would move
  entrepot find --user ada --older 30d --larger 1GB
  entrepot find /mnt/scratch/run --state away         files that cannot be read now
  cd /mnt/scratch && entrepot find --older 90d --print0 | xargs -0 ls -l")]
pub struct Find {
    /// Only files with a part on this target.
    #[arg(long, value_name = "NAME")]
    target: Option<String>,
    /// Only files with a part on this tier.
    #[arg(long, value_name = "NAME")]
    tier: Option<String>,
    /// Only files of this user, by name or number.
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Only files not used for longer than this, such as `30d`.
    #[arg(long, value_name = "SPAN", value_parser = values::span_s)]
    older: Option<u64>,
    /// Only files used within this time, such as `12h`.
    #[arg(long, value_name = "SPAN", value_parser = values::span_s)]
    newer: Option<u64>,
    /// Only files larger than this, such as `1GB`.
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    larger: Option<u64>,
    /// Only files in this state: `away` has no complete mirror on working targets, `stale` has a mirror that missed a
    /// write, `partial` is being recovered, `unmirrored` has fewer than two mirrors in sync.
    #[arg(long, value_name = "STATE", value_parser = values::word::<FindState>(FIND_STATES))]
    state: Option<FindState>,
    /// End each path with a zero byte, for `xargs -0`.
    #[arg(long, conflicts_with = "output")]
    print0: bool,
    /// Format of the output; `json` has a line for each file.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
    /// Directory to search; default: the whole volume.
    dir: Option<PathBuf>,
}

impl Find {
    pub fn run(self, context: &Context) -> Result<u8> {
        let Inside { volume, path } = context.inside_or_root(self.dir.as_deref())?;
        let asked = Asked {
            path,
            target: self.target,
            tier: self.tier,
            uid: self.user.as_deref().map(users::number_of).transpose()?,
            older_s: self.older,
            newer_s: self.newer,
            larger: self.larger,
            state: self.state,
        };
        let mut client = Client::connect(&volume.socket())?;
        let mut out = std::io::BufWriter::new(std::io::stdout().lock());
        let on_terminal = std::io::stdout().is_terminal();
        let mut written = Ok(());
        let done = client.ask(&Request::Find(asked), &mut |file| {
            let path = || read::<File>(file.clone()).unwrap_or_default().path;
            let line = match (self.output, self.print0) {
                (Output::Json, _) => shown::inert_json(&file.to_string()) + "\n",
                (Output::Text, true) => path() + "\0",
                (Output::Text, false) if on_terminal => shown::plain(&path()) + "\n",
                (Output::Text, false) => path() + "\n",
            };
            if written.is_ok() {
                written = out.write_all(line.as_bytes());
            }
            if written.is_err() {
                // The output is closed. The daemon stops when this connection closes.
                std::process::exit(exit::FAILED.into());
            }
        })?;
        out.flush()?;
        let Search { unread, .. } = read(done)?;
        Ok(super::code_of_unread(unread))
    }
}

//! `entrepot df`: space by target and tier, or by user, age or directory.

use crate::answer;
use crate::connect::{Context, Inside};
use crate::failure::Result;
use crate::shown::{self, Output};
use crate::users;
use crate::values;
use clap::Args;
use node::control::answers::{Space, SpaceRow, Sum, Targets, read};
use node::control::{Client, Request, SpaceBy};
use std::path::PathBuf;

/// Show the size and use of targets, or the space that files take
///
/// Without `--by` the command shows size, used and free space of each target, of each tier and of the volume. Space
/// that several targets share on one file system is counted once. With `--by` it sums files, and scans every name, as
/// `entrepot find` does. `size` is the sum of file lengths; `on targets` counts each mirror, and no small files in
/// stubs. Root and the user who runs the daemon see all files, other users their own. The exit code is 7 if a part
/// could not be read.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot df                              space of each target
  entrepot df --by user                    space by owner
  entrepot df --by age /mnt/scratch/run    space by time since the last use
  entrepot df --by dir --output json")]
pub struct Df {
    /// Key to sum files by.
    #[arg(long, value_parser = values::explained::<SpaceBy>(KEYS))]
    by: Option<SpaceBy>,
    /// Format of the output.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
    /// Directory whose files are summed; default: the whole volume.
    #[arg(requires = "by")]
    dir: Option<PathBuf>,
}

/// Keys to sum files by.
const KEYS: &[(&str, &str)] =
    &[("user", "Owner of the files"), ("age", "Time since the last use"), ("dir", "Directories directly below DIR")];

impl Df {
    pub fn run(self, context: &Context) -> Result<u8> {
        let Some(by) = self.by else {
            answer::show(self.output, context.ask_store(&Request::Targets {})?, devices)?;
            return Ok(0);
        };
        let Inside { volume, path } = context.inside_or_root(self.dir.as_deref())?;
        let asked = Request::Space { path, by };
        let mut space: Space = read(Client::connect(&volume.socket())?.ask(&asked, &mut |_| {})?)?;
        for row in &mut space.rows {
            row.name = row.uid.and_then(users::name_of).unwrap_or(std::mem::take(&mut row.name));
        }
        let unread = space.unread;
        shown::value(self.output, &space, |space| files(by, &space.rows))?;
        Ok(super::code_of_unread(unread))
    }
}

fn files(by: SpaceBy, rows: &[SpaceRow]) -> String {
    let mut all = Sum::default();
    rows.iter().for_each(|row| all.add(row.sum));
    let line = |name: &str, sum: Sum| {
        vec![name.to_owned(), sum.files.to_string(), shown::bytes(sum.bytes), shown::bytes(sum.on_targets)]
    };
    let mut lines: Vec<_> = rows.iter().map(|row| line(&row.name, row.sum)).collect();
    lines.push(line("all", all));
    shown::table(&[&answer::words(by), "files", "size", "on targets"], lines)
}

/// Targets, tiers and the volume.
fn devices(answer: &Targets) -> String {
    let line = |(total, free): (u64, u64), kind: &str, name: &str, state: &str| {
        let used = total.saturating_sub(free);
        let percent = if total == 0 { String::new() } else { format!("{:.1} %", used as f64 / total as f64 * 100.0) };
        let space = [total, used, free].map(shown::bytes);
        let mut cells = vec![name.to_owned(), kind.to_owned()];
        cells.extend(space);
        cells.extend([percent, state.to_owned()]);
        cells
    };
    let targets = answer
        .targets
        .iter()
        .map(|t| line((t.total_bytes, t.free_bytes), t.tier.as_deref().unwrap_or_default(), &t.name, &t.state));
    let tiers = answer.tiers.iter().map(|t| line((t.total_bytes, t.free_bytes), &t.name, "all of the tier", ""));
    let volume = std::iter::once(line((answer.total_bytes, answer.free_bytes), "", "the volume", ""));
    shown::table(
        &["target", "tier", "size", "used", "free", "use", "state"],
        targets.chain(tiers).chain(volume).collect(),
    )
}

//! `entrepot purge`: removes files whose bytes are safe elsewhere, as `[purge]` says.

use crate::connect::Context;
use crate::failure::Result;
use crate::shown::{self, Output};
use clap::Args;
use store::control::Request;
use store::daemon::PurgeReport;

/// Remove files that nobody needs here any more and whose bytes are safe elsewhere
///
/// By age and by space, as `[purge]` in volume.toml says. Never removed: what a job that waits or runs needs, what is open,
/// and what has not been taken home in its present version (by `stage out`) and cannot be fetched again from its source.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot purge --dry-run          what would go, and why
  entrepot purge
  entrepot purge --output json")]
pub struct Purge {
    /// Remove nothing; say what would be removed.
    #[arg(long, short = 'n')]
    dry_run: bool,
    /// How to write it.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

impl Purge {
    pub fn run(self, context: &Context) -> Result<u8> {
        let answer = context.ask_store(&Request::Purge { dry_run: self.dry_run })?;
        if matches!(self.output, Output::Json) {
            shown::json(&answer)?;
            return Ok(0);
        }
        let report: PurgeReport = serde_json::from_value(answer).map_err(std::io::Error::from)?;
        shown::text(&text(&report))?;
        Ok(0)
    }
}

fn text(report: &PurgeReport) -> String {
    let rows =
        report.files.iter().map(|f| vec![f.path.clone(), shown::bytes(f.bytes), f.reason.clone(), f.elsewhere.clone()]);
    let mut text = if report.files.is_empty() {
        String::new()
    } else {
        shown::table(&["file", "size", "because", "its bytes are at"], rows.collect())
    };
    let done = if report.dry_run { "would be removed" } else { "removed" };
    let files = shown::count(report.files.len() as u64, "file");
    text += &format!("{files} with {} {done}\n", shown::bytes(report.bytes));
    text += &format!(
        "of {} files kept: {} for jobs, {} with bytes nowhere else, {} open\n",
        report.seen, report.kept_for_jobs, report.kept_unsaved, report.kept_open
    );
    if report.left > 0 {
        text += &format!("{} changed while it was looked at and were left\n", report.left);
    }
    text
}

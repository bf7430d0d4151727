//! `entrepot purge`: removes files by age, space and rules, as `[purge]` sets.

use crate::answer;
use crate::connect::Context;
use crate::failure::Result;
use crate::shown::{self, Output};
use clap::Args;
use node::control::Request;
use node::daemon::{PurgeReport, RuleSum};

/// Remove unused files whose bytes are safe elsewhere
///
/// `[purge]` in volume.toml has the rules, ages and limits of space. A file stays if `keep` names it, if a waiting or
/// running job needs it, or if it is open or being staged. A file whose present version was not taken home by `stage
/// out`, and cannot be fetched again from its source, is removed only by a rule with `even_if_only_here = true`.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot purge --dry-run          files, rules, reasons, and only copies
  entrepot purge
  entrepot purge --output json")]
pub struct Purge {
    /// Show the files that would be removed, and remove nothing.
    #[arg(long, short = 'n')]
    dry_run: bool,
    /// Format of the output.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

impl Purge {
    pub fn run(self, context: &Context) -> Result<u8> {
        let answer = context.ask_store(&Request::Purge { dry_run: self.dry_run })?;
        answer::show(self.output, answer, text)?;
        Ok(0)
    }
}

fn text(report: &PurgeReport) -> String {
    // Line breaks in a file's name are escaped, so that each file has one line.
    let files = report.files.iter();
    let rows = files.map(|f| vec![shown::plain(&f.path), shown::bytes(f.bytes), f.reason.clone(), f.elsewhere.clone()]);
    let mut text = String::new();
    if !report.files.is_empty() {
        text = shown::table(&["file", "size", "because", "its bytes are at"], rows.collect()) + "\n";
    }
    if !report.rules.is_empty() {
        let lost = |rule: &RuleSum| match rule.only_here_files {
            0 => "-".to_owned(),
            files => format!("{} with {}", shown::count(files, "file"), shown::bytes(rule.only_here_bytes)),
        };
        let row =
            |rule: &RuleSum| vec![rule.name.clone(), rule.files.to_string(), shown::bytes(rule.bytes), lost(rule)];
        let rows = report.rules.iter().map(row).collect();
        text += &(shown::table(&["rule", "files", "bytes", "nowhere else"], rows) + "\n");
    }
    let done = if report.dry_run { "would be removed" } else { "removed" };
    let files = shown::count(report.files.len() as u64, "file");
    text += &format!("{files} with {} {done}\n", shown::bytes(report.bytes));
    text += &format!(
        "of {} files kept: {} by `keep`, {} for jobs, {} with bytes nowhere else, {} open or being staged\n",
        report.seen, report.kept_by_exception, report.kept_for_jobs, report.kept_unsaved, report.kept_open
    );
    if report.left > 0 {
        text += &format!("{} changed while it was looked at and were left\n", report.left);
    }
    report.notes.iter().for_each(|note| text += &format!("{note}\n"));
    text
}

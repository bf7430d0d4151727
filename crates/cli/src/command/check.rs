//! `entrepot check`: finds and repairs lost, incomplete and orphaned objects.

use crate::answer;
use crate::command::work;
use crate::connect::Context;
use crate::failure::Result;
use crate::shown::{self, Output};
use clap::Args;
use engine::recovery::Outcome;
use node::control::answers::{self, read};
use node::control::{Client, Request, exit};
use std::path::PathBuf;

/// Find lost, incomplete and orphaned objects, and repair them
///
/// All targets are probed at the same time, then every file is compared with its objects on them. With `--repair`, lost
/// objects are copied from a mirror or fetched from the source (only the missing ranges), and stale mirrors are
/// resynced; orphans are removed, unless a part of the volume could not be checked. With `--deep` every byte is read:
/// staged files are compared with their checksums and mirrors with each other, no faster than `[mover] rate`. It may
/// run while the volume is used and may be interrupted. On a volume of several nodes each checks a part of the files,
/// whichever node runs the command. The exit code is 7 when damage was found and not repaired, or when a node did not
/// answer.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot check
  entrepot check --repair
  entrepot check /mnt/scratch                       the whole volume, by all its nodes
  entrepot check --deep /mnt/scratch/input
  entrepot check --before-job /mnt/scratch/input    repair what a job is about to read")]
pub struct Check {
    /// Repair the damage.
    #[arg(long)]
    repair: bool,
    /// Read every byte, and compare it with checksums or mirrors.
    #[arg(long)]
    deep: bool,
    /// After a restore from a backup: also remove objects that are newer than it and belong to no file.
    #[arg(long, requires = "repair")]
    drop_unknown: bool,
    /// Repair these paths, as the input of a job, and check nothing else.
    #[arg(long)]
    before_job: bool,
    /// Format of the output.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
    /// Files and directories to check; default: the whole volume.
    paths: Vec<PathBuf>,
}

impl Check {
    pub fn run(self, context: &Context) -> Result<u8> {
        let mut paths = Vec::new();
        let mut volume = None;
        for path in &self.paths {
            let inside = context.inside(path)?;
            paths.push(inside.path);
            volume = Some(inside.volume);
        }
        let volume = volume.map_or_else(|| context.find(), Ok)?;
        let repair = self.repair || self.before_job;
        let (before_job, deep, drop_unknown) = (self.before_job, self.deep, self.drop_unknown);
        let request = Request::Check(node::control::Check { repair, before_job, deep, drop_unknown, paths });
        let mut client = Client::connect(&volume.socket())?;
        let hint = "run the same command again";
        let report = work::follow(|progress| client.ask(&request, progress), Some(hint))?;
        let healthy = read::<answers::Check>(report.clone())?.healthy;
        answer::show(self.output, report, render)?;
        Ok(if healthy { 0 } else { exit::INCOMPLETE })
    }
}

fn render(answers::Check { report, .. }: &answers::Check) -> String {
    let mut text = String::new();
    let nodes = &report.nodes;
    let rows = report.findings.iter().map(|f| {
        let outcome = match &f.outcome {
            Outcome::Away => "cannot be read until it is back".into(),
            Outcome::Failed(why) => format!("failed: {why}"),
            outcome => answer::words(outcome),
        };
        let missing = if f.missing_bytes == 0 { String::new() } else { shown::bytes(f.missing_bytes) };
        let path = if f.path.is_empty() { "-" } else { &f.path };
        let mut row = vec![path.into(), answer::words(f.kind), f.target.clone(), missing, outcome];
        row.extend((!nodes.is_empty()).then(|| f.found_by.clone()));
        row
    });
    let rows: Vec<_> = rows.collect();
    if !rows.is_empty() {
        let mut heads = vec!["file", "what", "target", "missing", "outcome"];
        heads.extend((!nodes.is_empty()).then_some("found by"));
        text.push_str(&shown::table(&heads, rows));
        text.push('\n');
    }
    for part in nodes {
        let (number, host) = (part.node, &part.host);
        text.push_str(&match part.answered {
            true => format!("node {number} on {host}: {} looked at\n", shown::count(part.files, "file")),
            false => format!("node {number} on {host} did not answer: its own state is unknown\n"),
        });
    }
    text.extend(report.targets_away.iter().map(|target| format!("target {target} is away\n")));
    let unseen = |why| format!("no object is removed, since the check was incomplete: {why}\n");
    text.extend(report.unseen.iter().map(unseen));
    let (files, objects) = (shown::count(report.files, "file"), shown::count(report.objects, "object"));
    let findings = shown::count(report.findings.len() as u64, "finding");
    let (took_s, repaired) = (report.took_s, shown::bytes(report.repaired_bytes));
    text + &format!("{files} and {objects} looked at in {took_s:.1} s, {findings}, {repaired} repaired\n")
}

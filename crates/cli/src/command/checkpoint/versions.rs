//! `entrepot checkpoint begin|commit|list|status`: versions in the burst buffer of a volume.

use crate::answer;
use crate::connect::Context;
use crate::failure::Result;
use crate::shown::{self, Output};
use clap::Args;
use node::control::answers::{
    Abandoned, Application, Begun, Burst, Committed, Row, Status as VolumeStatus, Versions, read,
};
use node::control::{BeginCheckpoint, Client, Problem, Request, find};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Begin a version: files that are written below its directories from now on belong to it
///
/// The version counts after `entrepot checkpoint commit`; until then the one before it stays the newest. Its turn
/// begins with its first write.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot checkpoint begin wave --path run7/state
  entrepot checkpoint begin wave --version step-0012 --path run7/state --size 80GB --mtbf 6h")]
pub struct Begin {
    /// Name of the application.
    app: String,
    /// Directories or files of the version, in the mount; default: the working directory.
    #[arg(long = "path", value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Label of the version; the default is the time.
    #[arg(long, value_name = "NAME", default_value = "")]
    version: String,
    /// Size of the version, if known; room for all of it is reserved before it begins.
    #[arg(long, value_name = "SIZE", value_parser = crate::values::size, default_value = "0")]
    size: u64,
    /// Mean time between failures of the application.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, conflicts_with = "nodes")]
    mtbf: Option<Duration>,
    /// Number of nodes of the application, from which that time is estimated.
    #[arg(long, value_name = "N")]
    nodes: Option<u64>,
}

impl Begin {
    pub fn run(self, context: &Context) -> Result<u8> {
        let mut client = match self.paths.first() {
            Some(path) => Client::connect(&find(context.volume.as_deref(), Some(&full(path)))?.socket())?,
            None => context.connect()?,
        };
        let VolumeStatus { mount_point: at, .. } = read(client.ask(&Request::Status {}, &mut |_| {})?)?;
        let here = if self.paths.is_empty() { vec![PathBuf::from(".")] } else { self.paths };
        let paths = here.iter().map(|path| inside(&at, path)).collect::<std::result::Result<Vec<_>, Problem>>()?;
        let mtbf_s = self.mtbf.map(|span| span.as_secs().max(1));
        let Begin { app, version: label, size: bytes, nodes, .. } = self;
        let what = BeginCheckpoint { app, label, paths, bytes, mtbf_s, nodes };
        let Begun { app, label } = read(client.ask(&Request::BeginCheckpoint(what), &mut |_| {})?)?;
        shown::text(&format!("version {label} of {app} begins\n"))?;
        Ok(0)
    }
}

/// Resolves the symbolic links of a path; a missing path only becomes absolute.
fn full(path: &Path) -> PathBuf {
    path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_path_buf())
}

/// Path below the mount point `at`.
fn inside(at: &Path, path: &Path) -> std::result::Result<String, Problem> {
    let full = full(path);
    let below = full.strip_prefix(at).ok().and_then(Path::to_str).map(str::to_owned);
    below.ok_or_else(|| {
        Problem::wrong(format!("{} is not in the mount {}", full.display(), at.display()))
            .so("nothing was begun")
            .try_this("name directories of the mount")
    })
}

/// Commit the version that was begun; returns when it is durable
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot checkpoint commit wave
  entrepot checkpoint commit wave --abandon")]
pub struct Commit {
    /// Name of the application.
    app: String,
    /// Abandon the version instead: its files stay, and do not count.
    #[arg(long)]
    abandon: bool,
}

impl Commit {
    pub fn run(self, context: &Context) -> Result<u8> {
        let request = Request::CommitCheckpoint { app: self.app.clone(), abandon: self.abandon };
        let answer = context.ask_store(&request)?;
        if self.abandon {
            let Abandoned { label, .. } = read(answer)?;
            shown::text(&format!("version {label} of {} is given up\n", self.app))?;
            return Ok(0);
        }
        let Committed { label, bytes, files, .. } = read(answer)?;
        let (app, size, files) = (self.app, shown::bytes(bytes), shown::count(files as u64, "file"));
        shown::text(&format!("version {label} of {app} is complete: {size} in {files}\n"))?;
        Ok(0)
    }
}

/// List the versions: where each lies, and which is the newest complete one
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot checkpoint list
  entrepot checkpoint list wave --output json | jq '.versions[] | select(.newest)'")]
pub struct List {
    /// Only this application.
    app: Option<String>,
    /// Format of the output.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

impl List {
    pub fn run(self, context: &Context) -> Result<u8> {
        let answer = context.ask_store(&Request::Checkpoints { app: self.app })?;
        answer::show(self.output, answer, versions)?;
        Ok(0)
    }
}

fn versions(answer: &Versions) -> String {
    let row = |v: &Row| {
        vec![
            v.app.clone(),
            v.label.clone(),
            v.state.clone(),
            if v.newest { "newest" } else { "" }.to_owned(),
            shown::bytes(v.bytes),
            v.files.len().to_string(),
            v.place.clone(),
            if v.at_ms > 0 { shown::moment_ms(v.at_ms) } else { String::new() },
        ]
    };
    let head = ["application", "version", "state", "", "size", "files", "on", "complete since"];
    shown::table(&head, answer.versions.iter().map(row).collect())
}

/// Show fill and rates of the burst buffer, and versions and intervals of each application
#[derive(Debug, Args)]
#[command(after_help = "EXAMPLES:\n  entrepot checkpoint status\n  entrepot checkpoint status --output json")]
pub struct Status {
    /// Format of the output.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

impl Status {
    pub fn run(self, context: &Context) -> Result<u8> {
        let answer = context.ask_store(&Request::BurstBuffer {})?;
        answer::show(self.output, answer, |answer: &Option<Burst>| buffer(&answer.clone().unwrap_or_default()))?;
        Ok(0)
    }
}

fn buffer(b: &Burst) -> String {
    let mut text = burst_line(b);
    let _ = writeln!(text, "         limits: {}", b.limits);
    let row = |a: &Application| {
        vec![
            a.name.clone(),
            a.newest.clone().unwrap_or_default(),
            if a.newest_in_buffer { "fast" } else { "capacity" }.to_owned(),
            shown::bytes(a.bytes),
            format!("{:.1} s", a.cost_s),
            if a.mtbf_s > 0 { shown::span_s(a.mtbf_s) } else { String::new() },
            answer::words(a.mtbf_from),
            a.restarts.to_string(),
            a.advised_interval_s.map_or(String::new(), |s| shown::span_s(s as u64)),
        ]
    };
    let head = ["application", "newest", "read from", "size", "took", "mtbf", "known", "restarts", "advised interval"];
    if !b.applications.is_empty() {
        text.push('\n');
        text += &shown::table(&head, b.applications.iter().map(row).collect());
    }
    text
}

/// Formats the state of the buffer in two lines.
pub fn burst_line(b: &Burst) -> String {
    let speed = |rate: Option<u64>| rate.map_or("unlimited".into(), |rate| format!("{}/s", shown::bytes(rate)));
    let Burst { versions, demoted, waiting, writing, policy, pattern, .. } = b;
    let [used, size, not_demoted] = [b.used, b.size, b.not_demoted].map(shown::bytes);
    let mut text = format!(
        "burst    {used} of {size} used, {not_demoted} not demoted yet; \
         {versions} complete, {demoted} demoted, {waiting} waiting, {writing} writing\n"
    );
    let (write, demotion) = (speed(b.write_rate), speed(b.demotion_rate));
    let [written, expected] = [b.written_in_period, b.expected_in_period].map(shown::bytes);
    text += &format!(
        "         {policy} ({pattern}): writing {write}, demotion {demotion}; \
         {written} written in this period of {expected} expected\n"
    );
    text
}

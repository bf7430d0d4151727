//! `entrepot job watch`: follows a job, with a bar for each transfer on a terminal, else with a line for each change.

use super::show;
use crate::connect::Context;
use crate::failure::Result;
use crate::shown::{self, Output};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use jobs::request::{JobId, JobState, JobSummary, OneJob, Transfer, Watched};
use node::control::answers::read;
use node::control::{Problem, exit};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::path::PathBuf;

/// Watches a job, or the caller's last one that is not over.
pub fn run(context: &Context, id: Option<u64>, output: Output) -> Result<u8> {
    let id = match id {
        Some(id) => id,
        None => last(context)?,
    };
    follow(context, "job.watch", OneJob { id: JobId(id) }, output)
}

/// Shows a job's progress from a request until it is over.
pub fn follow(context: &Context, request: &str, of: impl Serialize, output: Output) -> Result<u8> {
    let mut shown: Box<dyn Shown> = match output {
        Output::Json => Box::new(Json::default()),
        Output::Text if std::io::stdout().is_terminal() && std::io::stderr().is_terminal() => Box::new(Bars::new()),
        Output::Text => Box::new(Lines::default()),
    };
    let mut failed = None;
    let mut show = |value: Value| {
        let written = serde_json::from_value(value).map_or(Ok(()), |watched| shown.show(&watched));
        failed = failed.take().or(written.err());
    };
    let answer = context.connect()?.request(request, of, &mut show)?;
    let watched: Watched = read(answer)?;
    failed.map_or(Ok(()), Err)?;
    shown.end(&watched)?;
    Ok(if watched.summary.state == JobState::Completed { 0 } else { exit::FAILED })
}

/// Waits until a job is over, with a line on standard error for each change.
pub fn wait(context: &Context, id: u64) -> Result<JobSummary> {
    let mut lines = Lines { on_stderr: true, ..Lines::default() };
    let mut show = |value: Value| {
        // The wait goes on even if the output is closed.
        let _ = serde_json::from_value(value).map(|watched| lines.show(&watched));
    };
    let answer = context.connect()?.request("job.watch", OneJob { id: JobId(id) }, &mut show)?;
    Ok(read::<Watched>(answer)?.summary)
}

fn last(context: &Context) -> Result<u64> {
    let own = rustix::process::getuid().as_raw();
    let jobs: Vec<JobSummary> = read(super::ask_all(context, "job.list", false)?)?;
    let last = jobs.iter().filter(|job| job.uid == own).map(|job| job.id.0).max();
    last.ok_or_else(|| {
        let problem = Problem::not_found("you have no job that is not over");
        problem.try_this("`entrepot job list --all` shows those that are; then: entrepot job watch JOB").into()
    })
}

/// Output format of a watched job.
trait Shown {
    /// Shows the present state, which may be unchanged.
    fn show(&mut self, watched: &Watched) -> std::io::Result<()>;
    /// Shows the final state.
    fn end(&mut self, watched: &Watched) -> std::io::Result<()>;
}

/// Prints a JSON object on a line for each change.
#[derive(Default)]
struct Json {
    last: Option<Watched>,
}

impl Shown for Json {
    fn show(&mut self, watched: &Watched) -> std::io::Result<()> {
        if self.last.as_ref() == Some(watched) {
            return Ok(());
        }
        self.last = Some(watched.clone());
        shown::json_line(watched)
    }

    fn end(&mut self, watched: &Watched) -> std::io::Result<()> {
        self.show(watched)
    }
}

/// Prints a line for each change of interest.
#[derive(Default)]
struct Lines {
    last: String,
    on_stderr: bool,
}

impl Shown for Lines {
    fn show(&mut self, watched: &Watched) -> std::io::Result<()> {
        let mut line = standing(watched);
        // A new estimate of the remaining time alone prints no line.
        let mut news: String = match watched.arrival {
            Some(_) => line.chars().filter(|c| !c.is_ascii_digit()).collect(),
            None => line.clone(),
        };
        for one in &watched.transfers {
            let tenth = one.done_bytes.saturating_mul(10).checked_div(one.total_bytes).unwrap_or(0) * 10;
            let far = format!("; {}: {tenth} % of {}{}", one.path.display(), shown::bytes(one.total_bytes), held(one));
            line += &far;
            news += &far;
        }
        if news == self.last {
            return Ok(());
        }
        self.last = news;
        if self.on_stderr { writeln!(std::io::stderr(), "{line}") } else { shown::text(&line) }
    }

    fn end(&mut self, watched: &Watched) -> std::io::Result<()> {
        shown::text(&show::line(&watched.summary))
    }
}

/// Formats the state of a job, with its cause of waiting, on one line.
fn standing(watched: &Watched) -> String {
    let mut line = show::line(&watched.summary);
    if let Some(arrival) = &watched.arrival {
        let _ = write!(line, "; {}", show::coming(arrival));
    }
    if let Some(at) = watched.start_ms {
        let _ = write!(line, "; its script should start at {}", shown::moment_ms(at));
    }
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Limit of a transfer, if there is one.
fn held(one: &Transfer) -> String {
    let limit = one.limit.as_ref();
    limit.map_or(String::new(), |(rate, by)| format!(", held to {}/s by {by}", shown::bytes(*rate)))
}

/// Shows a line about the job, and a bar for each transfer.
struct Bars {
    all: MultiProgress,
    job: ProgressBar,
    transfers: BTreeMap<PathBuf, ProgressBar>,
}

/// Most bars shown at once.
const BARS_MAX: usize = 20;

impl Bars {
    fn new() -> Bars {
        let all = MultiProgress::new();
        let job = all.add(ProgressBar::no_length());
        job.set_style(style("{wide_msg}"));
        Bars { all, job, transfers: BTreeMap::new() }
    }

    fn bar(&mut self, one: &Transfer) -> Option<&ProgressBar> {
        if !self.transfers.contains_key(&one.path) {
            if self.transfers.len() == BARS_MAX {
                return None;
            }
            let bar = self.all.add(ProgressBar::no_length());
            bar.set_style(style("  {prefix} [{bar:30}] {bytes}/{total_bytes} {msg}"));
            let name = one.path.file_name().unwrap_or(one.path.as_os_str());
            bar.set_prefix(name.to_string_lossy().into_owned());
            self.transfers.insert(one.path.clone(), bar);
        }
        self.transfers.get(&one.path)
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

impl Shown for Bars {
    fn show(&mut self, watched: &Watched) -> std::io::Result<()> {
        self.job.set_message(standing(watched));
        let under_way = |path: &PathBuf| watched.transfers.iter().any(|one| one.path == *path);
        self.transfers.retain(|path, bar| {
            let keep = under_way(path);
            if !keep {
                bar.finish_and_clear();
            }
            keep
        });
        for one in &watched.transfers {
            let Some(bar) = self.bar(one) else { continue };
            bar.set_length(one.total_bytes);
            bar.set_position(one.done_bytes);
            let left = one.left_s.map_or(String::new(), |s| format!(", {} left", shown::span_s(s)));
            bar.set_message(format!("{}/s{left}{}", shown::bytes(one.rate_bytes_s), held(one)));
        }
        Ok(())
    }

    fn end(&mut self, watched: &Watched) -> std::io::Result<()> {
        self.all.clear()?;
        shown::text(&show::line(&watched.summary))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// [S-237]
    #[test]
    fn a_line_is_written_where_there_is_news() {
        let watched = |done_bytes: u64, standing: &str| -> Watched {
            let summary = json!({"id": 1, "name": "a", "uid": 0, "user": "r", "state": "staging-in", "detail": "data come",
                "cores": 1, "walltime_s": 1, "submitted_ms": 1});
            let one = json!({"path": "/m/x", "done_bytes": done_bytes, "total_bytes": 100, "rate_bytes_s": 5,
                "limit": [1 << 20, "--limit"]});
            let arrival = json!({"bytes": 1, "source": "http://h", "rate": 1, "standing": standing});
            let arrival = if standing.is_empty() { Value::Null } else { arrival };
            serde_json::from_value(json!({"summary": summary, "transfers": [one], "arrival": arrival})).expect("good")
        };
        let mut lines = Lines::default();
        let mut news = |done, standing| {
            let before = lines.last.clone();
            lines.show(&watched(done, standing)).expect("written");
            before != lines.last
        };
        assert_eq!([news(0, ""), news(0, ""), news(9, ""), news(10, "")], [true, false, false, true]);
        assert_eq!([news(10, "in 9 min"), news(10, "in 8 min"), news(10, "no space")], [true, false, true]);
        assert!(lines.last.contains("/m/x: 10 % of 100 B, held to 1.0 MiB/s by --limit"), "{}", lines.last);
    }
}

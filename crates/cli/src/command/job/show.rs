//! Jobs as people read them.

use crate::shown;
use jobs::arrivals::Arrival;
use jobs::request::{Early, JobDetail, JobState, JobSummary, Staging};
use jobs::volume::Protected;
use std::fmt::Write;

/// One line about a job.
pub fn line(job: &JobSummary) -> String {
    let mut line = format!("job {} ({}) {}", job.id, job.name, job.state);
    if let Some(why) = &job.why {
        let _ = write!(line, ": {why}");
    } else if !job.detail.is_empty() {
        let _ = write!(line, ": {}", job.detail);
    }
    line
}

/// The list of jobs as columns.
pub fn list(all: &[JobSummary]) -> String {
    let row = |j: &JobSummary| {
        let why = j.why.clone().unwrap_or_else(|| j.detail.clone());
        let cells = [
            j.id.to_string(),
            j.name.clone(),
            j.user.clone(),
            j.state.to_string(),
            j.cores.to_string(),
            shown::span_s(j.walltime_s),
            why,
        ];
        cells.to_vec()
    };
    shown::table(&["job", "name", "user", "state", "cores", "walltime", "detail"], all.iter().map(row).collect())
}

/// All about one job.
pub fn detail(d: &JobDetail) -> String {
    let mut text = line(&d.summary) + "\n";
    let s = &d.summary;
    let _ = writeln!(
        text,
        "  user {}, {} cores, at most {}, submitted {} in {}",
        s.user,
        s.cores,
        shown::span_s(s.walltime_s),
        shown::moment_ms(s.submitted_ms),
        d.cwd.display()
    );
    for moment in &d.timeline {
        let lasted = moment.lasted_ms.map_or("so far".into(), |ms| format!("{:.1} s", ms as f64 / 1000.0));
        let _ =
            writeln!(text, "  {}  {:<12} {lasted}  {}", shown::moment_ms(moment.at_ms), moment.state, moment.detail);
    }
    for part in &d.parts {
        let _ = writeln!(text, "  {} {}", part.kind, part.ending);
        for step in part.steps.iter().filter(|s| !s.ending.is_success()) {
            let _ = writeln!(text, "    a command {} after {} attempts", step.ending, step.attempts);
            for line in step.stderr_tail.lines() {
                let _ = writeln!(text, "    | {line}");
            }
        }
    }
    if let Some(check) = &d.check {
        let _ = writeln!(
            text,
            "  data checked before the start: {}, {} repaired, {} fetched",
            shown::count(check.n_files as u64, "file"),
            check.n_repaired,
            shown::bytes(check.fetched_bytes)
        );
    }
    for source in &d.sources {
        let outcome = source.error.as_ref().map_or(String::new(), |e| format!(" (not recorded: {e})"));
        let _ = writeln!(text, "  source of {}: {}{outcome}", source.path.display(), source.uri);
    }
    if let Some(arrival) = &d.arrival {
        let _ = writeln!(text, "  {}", coming(arrival));
    }
    d.early.iter().for_each(|e| text += &left_early(e));
    for p in &d.protection {
        let _ = writeln!(text, "  {}: {}", p.path.display(), protection(p));
    }
    for r in &d.recoveries {
        let (at, path, fetched) = (shown::moment_ms(r.at_ms), r.path.display(), shown::bytes(r.fetched_bytes));
        let _ = writeln!(
            text,
            "  {at}  {path}: {}, {fetched} fetched, a reader waited at most {} ms",
            r.what, r.reader_wait_ms_max
        );
    }
    let _ = writeln!(text, "  logs in {}", d.log_dir.display());
    text
}

/// How a job's data come, in one line.
pub fn coming(a: &Arrival) -> String {
    let (bytes, rate) = (shown::bytes(a.bytes), shown::bytes(a.rate));
    format!("{bytes} from {} at about {rate}/s: {}", a.source, a.standing)
}

/// What protects a file, in one line.
pub fn protection(p: &Protected) -> String {
    let mut text = match p.mirrors {
        0 => "no whole copy".to_string(),
        1 => "one copy".to_string(),
        n => format!("{n} copies"),
    };
    text += if p.has_source { ", and its source" } else { ", no source" };
    if let Some(kept) = &p.kept {
        let _ = write!(text, "; {} ({})", kept.copy, kept.why);
        if kept.at_risk {
            text += "; the job was started before that, at risk";
        }
    }
    text
}
/// How a result left while the script ran, in one line.
pub fn left_early(e: &Early) -> String {
    let (at, path, seconds) = (shown::moment_ms(e.at_ms), e.path.display(), e.lasted_ms as f64 / 1000.0);
    match &e.failed {
        None => format!("  {at}  {path} left early, safe at the other end after {seconds:.1} s\n"),
        Some(why) => format!("  {at}  {path} could not leave early: {why}\n"),
    }
}


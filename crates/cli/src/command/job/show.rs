//! Formats jobs as text.

use crate::shown;
use jobs::request::{Arrival, Early, JobDetail, JobState, JobSummary, Protected, Staging};
use std::fmt::Write;

/// Formats a job on one line.
pub fn line(job: &JobSummary) -> String {
    let mut line = format!("job {} ({}) {}", job.id, job.name, job.state);
    if let Some(why) = &job.why {
        let _ = write!(line, ": {why}");
    } else if !job.detail.is_empty() {
        let _ = write!(line, ": {}", doing(job));
    }
    line
}

/// Outcome of a cancel.
pub fn after_cancel(job: &JobSummary) -> &'static str {
    match job.state {
        JobState::Cancelled => "cancelled",
        _ if job.state.is_final() => "had ended before it could be cancelled",
        _ => "is being cancelled",
    }
}

/// Note about finished jobs that a list leaves out.
pub fn not_shown(over: &[JobSummary]) -> Option<String> {
    let failed = over.iter().filter(|job| job.state == JobState::Failed).count();
    let jobs =
        if over.len() == 1 { "1 finished job is".to_string() } else { format!("{} finished jobs are", over.len()) };
    let failed = if failed == 0 { String::new() } else { format!(", {failed} of them failed") };
    (!over.is_empty()).then(|| format!("{jobs} not shown{failed}: entrepot job list --all"))
}

/// Progress of the running transfers, in a few words.
pub fn staging(s: &Staging) -> String {
    let (done, total) = (shown::bytes(s.done_bytes), shown::bytes(s.total_bytes));
    let percent = s.done_bytes.saturating_mul(100).checked_div(s.total_bytes).unwrap_or(100);
    let left = s.left_s.map_or(String::new(), |left| format!(", about {} left", shown::span_s(left)));
    format!("{done} of {total} ({percent} %){left}")
}

fn doing(job: &JobSummary) -> String {
    match &job.staging {
        Some(s) => format!("{}: {}", job.detail, staging(s)),
        None => job.detail.clone(),
    }
}

/// Formats jobs as columns; a column of hosts precedes the last one if any job has a host.
pub fn table(heads: &[&'static str], rows: impl Iterator<Item = (Option<String>, Vec<String>)>) -> String {
    let (mut heads, mut rows) = (heads.to_vec(), rows.collect::<Vec<_>>());
    if rows.iter().any(|(host, _)| host.is_some()) {
        heads.insert(heads.len() - 1, "host");
        rows.iter_mut().for_each(|(host, cells)| cells.insert(cells.len() - 1, host.take().unwrap_or_default()));
    }
    shown::table(&heads, rows.into_iter().map(|(_, cells)| cells).collect())
}

/// Formats a list of jobs as columns.
pub fn list(all: &[JobSummary]) -> String {
    let row = |j: &JobSummary| {
        let why = j.why.clone().unwrap_or_else(|| doing(j));
        // A cause with line breaks is joined to one line.
        let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
        let cells = [
            j.id.to_string(),
            j.name.clone(),
            j.user.clone(),
            j.state.to_string(),
            j.cores.to_string(),
            shown::span_s(j.walltime_s),
            why,
        ];
        (j.host.clone(), cells.to_vec())
    };
    table(&["job", "name", "user", "state", "cores", "walltime", "detail"], all.iter().map(row))
}

/// Formats all details of a job.
pub fn detail(d: &JobDetail) -> String {
    let mut text = line(&d.summary) + "\n";
    let s = &d.summary;
    let (user, cores, most) = (&s.user, shown::count(s.cores.into(), "core"), shown::span_s(s.walltime_s));
    let (at, cwd) = (shown::moment_ms(s.submitted_ms), d.cwd.display());
    let _ = writeln!(text, "  user {user}, {cores}, at most {most}, submitted {at} in {cwd}");
    for moment in &d.timeline {
        let lasted = moment.lasted_ms.map_or("so far".into(), |ms| format!("{:.1} s", ms as f64 / 1000.0));
        let _ = writeln!(text, "  {}  {} {lasted}  {}", shown::moment_ms(moment.at_ms), moment.state, moment.detail);
    }
    for part in &d.parts {
        let _ = writeln!(text, "  {} {}", part.kind, part.ending);
        for step in part.steps.iter().filter(|s| !s.ending.is_success()) {
            let attempts = shown::count(step.attempts.into(), "attempt");
            let _ = writeln!(text, "    a command {} after {attempts}", step.ending);
            text.extend(step.stderr_tail.lines().map(|line| format!("    | {line}\n")));
        }
    }
    if let Some(check) = &d.check {
        let (files, fetched) = (shown::count(check.n_files, "file"), shown::bytes(check.fetched_bytes));
        let repaired = check.n_repaired;
        let _ = writeln!(text, "  data checked before the start: {files}, {repaired} repaired, {fetched} fetched");
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
        let (what, most_ms) = (&r.what, r.reader_wait_ms_max);
        let _ = writeln!(text, "  {at}  {path}: {what}, {fetched} fetched, a reader waited at most {most_ms} ms");
    }
    let on = s.host.as_ref().map_or(String::new(), |host| format!(" on {host}"));
    let _ = writeln!(text, "  logs in {}{on}", d.log_dir.display());
    text
}

/// Formats an early result on one line.
pub fn left_early(e: &Early) -> String {
    let (at, path, seconds) = (shown::moment_ms(e.at_ms), e.path.display(), e.lasted_ms as f64 / 1000.0);
    match &e.failed {
        None => format!("  {at}  {path} left early, safe at the other end after {seconds:.1} s\n"),
        Some(why) => format!("  {at}  {path} could not leave early: {why}\n"),
    }
}

/// Formats the progress of a job's stage-in on one line.
pub fn coming(a: &Arrival) -> String {
    let (bytes, rate) = (shown::bytes(a.bytes), shown::bytes(a.rate));
    let held = a.limited_by.as_ref().map_or(String::new(), |by| format!(", held to that by {by}"));
    match a.bytes {
        // No bytes are to be fetched.
        0 => format!("from {}: {}", a.source, a.standing),
        _ => format!("{bytes} from {} at about {rate}/s{held}: {}", a.source, a.standing),
    }
}

/// Protection of a file, in one line.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn job(state: JobState) -> JobSummary {
        serde_json::from_value(serde_json::json!({
            "id": 7, "name": "a", "uid": 1, "user": "ann", "state": state, "cores": 1, "walltime_s": 60, "submitted_ms": 0
        }))
        .expect("a summary")
    }

    /// [S-067]
    #[test]
    fn what_a_list_leaves_out_and_what_a_cancel_does_is_said() {
        assert_eq!(not_shown(&[]), None);
        let over = [job(JobState::Completed), job(JobState::Failed)];
        assert_eq!(
            not_shown(&over).expect("two"),
            "2 finished jobs are not shown, 1 of them failed: entrepot job list --all"
        );
        assert_eq!(after_cancel(&job(JobState::Running)), "is being cancelled");
        assert_eq!(after_cancel(&job(JobState::Cancelled)), "cancelled");
        let why = Some("one\n  two".to_string());
        assert_eq!(list(&[JobSummary { why, ..job(JobState::Failed) }]).lines().count(), 2, "one job, one line");
        let elsewhere = JobSummary { host: Some("n2".into()), ..job(JobState::Running) };
        let both = list(&[job(JobState::Running), elsewhere]);
        assert!(both.contains("host") && both.contains("n2") && both.lines().count() == 3, "{both}");
    }

    /// [S-068]
    #[test]
    fn a_stage_in_shows_how_far_it_is() {
        let staging = Some(Staging { done_bytes: 1 << 20, total_bytes: 4 << 20, left_s: Some(12) });
        let detail = "its data are being brought".to_string();
        let shown = line(&JobSummary { detail, staging, ..job(JobState::StagingIn) });
        assert!(shown.ends_with("its data are being brought: 1.0 MiB of 4.0 MiB (25 %), about 12 s left"), "{shown}");
    }
}

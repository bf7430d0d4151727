//! The queue of PBS: parses the output of `qstat -f -F json`.

use super::{Error, Queue, QueuedJob, Snapshot, State, WaitsFor, ask, clock};
use object::now_ms;
use serde_json::{Map, Value};
use std::time::UNIX_EPOCH;

/// The queue of the PBS server that `qstat` reaches from here. The inputs of its jobs are unknown.
pub struct Pbs;

impl Queue for Pbs {
    fn snapshot(&self) -> Result<Snapshot, Error> {
        let jobs = parse(&ask("qstat", &["-f", "-F", "json"], &[])?)?;
        // A server without nodes refuses the request; then no job runs either.
        let nodes = ask("pbsnodes", &["-a", "-F", "json"], &[]).unwrap_or_default();
        Ok(Snapshot { taken_ms: now_ms(), nodes: count_nodes(&nodes), jobs })
    }
}

/// Parses the output of `qstat -f -F json`: running jobs, then waiting jobs in the server's order.
pub fn parse(text: &str) -> Result<Vec<QueuedJob>, Error> {
    let strange = || Error::Answer { command: "qstat".into(), line: text.chars().take(200).collect() };
    let answer: Value = serde_json::from_str(text).map_err(|_| strange())?;
    let answer = answer.as_object().ok_or_else(strange)?;
    // Without jobs the server leaves the member out.
    let none = Map::new();
    let jobs = answer.get("Jobs").map_or(Some(&none), Value::as_object).ok_or_else(strange)?;
    let mut jobs: Vec<_> = jobs.iter().map(|(id, job)| read(id, job)).collect::<Option<_>>().ok_or_else(strange)?;
    jobs.sort_by_key(|job| (job.state == State::Pending, job.submitted_ms, number(&job.id)));
    Ok(jobs)
}

/// Start of a job of `cores` that is submitted now and may run for `length_ms`. It is the first time at which it fits
/// beside running jobs and those with a plan (`estimated.start_time`). Waiting jobs without a plan are ignored, so the
/// estimate may be too early. `None` if the server does not report its cores.
///
/// `jobs` and `nodes` are the output of `qstat -f -F json` and `pbsnodes -a -F json`; times are in milliseconds since
/// 1970.
pub fn start_of_another(jobs: &str, nodes: &str, now_ms: u64, cores: u32, length_ms: u64) -> Option<u64> {
    let taken = taken(jobs, now_ms)?;
    let capacity = cores_of(nodes);
    if capacity == 0 || u64::from(cores) > capacity {
        return None;
    }
    let fits = |at: &u64| {
        let end = at.saturating_add(length_ms.max(1));
        let meets = |t: &&(u64, u64, u64)| t.0 < end && t.1 > *at;
        // Use peaks at its start, or at the start of a job that begins before its end.
        let starts = std::iter::once(*at).chain(taken.iter().filter(meets).map(|t| t.0.max(*at)));
        let used = |then: u64| taken.iter().filter(|t| t.0 <= then && t.1 > then).map(|t| t.2).sum::<u64>();
        starts.into_iter().all(|then| used(then) + u64::from(cores) <= capacity)
    };
    let mut times: Vec<u64> = std::iter::once(now_ms).chain(taken.iter().map(|t| t.1)).collect();
    times.retain(|at| (now_ms..u64::MAX).contains(at));
    times.sort_unstable();
    times.into_iter().find(fits)
}

/// (start, end, cores) of running and planned jobs.
fn taken(jobs: &str, now_ms: u64) -> Option<Vec<(u64, u64, u64)>> {
    let answer: Value = serde_json::from_str(jobs).ok()?;
    let none = Map::new();
    let all = answer.get("Jobs").map_or(Some(&none), Value::as_object)?;
    let mut taken = Vec::new();
    for job in all.values() {
        let (state, _) = state(job["job_state"].as_str().unwrap_or_default());
        let start = match state {
            State::Pending => time(&job["estimated"]["start_time"]).map(|at| at.max(now_ms)),
            State::Running | State::Ending => Some(time(&job["stime"]).unwrap_or(now_ms).min(now_ms)),
            State::Ended => None,
        };
        let cores = cores(&job["Resource_List"]).unwrap_or(1);
        let length_ms = job["Resource_List"]["walltime"].as_str().and_then(clock).map(|s| s * 1000);
        if let Some(start) = start {
            // A job beyond its walltime may end at any moment; one without a limit never ends.
            let end = length_ms.map_or(u64::MAX, |length| start.saturating_add(length).max(now_ms + 1));
            taken.push((start, end, cores));
        }
    }
    Some(taken)
}

/// Cores of the nodes that accept jobs.
fn cores_of(nodes: &str) -> u64 {
    let answer: Value = serde_json::from_str(nodes).unwrap_or_default();
    let Some(nodes) = answer["nodes"].as_object() else { return 0 };
    let up = |node: &&Value| {
        let state = node["state"].as_str().unwrap_or_default();
        !["down", "offline", "unknown", "stale"].iter().any(|word| state.contains(word))
    };
    nodes.values().filter(up).filter_map(|node| cores(&node["resources_available"])).sum()
}

/// Number of cores among resources: a number, or a text with one.
fn cores(resources: &Value) -> Option<u64> {
    let n = &resources["ncpus"];
    n.as_u64().or_else(|| n.as_str()?.parse().ok())
}

fn number(id: &str) -> u64 {
    id.split(['.', '[']).next().and_then(|n| n.parse().ok()).unwrap_or(u64::MAX)
}

fn read(id: &str, job: &Value) -> Option<QueuedJob> {
    let text = |name: &str| job[name].as_str().unwrap_or_default();
    let (state, waits_for) = state(text("job_state"));
    let resources = &job["Resource_List"];
    let start_ms = match state {
        State::Pending => time(&job["estimated"]["start_time"]),
        _ => time(&job["stime"]),
    };
    Some(QueuedJob {
        id: id.into(),
        user: text("Job_Owner").split('@').next().unwrap_or_default().into(),
        queue: text("queue").into(),
        nodes: resources["nodect"].as_u64().unwrap_or(1) as u32,
        state,
        waits_for,
        reason: text("comment").into(),
        start_ms,
        time_limit_s: resources["walltime"].as_str().and_then(clock),
        submitted_ms: time(&job["ctime"]),
        inputs: Vec::new(),
    })
}

fn state(letter: &str) -> (State, WaitsFor) {
    match letter {
        "R" | "S" | "U" | "B" => (State::Running, WaitsFor::Nothing),
        "E" => (State::Ending, WaitsFor::Nothing),
        "F" | "X" | "M" | "C" => (State::Ended, WaitsFor::Nothing),
        "W" => (State::Pending, WaitsFor::Time),
        // The server holds a job with unmet dependencies by itself, with the same state as any held job.
        "H" => (State::Pending, WaitsFor::Dependency),
        _ => (State::Pending, WaitsFor::Nodes),
    }
}

/// Seconds since 1970, or `Sat Nov 21 12:00:00 2026` in UTC, the zone of the request; in milliseconds.
fn time(value: &Value) -> Option<u64> {
    if let Some(seconds) = value.as_u64() {
        return Some(seconds * 1000);
    }
    let fields: Vec<&str> = value.as_str()?.split_ascii_whitespace().collect();
    let [_, month, day, at, year] = fields.as_slice() else { return None };
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = MONTHS.iter().position(|m| m == month)? + 1;
    let at = humantime::parse_rfc3339(&format!("{year}-{month:02}-{day:0>2}T{at}Z")).ok()?;
    at.duration_since(UNIX_EPOCH).ok().map(|since| since.as_millis() as u64)
}

fn count_nodes(text: &str) -> u32 {
    let answer: Value = serde_json::from_str(text).unwrap_or_default();
    answer["nodes"].as_object().map_or(0, Map::len) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_is_read_as_qstat_writes_it() {
        let text = r#"{"timestamp":1,"pbs_server":"s","Jobs":{
            "11.s":{"Job_Name":"b","Job_Owner":"ann@h","job_state":"Q","queue":"batch","ctime":"Sat Nov 21 12:00:05 2026",
                "Resource_List":{"nodect":4,"walltime":"01:30:00"},"estimated":{"start_time":"Sat Nov 21 13:00:00 2026"}},
            "10.s":{"Job_Name":"a","Job_Owner":"ann@h","job_state":"R","queue":"batch","ctime":"Sat Nov 21 12:00:00 2026",
                "stime":1795262400,"Resource_List":{"nodect":2}},
            "9.s":{"Job_Name":"c","Job_Owner":"bob@h","job_state":"H","queue":"dataxfer","ctime":"Sat Nov 21 11:00:00 2026",
                "Resource_List":{"ncpus":1}}}}"#;
        let jobs = parse(text).unwrap();
        assert_eq!(jobs.iter().map(|job| job.id.as_str()).collect::<Vec<_>>(), ["10.s", "9.s", "11.s"]);
        assert_eq!(jobs[0].start_ms, Some(1_795_262_400_000), "stime");
        assert_eq!((jobs[1].waits_for, jobs[1].user.as_str()), (WaitsFor::Dependency, "bob"));
        assert_eq!((jobs[2].nodes, jobs[2].time_limit_s), (4, Some(5400)));
        // 21 November 2026, 13:00 UTC.
        assert_eq!(jobs[2].start_ms, Some(1_795_266_000_000));
        assert_eq!(parse(r#"{"timestamp":1}"#).unwrap(), [], "an empty server");
        assert!(parse("qstat: cannot connect").is_err());
    }

    #[test]
    fn the_start_of_another_job_is_where_it_fits_beside_what_is_planned() {
        let nodes = r#"{"nodes":{"a":{"state":"free","resources_available":{"ncpus":4}},
            "b":{"state":"job-busy","resources_available":{"ncpus":4}},
            "c":{"state":"down,offline","resources_available":{"ncpus":4}}}}"#;
        let now = 1_795_262_400_000; // 12:00:00
        let s = |seconds: u64| now + seconds * 1000;
        // Six cores until 13:00; then eight are planned until 14:00; one waits without a plan.
        let jobs = r#"{"Jobs":{
            "1.s":{"job_state":"R","stime":1795260600,"Resource_List":{"ncpus":6,"walltime":"01:30:00"}},
            "2.s":{"job_state":"Q","estimated":{"start_time":"Sat Nov 21 13:00:00 2026"},"Resource_List":{"ncpus":8,"walltime":"01:00:00"}},
            "3.s":{"job_state":"Q","Resource_List":{"ncpus":8,"walltime":"10:00:00"}},
            "4.s":{"job_state":"F","stime":1795262000,"Resource_List":{"ncpus":8,"walltime":"10:00:00"}}}}"#;
        let start = |cores, length_s: u64| start_of_another(jobs, nodes, now, cores, length_s * 1000);
        assert_eq!(start(2, 3600), Some(now), "fits beside what runs");
        assert_eq!(start(2, 3601), Some(s(7200)), "would delay what is planned");
        assert_eq!(start(3, 60), Some(s(7200)));
        assert_eq!(start(9, 60), None, "larger than the machine");
        assert_eq!(start_of_another(jobs, "{}", now, 1, 60), None, "nothing is known of the nodes");
        assert_eq!(start_of_another(r#"{"timestamp":1}"#, nodes, now, 8, 60_000), Some(now), "an empty server");
        let endless = r#"{"Jobs":{"1.s":{"job_state":"R","Resource_List":{"ncpus":8}}}}"#;
        assert_eq!(start_of_another(endless, nodes, now, 1, 60), None, "behind one without end nobody knows");
    }

    #[test]
    fn days_are_counted_as_the_calendar_does() {
        let day_ms = |days: u64| Some(days * 86_400_000);
        assert_eq!(time(&"Thu Jan  1 00:00:00 1970".into()), day_ms(0));
        assert_eq!(time(&"Wed Mar  1 00:00:00 2000".into()), day_ms(11_017));
        assert_eq!(time(&"Sat Nov 21 12:00:01 2026".into()), day_ms(20_778).map(|ms| ms + 43_201_000));
        assert_eq!(time(&"Sat Nov 31 12:00:01 2026".into()), None);
    }
}

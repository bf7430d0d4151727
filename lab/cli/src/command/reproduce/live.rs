//! Live runs: a command that measures this machine, as a child process; the tables that it prints are its answer.
//!
//! A table in Markdown becomes `tables.N.ROW.COLUMN`, a number, or several where the cell has several. `ROW` is the
//! first cell of a row and `COLUMN` the heading, in lower case, with `_` in place of all but letters and digits. A row
//! with the name of an earlier one gets `_2`, `_3` and so on behind it.

use super::formula::at;
use crate::command::executor::Answer;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time between two looks at the child: an interrupt is noticed within it.
const POLL: Duration = Duration::from_millis(50);

/// Time in which a terminated command removes its mounts and devices; a guess.
const GRACE: Duration = Duration::from_secs(20);

/// Times of a live command.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Live {
    /// Expected time on an idle machine with two cores.
    minutes: f64,
    /// Time after which the command is ended.
    minutes_max: f64,
}

impl Live {
    pub(super) fn expected(self) -> Duration {
        Duration::from_secs_f64(self.minutes * 60.0)
    }

    pub(super) fn time_max(self) -> Duration {
        Duration::from_secs_f64(self.minutes_max * 60.0)
    }
}

/// Runs a command, and returns the tables that it prints. Its output is kept in `NAME.out` and `NAME.err`. A command
/// that lacks a number of `wanted` has no answer, but the line of its errors that begins with `skipped: `, or the last
/// one, as the reason. Its exit status does not count, since a benchmark also fails if a figure misses its aim.
pub(super) fn measure(
    words: &[String],
    kept: &Path,
    time_max: Duration,
    wanted: &BTreeSet<Vec<String>>,
    stop: &AtomicBool,
) -> Answer<Value> {
    let [out, err] = ["out", "err"].map(|end| kept.with_extension(end));
    let failed = |error: io::Error| format!("{}: {error}", words[0]);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null());
    command.stdout(File::create(&out).map_err(failed)?).stderr(File::create(&err).map_err(failed)?);
    // In a group of its own, so that a signal reaches its children as well.
    let mut child = command.process_group(0).spawn().map_err(failed)?;
    if let Some(why) = ended_early(&mut child, time_max, stop).map_err(failed)? {
        return Err(why);
    }
    let answer = json!({ "tables": tables(&std::fs::read_to_string(&out).map_err(failed)?) });
    let Some(lacking) = wanted.iter().find(|path| at(&answer, path).is_none()) else { return Ok(answer) };
    let errors = std::fs::read_to_string(&err).map_err(failed)?;
    let skipped = errors.lines().find(|line| line.starts_with("skipped: ")).map(str::to_owned);
    let last = || errors.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    Err(skipped.unwrap_or_else(|| format!("no {} was printed; {}: {}", lacking.join("."), err.display(), last())))
}

/// Waits for the child's end; returns the reason if it was terminated.
fn ended_early(child: &mut Child, time_max: Duration, stop: &AtomicBool) -> io::Result<Option<String>> {
    let began = Instant::now();
    while child.try_wait()?.is_none() {
        let why = match (stop.load(Ordering::Relaxed), began.elapsed() >= time_max) {
            (true, _) => "interrupted".into(),
            (_, true) => format!("it was ended after {:.0?}", time_max),
            _ => {
                std::thread::sleep(POLL);
                continue;
            }
        };
        end(child)?;
        return Ok(Some(why));
    }
    Ok(None)
}

/// Terminates the child and its children, and kills them if they take too long.
fn end(child: &mut Child) -> io::Result<()> {
    let group = Pid::from_child(child);
    kill_process_group(group, Signal::TERM)?;
    let began = Instant::now();
    while child.try_wait()?.is_none() {
        if began.elapsed() >= GRACE {
            kill_process_group(group, Signal::KILL)?;
            child.wait()?;
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}

/// The tables of a text in Markdown.
fn tables(text: &str) -> Vec<Map<String, Value>> {
    let mut tables = Vec::new();
    let mut headings: Option<Vec<String>> = None;
    for line in text.lines() {
        let Some(line) = line.strip_prefix('|') else {
            headings = None;
            continue;
        };
        let cells: Vec<&str> = line.trim_end().trim_end_matches('|').split('|').map(str::trim).collect();
        let Some(headings) = &headings else {
            headings = Some(cells.into_iter().map(name).collect());
            tables.push(Map::new());
            continue;
        };
        let row: &mut Map<String, Value> = tables.last_mut().expect("it has headings");
        if cells.iter().any(|cell| !cell.starts_with("---")) {
            let numbers = headings.iter().zip(&cells).skip(1).map(|(heading, cell)| (heading.clone(), numbers(cell)));
            row.insert(unused(row, name(cells[0])), Value::Object(numbers.collect()));
        }
    }
    tables
}

/// A name, with a number behind it if it is taken.
fn unused(taken: &Map<String, Value>, name: String) -> String {
    let numbered = (2..).map(|n| format!("{name}_{n}"));
    std::iter::once(name.clone()).chain(numbered).find(|name| !taken.contains_key(name)).expect("numbers do not end")
}

fn name(text: &str) -> String {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("_").to_lowercase()
}

/// The number of a cell, or all of several.
fn numbers(cell: &str) -> Value {
    let words = cell.split(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | '-' | '+'));
    let mut numbers: Vec<f64> = words.filter_map(|word| word.trim_end_matches('.').parse().ok()).collect();
    if numbers.len() == 1 { json!(numbers.remove(0)) } else { json!(numbers) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str, time_max: Duration, wanted: &str) -> Answer<Value> {
        let at = tempfile::tempdir().unwrap();
        let words: Vec<String> = ["sh", "-c", script].map(str::to_owned).to_vec();
        let wanted = BTreeSet::from([wanted.split('.').map(str::to_owned).collect()]);
        measure(&words, &at.path().join("live"), time_max, &wanted, &AtomicBool::new(false))
    }

    #[test]
    fn tables_are_numbers_by_row_and_heading() {
        let text = "4 disks\n\n| scheme | live: mean, longest (s) | off |\n|---|---|---|\n\
                    | MaxBW | 8.02, **19.52** | -5.0 % |\n\
                    done\n| | x |\n|---|---|\n| speed-up | 5.8x |\n| speed-up | |\n";
        let of = json!(tables(text));
        assert_eq!(of[0], json!({ "maxbw": { "live_mean_longest_s": [8.02, 19.52], "off": -5.0 } }));
        assert_eq!(of[1], json!({ "speed_up": { "x": 5.8 }, "speed_up_2": { "x": [] } }));
    }

    #[test]
    fn a_command_without_its_numbers_gives_the_reason_and_a_failed_one_with_them_counts() {
        let table = "printf '| | x |\\n|---|---|\\n| a | 2 |\\n'";
        let hour = Duration::from_secs(3600);
        let of = run(&format!("{table}; exit 1"), hour, "tables.0.a.x").unwrap();
        assert_eq!(of["tables"][0]["a"]["x"], 2.0);
        let why = run(&format!("{table}; echo skipped: fio is missing >&2"), hour, "tables.0.b.x").unwrap_err();
        assert_eq!(why, "skipped: fio is missing");
        let why = run("echo no room >&2; exit 2", hour, "tables.0.a.x").unwrap_err();
        assert!(why.starts_with("no tables.0.a.x was printed; /") && why.ends_with("live.err: no room"), "{why}");
    }

    #[test]
    fn a_command_is_ended_after_its_time_with_its_children() {
        let why = run("sleep 1000 & wait", Duration::ZERO, "tables.0.a.x").unwrap_err();
        assert_eq!(why, "it was ended after 0ns");
    }
}

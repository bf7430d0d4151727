//! `entrepot trace`: records what a volume serves.

use crate::answer;
use crate::connect::Context;
use crate::failure::{Failure, Result};
use crate::shown::{Output, bytes, count};
use crate::values;
use clap::{Args, Subcommand};
use node::control::answers::{RecordEnd, TraceLines, TraceRecord, read};
use node::control::{Problem, RecordTrace, Request};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Record the reads and writes that a volume serves, as a trace for the laboratory
///
/// `entrepot-lab tune` searches better settings with it, `entrepot-lab trace` and `entrepot-lab sim` read it as well
/// (docs/guide/operate/tune.md). Only root and the user who runs the daemon may record.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot trace record monday.csv --for 10min")]
pub struct Trace {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Record(Record),
}

/// Record reads and writes until a limit is reached, or Ctrl-C
///
/// Each line has the time, numbers of the open and of the file, the range, and the time until the answer. Names and
/// users are left out. Reads that the kernel's page cache answers do not reach the daemon; neither do files that are
/// passed through. On a cluster these are the operations of this node.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot trace record monday.csv --for 10min
  entrepot trace record monday.csv --for 8h --size-max 2GiB
  entrepot-lab tune volume.toml --trace monday.csv")]
struct Record {
    /// File to write, as comma-separated values; it must not exist yet.
    file: PathBuf,
    /// Time after which the recording ends, at most a day.
    #[arg(long = "for", value_name = "SPAN", default_value = "1min", value_parser = values::span_s)]
    seconds: u64,
    /// Size at which the recording ends.
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = values::size)]
    size_max: u64,
    /// Format of the summary.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

impl Trace {
    pub fn run(self, context: &Context) -> Result<u8> {
        let Verb::Record(record) = self.verb;
        record.run(context)
    }
}

impl Record {
    fn run(self, context: &Context) -> Result<u8> {
        let mut client = context.connect()?;
        let opened = File::options().write(true).create_new(true).mode(0o600).open(&self.file);
        let mut file = opened.map_err(|error| not_written(&self.file, &error))?;
        crate::command::work::say_at_interrupt("interrupted: the file has the operations until now".into())?;
        let request = Request::RecordTrace(RecordTrace { seconds: self.seconds, bytes_max: self.size_max });
        let mut failed = None;
        let answer = client.ask(&request, &mut |value| {
            let written = read(value).map(|TraceLines { lines }| file.write_all(lines.as_bytes()));
            if let Ok(Err(error)) = written {
                failed.get_or_insert(error);
            }
        });
        if answer.is_err() && file.metadata().is_ok_and(|of| of.len() == 0) {
            // Nothing was recorded, so the next attempt may use the name.
            let _ = std::fs::remove_file(&self.file);
        }
        if let Some(error) = failed {
            return Err(not_written(&self.file, &error));
        }
        answer::show(self.output, answer?, summary)?;
        Ok(0)
    }
}

fn not_written(path: &Path, error: &io::Error) -> Failure {
    if error.kind() != io::ErrorKind::AlreadyExists {
        return Failure::of_io(&path.display().to_string(), error).so("the recording is not complete").into();
    }
    let problem = Problem::wrong(format!("{} exists", path.display())).so("nothing was recorded");
    problem.try_this("name another file, or remove it").into()
}

fn summary(of: &TraceRecord) -> String {
    let line = |what: &str, number, moved, mean_ms: f64| {
        let mean = if number > 0 { format!(", {mean_ms:.3} ms each on average") } else { String::new() };
        format!("{}, {}{mean}\n", count(number, what), bytes(moved))
    };
    let end = match of.end {
        RecordEnd::Time => "",
        RecordEnd::Size => "; the size limit ended it",
        RecordEnd::Stop => "; the daemon ended it",
    };
    let dropped = match of.dropped {
        0 => String::new(),
        n => format!("{} came faster than they were written and are missing\n", count(n, "operation")),
    };
    let read = line("read", of.reads, of.read_bytes, of.read_mean_ms);
    let written = line("write", of.writes, of.written_bytes, of.write_mean_ms);
    format!("{read}{written}{dropped}{} in {:.1} s{end}\n", bytes(of.bytes), of.seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_has_the_mean_times_and_the_missing_operations() {
        let of = TraceRecord { reads: 2, read_bytes: 8192, read_mean_ms: 1.5, dropped: 3, ..TraceRecord::default() };
        let text = summary(&TraceRecord { bytes: 120, seconds: 1.0, end: RecordEnd::Size, ..of });
        assert!(text.starts_with("2 reads, ") && text.contains("1.500 ms each"), "{text}");
        assert!(text.contains("0 writes") && text.contains("3 operations came") && text.contains("size limit"));
    }
}

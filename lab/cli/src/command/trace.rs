//! `entrepot-lab trace`: traces inspected, converted and generated.

mod generate;
mod stats;

use super::said;
use crate::failure::{Failure, Result};
use crate::shown::{self, Output};
use crate::table::Answer;
use clap::{Args, Subcommand, ValueEnum};
use node::control::Problem;
use serde_json::json;
use sim::trace::{self, Error, Flat, Format, Options, Target, TimeUnit, WriteError, Writer};
use std::path::{Path, PathBuf};

/// Look at traces of requests, convert and generate them
#[derive(Debug, Args)]
#[command(after_help = "\
FORMATS:
  native spc msr load blkparse blktrace fio disksim oracle-general arc lirs dxt vscsi tencent systor csv
  Most are told by their content, .gz, .zst, .xz and .bz2 are read directly; docs/reference/traces.md describes all of them.

EXAMPLES:
  entrepot-lab trace stats Financial1.spc
  entrepot-lab trace stats financial.ascii.gz --time-unit ns
  entrepot-lab trace stats mine.csv --columns time:ms,offset:sectors,length,op
  entrepot-lab trace convert OLTP.lis.zst oltp.trace.zst
  entrepot-lab trace generate web web.trace.zst --seed 1")]
pub struct Trace {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Stats(stats::Stats),
    Convert(Convert),
    Generate(generate::Generate),
}

impl Trace {
    pub fn run(self) -> Result<u8> {
        match self.verb {
            Verb::Stats(c) => c.run(),
            Verb::Convert(c) => c.run(),
            Verb::Generate(c) => c.run(),
        }
    }

    /// Answer of `trace stats`; other verbs have none for programs.
    pub fn answer(&self) -> Result<Answer> {
        let Verb::Stats(stats) = &self.verb else { return Err(super::no_answer()) };
        stats.answer()
    }
}

fn unit_named(name: &str) -> std::result::Result<TimeUnit, String> {
    TimeUnit::named(name).ok_or_else(|| "no such unit; there are s, ms, us, ns".to_owned())
}

pub(super) fn format_named(name: &str) -> std::result::Result<Format, String> {
    Format::named(name).ok_or_else(|| format!("no such format; there are {}", Format::names()))
}

/// How the records of a trace are decoded.
#[derive(Debug, Args)]
pub(super) struct Decoding {
    /// The format, if the content does not tell it.
    #[arg(long, value_parser = format_named)]
    format: Option<Format>,
    /// Skip and count malformed lines instead of stopping at the first.
    #[arg(long)]
    lenient: bool,
    /// Columns of a text trace: time[:s|ms|us|ns], offset and length[:bytes|sectors|blocks], op, client, device, file;
    /// `-` for others.
    #[arg(long, value_name = "COLUMNS")]
    columns: Option<String>,
    /// Unit of time where the format does not say it (disksim).
    #[arg(long, value_name = "s|ms|us|ns", value_parser = unit_named)]
    time_unit: Option<TimeUnit>,
}

impl Decoding {
    /// Options of the reader; blocks have this size where the format counts in blocks.
    pub(super) fn options(&self, block_bytes: Option<u32>) -> Options {
        Options {
            format: self.format,
            lenient: self.lenient,
            columns: self.columns.clone(),
            time_unit: self.time_unit,
            block_bytes,
            ..Options::default()
        }
    }
}

/// How a trace is read.
#[derive(Debug, Args)]
struct Reading {
    #[command(flatten)]
    decoding: Decoding,
    /// Size of a block where the format counts in blocks (arc, lirs, oracle-general), and of the blocks of the
    /// footprint; 4096 if not given.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..))]
    block_size: Option<u32>,
    /// Event of blktrace and blkparse that is the request: Q as it arrived, D as it was issued to the device, C as it
    /// completed.
    #[arg(long, default_value = "Q", value_parser = ["Q", "G", "I", "D", "C"])]
    action: String,
    /// Darshan: transfers of MPI-IO instead of those of POSIX.
    #[arg(long)]
    mpiio: bool,
    /// Sort by time; holds all records in memory.
    #[arg(long)]
    sort: bool,
}

impl Reading {
    fn options(&self) -> Options {
        Options {
            action: self.action.as_bytes().first().copied().unwrap_or(b'Q'),
            mpiio: self.mpiio,
            sort: self.sort,
            ..self.decoding.options(self.block_size)
        }
    }
}

/// Formats that can be written.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum To {
    Native,
    Spc,
    Disksim,
    Load,
    Fio,
}

/// Write a trace in another format; `native` keeps everything
///
/// The result is compressed if its name ends with .zst or .gz. It appears under its name when it is complete.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot-lab trace convert OLTP.lis.zst oltp.trace.zst
  entrepot-lab trace convert sdb.blktrace.* sdb.trace.zst
  entrepot-lab trace convert app-dxt.txt app.spc --to spc --flat
  entrepot-lab trace convert web.trace web.ascii --to disksim --to-unit ms
  entrepot-lab trace convert web.trace web.log --to fio && fio --name=r --read_iolog=web.log ...")]
struct Convert {
    /// The trace; several files are merged by time: those of blktrace, one per CPU, or one per client.
    #[arg(required = true, value_name = "FROM")]
    from: Vec<PathBuf>,
    /// The file to write.
    to_file: PathBuf,
    /// The format to write.
    #[arg(long, value_enum, default_value = "native")]
    to: To,
    /// Unit of time to write (disksim).
    #[arg(long, value_name = "s|ms|us|ns", default_value = "ns", value_parser = unit_named)]
    to_unit: TimeUnit,
    /// Place files on one device, in extents that double from 64 KiB to 64 MiB.
    #[arg(long)]
    flat: bool,
    #[command(flatten)]
    reading: Reading,
    /// How to write what was done.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

impl Convert {
    fn run(self) -> Result<u8> {
        let options = self.reading.options();
        let identity = trace::identify(&self.from[0], &options).map_err(failed)?;
        let mut has_times = identity.has_times;
        for from in &self.from {
            has_times &= trace::identify(from, &options).map_err(failed)?.has_times;
            if same_file(from, &self.to_file) {
                let cause = format!("{} is to be read and written", from.display());
                let problem = Problem::wrong(cause).so("nothing was written; the trace is as it was");
                return Err(problem.try_this("name another file for the result").into());
            }
        }
        let block_bytes = if identity.format.needs_block_bytes() { identity.block_bytes } else { 0 };
        let target = match self.to {
            To::Native => Target::Native { block_bytes, has_times },
            To::Spc => Target::Spc,
            To::Disksim => Target::Disksim(self.to_unit),
            To::Load => Target::Load,
            To::Fio => Target::Fio,
        };
        let mut reader = trace::open_all(&self.from, &options).map_err(failed)?;
        let mut flat = self.flat.then(Flat::new);
        let written = whole(&self.to_file, target, |writer| {
            for record in reader.by_ref() {
                write(writer, &mut flat, &record.map_err(failed)?)?;
            }
            Ok(())
        })?;
        let accounting = reader.accounting();
        match self.output {
            Output::Json => shown::json(&json!({ "read": accounting, "written": written }))?,
            Output::Text => shown::text(&format!(
                "{} lines, {} records read, {} skipped; {} written, {} dropped, {} widened to whole sectors\n",
                accounting.lines,
                accounting.records,
                accounting.skipped_sum(),
                written.records - written.dropped,
                written.dropped,
                written.widened,
            ))?,
        }
        Ok(0)
    }
}

/// Whether two names are one file.
fn same_file(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    real(one).is_some_and(|one| real(other) == Some(one))
}

fn write(writer: &mut Writer, flat: &mut Option<Flat>, record: &trace::Record) -> Result<()> {
    let Some(flat) = flat else { return writer.write(record).map_err(not_written) };
    let mut problem = Ok(());
    let placed = flat.place(record, |r| {
        if problem.is_ok() {
            problem = writer.write(&r);
        }
    });
    placed.map_err(|reason| {
        let cause = format!("the files do not fit on one device: {}", reason.text());
        Failure::Problem(Problem::wrong(cause).try_this("convert without --flat"))
    })?;
    problem.map_err(not_written)
}

/// Writes a trace beside its name and moves it there when it is whole.
fn whole(path: &Path, target: Target, fill: impl FnOnce(&mut Writer) -> Result<()>) -> Result<trace::Written> {
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    // The end of the name selects the compression, so the mark goes before.
    let partial = path.with_file_name(format!(".partial-{}-{name}", std::process::id()));
    let written = Writer::create(&partial, target).map_err(not_written).and_then(|mut writer| {
        fill(&mut writer)?;
        writer.finish().map_err(not_written)
    });
    let moved = written.and_then(|written| std::fs::rename(&partial, path).map(|()| written).map_err(Failure::from));
    if moved.is_err() {
        // A partial file is useless; if the removal fails too, the first failure is the one to report.
        let _ = std::fs::remove_file(&partial);
    }
    moved
}

fn failed(error: Error) -> Failure {
    Failure::Problem(problem(&error))
}

/// Converts an error of a trace to a [`Problem`].
pub(super) fn problem(error: &Error) -> Problem {
    match error {
        Error::Io { path, source } => {
            Failure::of_io(&path.display().to_string(), source).so("the trace is not read, or not to its end")
        }
        _ => said(&error.to_string(), true),
    }
}

fn not_written(error: WriteError) -> Failure {
    said(&error.to_string(), matches!(error, WriteError::HasFiles { .. })).into()
}

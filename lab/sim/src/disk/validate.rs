//! The disk model against measured service times: mean error, and distance of the two distributions.
//!
//! The measurement is one that DiskSim's authors published: one request at a time, each with its service time and the
//! think time until the next. The drive's rotational position at the start is unknown, so only the distributions can
//! be compared, not single requests. Their distance is the *demerit figure* of Ruemmler and Wilkes (IEEE Computer,
//! March 1994): the root mean square of the horizontal distance between the two distribution curves.

use super::{Command, Disk, Model};
use crate::trace::decompressed;
use policy::time::Time;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// One measured request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Command of the request.
    pub command: Command,
    /// Service time of the real drive.
    pub service_ns: u64,
    /// Think time from its completion to the next request.
    pub think_ns: u64,
}

/// A line that is not a measured request.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "line {line} of the measurement: {what}; nothing was simulated. Expected: R|W Hit|Miss first-sector sectors service-us think-us"
)]
pub struct BadLine {
    /// Its number, from 1.
    pub line: usize,
    /// Error in the line.
    pub what: String,
}

/// Result of a validation.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Name of the model.
    pub model: &'static str,
    /// Number of compared requests.
    pub requests: usize,
    /// Requests left out because the model's disk has no such sectors.
    pub beyond: usize,
    /// Mean measured service time.
    pub measured_mean_ns: f64,
    /// Mean simulated service time.
    pub simulated_mean_ns: f64,
    /// Root mean square distance between the two distributions.
    pub demerit_ns: f64,
    /// Demerit of reads only, and of writes only.
    pub demerit_by_kind_ns: [f64; 2],
    /// Demerit that DiskSim's authors report for their simulator and this drive, if the measurement is of this drive.
    pub published_demerit_ns: Option<u64>,
}

/// Returns the model whose drive a measurement is named after.
pub fn called_after(file: &Path) -> Option<&'static Model> {
    let name = file.file_name()?.to_str()?.to_ascii_lowercase();
    let stem = [".trace", ".trace.gz", ".trace.zst"].iter().find_map(|end| name.strip_suffix(end))?;
    Model::named(stem)
}

/// Returns the measurements at `path`, a file or a directory of files, each with its model: `model`, or the one of
/// its name.
pub fn find(path: &Path, model: Option<&'static Model>) -> io::Result<Vec<(&'static Model, PathBuf)>> {
    if !path.metadata()?.is_dir() {
        return Ok(model.or_else(|| called_after(path)).map(|model| (model, path.into())).into_iter().collect());
    }
    let mut found = Vec::new();
    for directory in [path.to_owned(), path.join("disks")].iter().filter(|directory| directory.is_dir()) {
        for entry in std::fs::read_dir(directory)? {
            let file = entry?.path();
            found.extend(
                called_after(&file)
                    .filter(|&of| model.is_none_or(|model| std::ptr::eq(model, of)))
                    .map(|of| (of, file)),
            );
        }
    }
    found.sort_by(|a, b| a.1.cmp(&b.1));
    Ok(found)
}

/// Returns the text of a measurement, compressed or not.
pub fn read(path: &Path) -> io::Result<String> {
    io::read_to_string(decompressed(File::open(path)?)?)
}

/// Parses a measurement: one request per line.
pub fn parse(text: &str) -> Result<Vec<Measured>, BadLine> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(at, line)| parse_line(line).map_err(|what| BadLine { line: at + 1, what })).collect()
}

fn parse_line(line: &str) -> Result<Measured, String> {
    let fields: Vec<_> = line.split_whitespace().collect();
    let [kind, _, sector, count, service, think] = fields[..] else {
        return Err(format!("{} fields instead of 6", fields.len()));
    };
    let write = match kind {
        "R" => false,
        "W" => true,
        _ => return Err(format!("`{kind}` is neither R nor W")),
    };
    let whole = |text: &str| text.parse::<u64>().map_err(|_| format!("`{text}` is not a whole number"));
    let nanoseconds = |text: &str| match text.parse::<f64>() {
        Ok(us) if us.is_finite() && (0.0..1e15).contains(&us) => Ok((us * 1000.0).round() as u64),
        _ => Err(format!("`{text}` is not a time in microseconds")),
    };
    let command = Command { sector: whole(sector)?, count: whole(count)?, write };
    if command.count == 0 {
        return Err("no sectors".into());
    }
    Ok(Measured { command, service_ns: nanoseconds(service)?, think_ns: nanoseconds(think)? })
}

/// Runs requests measured on the drive `of`, if known, through `model`, with the think times of the real drive.
pub fn validate(model: &'static Model, of: Option<&Model>, measured: &[Measured]) -> Outcome {
    let mut disk = Disk::new(model);
    let mut now = Time::ZERO;
    let mut pairs = Vec::with_capacity(measured.len());
    let mut beyond = 0;
    for request in measured {
        if request.command.sector.saturating_add(request.command.count) > disk.sectors() {
            beyond += 1;
            continue;
        }
        let served = disk.serve(now, request.command);
        disk.check();
        pairs.push((request.command.write, request.service_ns, (served.done - now).0));
        now = served.done + Time(request.think_ns);
    }
    let all = |_: bool| true;
    Outcome {
        model: &model.name,
        requests: pairs.len(),
        beyond,
        measured_mean_ns: mean(pairs.iter().map(|&(_, measured, _)| measured)),
        simulated_mean_ns: mean(pairs.iter().map(|&(_, _, simulated)| simulated)),
        demerit_ns: demerit(&pairs, all),
        demerit_by_kind_ns: [demerit(&pairs, |write| !write), demerit(&pairs, |write| write)],
        published_demerit_ns: of.filter(|of| of.name == model.name).and_then(|of| of.published_demerit_ns),
    }
}

fn mean(values: impl ExactSizeIterator<Item = u64>) -> f64 {
    let count = values.len().max(1);
    values.sum::<u64>() as f64 / count as f64
}

/// Returns the demerit. Both distributions have the same number of points, so the horizontal distance at each height
/// is that between the values of the same rank.
fn demerit(pairs: &[(bool, u64, u64)], of: impl Fn(bool) -> bool) -> f64 {
    let chosen = || pairs.iter().filter(|pair| of(pair.0));
    let mut measured: Vec<_> = chosen().map(|pair| pair.1).collect();
    let mut simulated: Vec<_> = chosen().map(|pair| pair.2).collect();
    measured.sort_unstable();
    simulated.sort_unstable();
    let squares = measured.iter().zip(&simulated).map(|(&a, &b)| (a as f64 - b as f64).powi(2));
    (squares.sum::<f64>() / measured.len().max(1) as f64).sqrt()
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |ns: f64| ns / 1e6;
        let error = (self.simulated_mean_ns / self.measured_mean_ns - 1.0) * 100.0;
        writeln!(f, "disk model          {}", self.model)?;
        writeln!(f, "requests            {} compared, {} beyond the disk's end", self.requests, self.beyond)?;
        let (measured, simulated) = (ms(self.measured_mean_ns), ms(self.simulated_mean_ns));
        writeln!(f, "mean service time   {measured:.3} ms measured, {simulated:.3} ms simulated ({error:+.1} %)")?;
        let [reads, writes] = self.demerit_by_kind_ns.map(ms);
        writeln!(f, "demerit figure      {:.3} ms (reads {reads:.3}, writes {writes:.3})", ms(self.demerit_ns))?;
        match self.published_demerit_ns {
            Some(ns) => {
                write!(f, "DiskSim's own       {:.3} ms, as reported by its authors for this drive", ms(ns as f64))
            }
            None => write!(f, "DiskSim's own       not known: the measurement is not called after this drive"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_is_read_and_a_bad_line_named() {
        let read = parse("R Hit 100 4 1000.5 20\n\nW Miss 8 8 3 4\n").unwrap();
        assert_eq!(read.len(), 2);
        assert_eq!(read[0].service_ns, 1_000_500);
        assert_eq!(read[1].command, Command { sector: 8, count: 8, write: true });
        assert_eq!(parse("R Hit 100 4 1 2\nX Hit 1 1 1 1").unwrap_err().line, 2);
        assert_eq!(parse("R Hit 100 4 1").unwrap_err().what, "5 fields instead of 6");
        assert_eq!(parse("R Hit 100 0 1 2").unwrap_err().what, "no sectors");
    }

    #[test]
    fn a_published_figure_stands_beside_measurements_of_its_drive_only() {
        let measured = parse("R Hit 100 4 1000.5 20").unwrap();
        let (cheetah, atlas) = (Model::named("cheetah9lp").unwrap(), Model::named("atlas10k").unwrap());
        let published = |of| validate(cheetah, of, &measured).published_demerit_ns;
        assert_eq!([published(Some(cheetah)), published(Some(atlas)), published(None)], [Some(107_000), None, None]);
        assert_eq!(called_after(Path::new("x/ATLAS10K.trace.gz")).unwrap().name, "atlas10k");
        assert!(validate(cheetah, None, &measured).to_string().contains("not known"));
    }

    #[test]
    fn distributions_that_differ_by_a_shift_are_that_far_apart() {
        let pairs = [(false, 10, 17), (false, 30, 7), (true, 20, 27), (true, 0, 37)];
        assert!((demerit(&pairs, |_| true) - 7.0).abs() < 1e-12);
    }
}

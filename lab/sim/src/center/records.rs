//! LANL's failure records of 1996 to 2005: outages of each node of each system.
//!
//! The file is comma-separated: system, machine type, nodes, processors, ..., node number, ... Columns 17 and 18 are
//! "Prob Started" and "Prob Fixed" as month/day/year hour:minute. Records that end no later than they begin are
//! skipped and counted; overlapping outages of one node are merged.
//!
//! Source: LA-UR-05-7318, "operational data to support and enable computer science research".

use policy::time::Time;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// An outage: start and end.
pub type Outage = (Time, Time);

/// Records of one system. Times count from its first failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// Number of the system.
    pub system: u32,
    /// Nodes of the system, with or without failures.
    pub nodes: u32,
    /// Number of records read.
    pub records: u64,
    /// Records without duration.
    pub empty: u64,
    /// Time from the first failure to the last.
    pub span: Time,
    /// For each node that failed, its outages in order, without overlap.
    pub outages: BTreeMap<u32, Vec<Outage>>,
}

/// Reason why failure records cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    /// The file cannot be read.
    #[error("{}: {source}; nothing was simulated. Give LANL's failure records as .csv, .csv.gz or .csv.zst", path.display())]
    Io {
        /// Path of the records.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// A line is not a record.
    #[error(
        "line {line} of the failure records: {what}; nothing was simulated. Records have at least 18 columns, of which 1, 3, 6, 17 and 18 are read"
    )]
    Malformed {
        /// Number of the line, from 1.
        line: usize,
        /// Error in the line.
        what: String,
    },
    /// The system has no record.
    #[error(
        "the failure records hold nothing of system {system}; nothing was simulated. Choose with --system from {there}"
    )]
    NoSuchSystem {
        /// Number of the requested system.
        system: u32,
        /// Numbers of the recorded systems.
        there: String,
    },
}

/// Reads the records of one system.
pub fn open(path: &Path, system: u32) -> Result<Records, RecordsError> {
    let text = crate::disk::validate::read(path).map_err(|source| RecordsError::Io { path: path.into(), source })?;
    parse(&text, system)
}

/// Reads the records of one system from text.
pub fn parse(text: &str, system: u32) -> Result<Records, RecordsError> {
    let mut records = Records { system, ..Records::default() };
    let mut systems: BTreeMap<u32, u64> = BTreeMap::new();
    let mut raw: BTreeMap<u32, Vec<(i64, i64)>> = BTreeMap::new();
    for (at, line) in text.lines().enumerate().skip(1).filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = |what: String| RecordsError::Malformed { line: at + 1, what };
        let columns: Vec<&str> = line.splitn(19, ',').collect();
        let column = |n: usize| columns.get(n - 1).copied().ok_or_else(|| wrong(format!("there is no column {n}")));
        let number = |n: usize| {
            let text = column(n)?.trim();
            text.parse::<u32>().map_err(|_| wrong(format!("column {n} is no number: `{text}`")))
        };
        let of = number(1)?;
        *systems.entry(of).or_default() += 1;
        if of != system {
            continue;
        }
        let time = |n: usize| {
            let text = column(n)?;
            minutes(text).ok_or_else(|| wrong(format!("column {n} is no month/day/year hour:minute: `{text}`")))
        };
        let (node, from, to) = (number(6)?, time(17)?, time(18)?);
        records.nodes = records.nodes.max(number(3)?).max(node + 1);
        records.records += 1;
        if to <= from {
            records.empty += 1;
        } else {
            raw.entry(node).or_default().push((from, to));
        }
    }
    let Some(first) = raw.values().flatten().map(|(from, _)| *from).min() else {
        let there = systems.iter().map(|(system, n)| format!("{system} ({n} records)")).collect::<Vec<_>>().join(", ");
        return Err(RecordsError::NoSuchSystem { system, there });
    };
    let time = |minutes: i64| Time::from_secs((minutes - first) as u64 * 60);
    for (node, mut outages) in raw {
        outages.sort_unstable();
        records.span = records.span.max(outages.last().map_or(Time::ZERO, |(from, _)| time(*from)));
        let outages = outages.into_iter().map(|(from, to)| (time(from), time(to))).collect();
        records.outages.insert(node, joined(outages));
    }
    Ok(records)
}

/// Merges overlapping or touching outages, which are in order of their start.
pub fn joined(outages: Vec<Outage>) -> Vec<Outage> {
    let mut joined: Vec<Outage> = Vec::with_capacity(outages.len());
    for (from, to) in outages {
        match joined.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => joined.push((from, to)),
        }
    }
    joined
}

/// Converts `m/d/Y H:M` to minutes since 1970.
fn minutes(text: &str) -> Option<i64> {
    let (date, clock) = text.trim().split_once(' ')?;
    let mut parts = date.split('/').map(|part| part.parse::<i64>().ok());
    let (month, day, year) = (parts.next()??, parts.next()??, parts.next()??);
    let (hour, minute) = clock.trim().split_once(':')?;
    let (hour, minute): (i64, i64) = (hour.parse().ok()?, minute.parse().ok()?);
    let sane = (1..=12).contains(&month) && (1..=31).contains(&day) && (1970..2200).contains(&year);
    if !sane || !(0..24).contains(&hour) || !(0..60).contains(&minute) || parts.next().is_some() {
        return None;
    }
    // Years begin in March, so that the leap day is the last.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = y * 365 + y / 4 - y / 100 + y / 400 + (m * 153 + 2) / 5 + day - 1 - 719_468;
    Some((days * 24 + hour) * 60 + minute)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "System,machine type,nodes,...\n";

    fn line(system: u32, node: u32, from: &str, to: &str) -> String {
        format!(
            "{system},cluster,49,6152,80,{node},0,5-Apr,5-Jun,current,part,80,1,1,0,fe,{from},{to},6,,\"A, B\",,,,,No\n"
        )
    }

    #[test]
    fn dates_are_days_of_the_calendar() {
        assert_eq!(minutes("1/1/1970 0:00"), Some(0));
        assert_eq!(minutes("6/21/2005 10:54"), Some(1_119_351_240 / 60));
        assert_eq!(minutes("2/29/2004 23:59"), Some(1_078_099_140 / 60));
        for wrong in ["", "6/21/2005", "13/1/2000 0:00", "1/1/2000 24:00", "1/1/x 0:00", "1/1/2000/1 0:00"] {
            assert_eq!(minutes(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn one_system_s_outages_node_by_node() {
        let text = [
            HEAD.to_owned(),
            line(2, 1, "1/1/2000 0:00", "1/1/2000 1:00"),
            line(20, 7, "1/2/2000 0:00", "1/2/2000 2:00"),
            line(20, 7, "1/2/2000 1:00", "1/2/2000 3:00"),
            line(20, 60, "1/1/2000 12:00", "1/1/2000 12:00"),
            line(20, 60, "1/3/2000 0:00", "1/3/2000 0:30"),
        ]
        .concat();
        let records = parse(&text, 20).unwrap();
        assert_eq!((records.nodes, records.records, records.empty), (61, 4, 1));
        assert_eq!(records.span, Time::from_secs(86_400));
        assert_eq!(records.outages[&7], [(Time::ZERO, Time::from_secs(3 * 3600))]);
        assert_eq!(records.outages[&60], [(Time::from_secs(86_400), Time::from_secs(86_400 + 1800))]);
        let error = parse(&text, 3).unwrap_err().to_string();
        assert!(error.contains("2 (1 records), 20 (4 records)"), "{error}");
    }

    #[test]
    fn what_is_no_record_is_refused() {
        for text in ["h\n20,x\n", "h\nx,1\n", "", &format!("{HEAD}{}", line(20, 1, "soon", "1/1/2000 0:00"))] {
            assert!(parse(text, 20).is_err(), "{text}");
        }
    }
}

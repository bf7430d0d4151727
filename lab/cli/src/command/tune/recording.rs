//! A recording of `entrepot trace record`: requests in order of their arrival.

use crate::failure::{Failure, Result};
use node::control::Problem;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// First line of a recording.
pub const HEADING: &str = "time_ns,client,file,op,offset,length,duration_ns";
/// Bytes of a block of the live cache.
const BLOCK: u64 = engine::cache::BLOCK_BYTES as u64;

/// A read or write.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// Time of its arrival.
    pub at_ns: u64,
    /// Time until its answer.
    pub took_ns: u64,
    /// Number of the open.
    pub open: u32,
    /// Number of the file.
    pub file: u32,
    /// First byte of the range.
    pub offset: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// Whether it is a write.
    pub write: bool,
}

impl Request {
    /// Returns the first block and the number of blocks.
    pub fn blocks(&self) -> (u64, u32) {
        let first = self.offset / BLOCK;
        (first, ((self.offset + self.bytes).div_ceil(BLOCK) - first) as u32)
    }
}

/// Requests to files on targets, by time of arrival.
#[derive(Debug, Default)]
pub struct Recording {
    pub requests: Vec<Request>,
    /// Blocks of each file, as far as requests touch it.
    pub file_blocks: Vec<u64>,
    /// Number of the first request of the second half of the reads.
    pub split: usize,
}

impl Recording {
    /// Reads a recording. Files of at most `inline_max` bytes are left out: they are kept with their names.
    pub fn open(path: &Path, inline_max: u64) -> Result<Recording> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| Failure::of_io(&name, &error))?;
        let mut lines = text.lines().enumerate();
        let wrong = |cause: String| {
            let problem = Problem::wrong(format!("{name}: {cause}")).so("nothing was tuned");
            problem.try_this("record the volume with `entrepot trace record FILE`")
        };
        if lines.next().is_none_or(|(_, line)| line != HEADING) {
            return Err(wrong(format!("the first line is not `{HEADING}`")).into());
        }
        let requests = lines.map(|(n, line)| request(line).ok_or_else(|| wrong(format!("line {} is damaged", n + 1))));
        Ok(Recording::of(requests.collect::<std::result::Result<_, _>>()?, inline_max))
    }

    /// Makes a recording of requests in any order.
    pub fn of(mut requests: Vec<Request>, inline_max: u64) -> Recording {
        let mut sizes: BTreeMap<u32, u64> = BTreeMap::new();
        for request in &requests {
            let size = sizes.entry(request.file).or_default();
            *size = (*size).max(request.offset + request.bytes);
        }
        sizes.retain(|_, size| *size > inline_max);
        let numbers: HashMap<u32, u32> = sizes.keys().zip(0..).map(|(file, number)| (*file, number)).collect();
        requests.retain_mut(|request| {
            let number = numbers.get(&request.file);
            number.is_some_and(|number| {
                request.file = *number;
                true
            })
        });
        requests.sort_by_key(|request| request.at_ns);
        let reads: Vec<usize> = (0..requests.len()).filter(|n| !requests[*n].write).collect();
        let split = reads.get(reads.len() / 2).copied().unwrap_or(0);
        Recording { requests, file_blocks: sizes.values().map(|size| size.div_ceil(BLOCK)).collect(), split }
    }
}

fn request(line: &str) -> Option<Request> {
    let mut fields = line.split(',');
    let mut number = || fields.next()?.parse::<u64>().ok();
    let (at_ns, open, file) = (number()?, u32::try_from(number()?).ok()?, u32::try_from(number()?).ok()?);
    let write = match fields.next()? {
        "r" => false,
        "w" => true,
        _ => return None,
    };
    let mut number = || fields.next()?.parse::<u64>().ok();
    let (offset, bytes, took_ns) = (number()?, number()?, number()?);
    // No request of the kernel is larger, and no file has a later block.
    let is_possible = (1..=1 << 30).contains(&bytes) && offset < 1 << 51 && at_ns < 1 << 60 && took_ns < 1 << 60;
    (is_possible && fields.next().is_none()).then_some(Request { at_ns, took_ns, open, file, offset, bytes, write })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_requests_in_order_of_arrival() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("t.csv");
        let lines = "900,1,7,w,4096,100,5\n30,0,3,r,5000,4096,80\n10,0,3,r,0,4096,80\n20,2,9,r,0,512,9\n";
        std::fs::write(&path, format!("{HEADING}\n{lines}")).expect("write");
        let Ok(recording) = Recording::open(&path, 1000) else { panic!("it can be read") };
        let shown: Vec<_> = recording.requests.iter().map(|of| (of.at_ns, of.file, of.write)).collect();
        assert_eq!(shown, [(10, 0, false), (30, 0, false), (900, 1, true)], "the small file is left out");
        assert_eq!((recording.file_blocks, recording.split), (vec![3, 2], 1));
        assert_eq!(recording.requests[1].blocks(), (1, 2));
        for damaged in ["1,0,0,r,0,4096", "1,0,0,x,0,4096,1", "1,0,0,r,0,0,1", "1,0,0,r,-1,1,1", "1,0,0,r,0,1,1,1"] {
            assert_eq!(request(damaged), None, "{damaged}");
        }
    }
}

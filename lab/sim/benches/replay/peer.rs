//! libCacheSim beside us: the same requests, as files that both read.
//!
//! Its time contains the reading of the file, since it replays nothing else; Python only starts it. Its table gets eight
//! buckets per object, with which it was fastest (of 2^14 to 2^24, its default).

use policy::cache::Block;
use sim::trace::Format;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::Command;

/// Replays a file of requests once and prints the miss ratio and the seconds of processor time.
const SCRIPT: &str = "
import sys, time
import libcachesim as lcs
path, format, capacity, power = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
cache = lcs.LRU(capacity, hashpower=power)
start = time.process_time()
reader = lcs.TraceReader(path, getattr(lcs.TraceType, format), lcs.ReaderInitParam(ignore_obj_size=True))
misses = cache.process_trace(reader)[0]
print(misses, time.process_time() - start)
";

/// Formats of files that both read, and libCacheSim's names of them.
pub(super) const FORMATS: [(Format, &str); 2] =
    [(Format::OracleGeneral, "ORACLE_GENERAL_TRACE"), (Format::Lirs, "PLAIN_TXT_TRACE")];

/// libCacheSim, ready to run.
pub(super) struct Peer {
    python: PathBuf,
    at: PathBuf,
    requests: usize,
    capacity: u32,
}

impl Peer {
    /// libCacheSim for these requests, if the environment names an interpreter that has it.
    pub(super) fn found(blocks: &[Block], capacity: u32) -> Option<Peer> {
        let python = PathBuf::from(std::env::var_os("ENTREPOT_BENCH_PYTHON")?);
        if !python.is_file() {
            return None;
        }
        let at = std::env::temp_dir().join(format!("entrepot-{}", std::process::id()));
        std::fs::create_dir_all(&at).ok()?;
        let peer = Peer { python, at, requests: blocks.len(), capacity };
        let file = |format| Some(BufWriter::new(std::fs::File::create(peer.trace(format)).ok()?));
        let (mut binary, mut text) = (file(FORMATS[0].1)?, file(FORMATS[1].1)?);
        for block in blocks {
            let record =
                [&0u32.to_le_bytes()[..], &block.index().to_le_bytes(), &1u32.to_le_bytes(), &(-1i64).to_le_bytes()];
            binary.write_all(&record.concat()).ok()?;
            writeln!(text, "{}", block.index()).ok()?;
        }
        binary.flush().and(text.flush()).ok()?;
        Some(peer)
    }

    /// The file of a format, by libCacheSim's name.
    pub(super) fn trace(&self, format: &str) -> PathBuf {
        self.at.join(format)
    }

    /// One replay: its miss ratio and its rate in millions of requests per second of processor time.
    pub(super) fn run(&self, format: &str) -> Option<(f64, f64)> {
        let power = self.capacity.next_power_of_two().ilog2() + 3;
        let said = Command::new(&self.python)
            .args(["-c", SCRIPT])
            .arg(self.trace(format))
            .args([format.to_owned(), self.capacity.to_string(), power.to_string()])
            .output()
            .ok()?;
        let text = String::from_utf8_lossy(&said.stdout);
        let mut numbers = text.split_whitespace().filter_map(|word| word.parse::<f64>().ok());
        let (Some(misses), Some(took)) = (numbers.next(), numbers.next()) else {
            eprintln!("libCacheSim said nothing of use: {}", String::from_utf8_lossy(&said.stderr));
            return None;
        };
        Some((misses, self.requests as f64 / took / 1e6))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.at);
    }
}

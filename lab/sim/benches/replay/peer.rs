//! libCacheSim beside us: the same requests, as a file that it reads in its own format.
//!
//! Its own reading of the file is in its time (it maps the file and copies 24 bytes per request), since it replays nothing else; Python only
//! starts it. Its table gets eight buckets per object, with which it was fastest (of 2^14 to 2^24, its default).

use policy::cache::Block;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

/// Replays a file of requests once and prints the miss ratio and the seconds of processor time.
const SCRIPT: &str = "
import sys, time
import libcachesim as lcs
path, capacity, power = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
reader = lcs.TraceReader(path, lcs.TraceType.ORACLE_GENERAL_TRACE, lcs.ReaderInitParam(ignore_obj_size=True))
cache = lcs.LRU(capacity, hashpower=power)
start = time.process_time()
misses = cache.process_trace(reader)[0]
print(misses, time.process_time() - start)
";

/// libCacheSim, ready to run.
pub(super) struct Peer {
    python: PathBuf,
    trace: PathBuf,
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
        let trace = std::env::temp_dir().join(format!("entrepot-{}.oracleGeneral.bin", std::process::id()));
        let mut out = std::io::BufWriter::new(std::fs::File::create(&trace).ok()?);
        for block in blocks {
            let record =
                [&0u32.to_le_bytes()[..], &block.index().to_le_bytes(), &1u32.to_le_bytes(), &(-1i64).to_le_bytes()];
            out.write_all(&record.concat()).ok()?;
        }
        out.flush().ok()?;
        Some(Peer { python, trace, requests: blocks.len(), capacity })
    }

    /// One replay: its miss ratio and its rate in millions of requests per second of processor time.
    pub(super) fn run(&self) -> Option<(f64, f64)> {
        let power = self.capacity.next_power_of_two().ilog2() + 3;
        let said = Command::new(&self.python)
            .args(["-c", SCRIPT])
            .arg(&self.trace)
            .args([self.capacity.to_string(), power.to_string()])
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
        let _ = std::fs::remove_file(&self.trace);
    }
}

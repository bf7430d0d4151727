//! Copies a command's output into its log, up to a limit, and keeps the last lines for the report.

use object::workers::apart;
use std::fs::File;
use std::io::{Read, Write};
use std::sync::mpsc::Receiver;

const TAIL_BYTES_MAX: usize = 2048;
const TAIL_LINES_MAX: usize = 10;

/// Starts a thread that reads to the end, and then sends the last lines to the receiver.
pub(super) fn start(
    mut from: impl Read + Send + 'static,
    log: Option<File>,
    limit: u64,
) -> std::io::Result<Receiver<String>> {
    apart("output", move || {
        let mut log = log.map(|file| Log { room: limit.saturating_sub(length(&file)), file, limit });
        let mut tail = Vec::new();
        let mut buffer = [0u8; 16 * 1024];
        while let Ok(n) = from.read(&mut buffer) {
            if n == 0 {
                break;
            }
            if let Some(log) = &mut log {
                log.append(&buffer[..n]);
            }
            tail.extend_from_slice(&buffer[..n]);
            tail.drain(..tail.len().saturating_sub(TAIL_BYTES_MAX));
        }
        last_lines(&tail)
    })
}

fn length(file: &File) -> u64 {
    file.metadata().map_or(0, |metadata| metadata.len())
}

struct Log {
    file: File,
    room: u64,
    limit: u64,
}

impl Log {
    /// A log that cannot be written must not stop the command: further output is dropped.
    fn append(&mut self, bytes: &[u8]) {
        if self.room == 0 {
            return;
        }
        let n = bytes.len().min(usize::try_from(self.room).unwrap_or(usize::MAX));
        let _ = self.file.write_all(&bytes[..n]);
        self.room -= n as u64;
        if n < bytes.len() {
            self.room = 0;
            let _ = writeln!(self.file, "\n[entrepot: the log reached its {} bytes; the rest was dropped]", self.limit);
        }
    }
}

fn last_lines(tail: &[u8]) -> String {
    let text = String::from_utf8_lossy(tail);
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES_MAX)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_stops_at_its_limit_and_says_so_while_all_is_read() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let text = "0123456789\n".repeat(10_000);
        let tail = start(std::io::Cursor::new(text), Some(file.reopen().unwrap()), 25).unwrap().recv().unwrap();
        assert_eq!(tail.lines().count(), TAIL_LINES_MAX);
        let mut log = String::new();
        file.read_to_string(&mut log).unwrap();
        assert!(log.starts_with("0123456789\n0123456789\n012\n[entrepot: the log reached its 25 bytes"), "{log}");
    }
}

//! Pieces of the output of commands, for callers with access to the job.

use crate::error::{Error, Result};
use crate::request::{LogPiece, PartKind, Script, Stream};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Largest piece of a log in one answer.
const BYTES_MAX: usize = 256 * 1024;

/// A piece of a stream of a part whose files lie in `dir`. `over`: the part writes no more.
pub(crate) fn piece(dir: &Path, kind: PartKind, stream: Stream, offset: u64, over: bool) -> Result<LogPiece> {
    let path = crate::exec::file(dir, kind, if stream == Stream::Out { "out" } else { "err" });
    let unread = |e| Error::World(format!("the log cannot be read: {e}; see {}", path.display()));
    let mut data = vec![0; BYTES_MAX];
    let n = match std::fs::File::open(&path) {
        Ok(file) => file.read_at(&mut data, offset).map_err(unread)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => 0,
        Err(error) => return Err(unread(error)),
    };
    data.truncate(n);
    Ok(LogPiece { data: Script::from(data), next_offset: offset + n as u64, ended: over && n < BYTES_MAX })
}

//! Submission of a job by a client: its script and its environment.

use crate::directives::SCRIPT_BYTES_MAX;
use crate::request::{Overrides, Script, Submit};
use object::host::umask;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Reads a script, at most the permitted size, and only from a plain file.
pub fn read_script(path: &Path) -> std::io::Result<Vec<u8>> {
    let wrong = |why: String| std::io::Error::new(std::io::ErrorKind::InvalidInput, why);
    // Without `NONBLOCK`, opening a fifo would wait for a writer.
    let nonblock = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = std::fs::OpenOptions::new().read(true).custom_flags(nonblock).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(wrong("it is no plain file; name the file that holds your job script".into()));
    }
    let mut script = Vec::new();
    file.take(SCRIPT_BYTES_MAX as u64 + 1).read_to_end(&mut script)?;
    if script.len() > SCRIPT_BYTES_MAX {
        return Err(wrong(format!("it is longer than {SCRIPT_BYTES_MAX} bytes; keep data in files of their own")));
    }
    Ok(script)
}

/// The request for a script, with this process's directory, mask and environment.
pub fn gather(path: &Path, overrides: Overrides) -> std::io::Result<Submit> {
    let script = Script::from(read_script(path)?);
    let file_name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let environment =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    Ok(Submit {
        file_name,
        script,
        cwd: std::env::current_dir()?,
        umask: umask().unwrap_or(0o022),
        environment: environment.collect(),
        overrides,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_plain_files_of_bounded_size() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("-a b.sh");
        std::fs::write(&path, "#!/bin/sh\n").unwrap();
        let request = gather(&path, Overrides::default()).unwrap();
        assert_eq!((request.file_name.as_str(), request.script.as_bytes()), ("-a b.sh", &b"#!/bin/sh\n"[..]));
        assert!(request.cwd.is_absolute() && request.umask <= 0o777);
        std::fs::write(&path, vec![b'#'; SCRIPT_BYTES_MAX + 1]).unwrap();
        assert!(read_script(&path).is_err());
        assert!(read_script(dir.path()).is_err());
        let fifo = dir.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert!(read_script(&fifo).is_err(), "and it does not wait");
    }
}

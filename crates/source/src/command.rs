//! Sources of other schemes through an external program: gridftp, xrootd, a tape archive.
//!
//! The words of the template are arguments, never a shell line: `{uri}`, `{offset}` and `{length}` are replaced inside
//! them. The program runs as the requesting user, and cannot gain privileges through setuid programs. Its environment
//! holds only the user's name, their home and a plain search path.

use crate::failure;
use crate::guard::Guard;
use crate::runtime::Runtime;
use engine::rights;
use engine::source::{Identity, Result, Source, SourceError, Version};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Bytes that are read from a program at once.
const BLOCK_BYTES: usize = 1 << 20;

/// Commands of the program for a scheme.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandTemplate {
    /// Scheme, such as `gsiftp`.
    pub scheme: String,
    /// Writes `{length}` bytes from `{offset}` of `{uri}` to its standard output.
    pub read: Vec<String>,
    /// Writes the size in bytes to its standard output; after a space optionally a tag that differs between versions.
    pub stat: Vec<String>,
}

/// One file behind a program.
pub struct CommandSource {
    template: CommandTemplate,
    uri: String,
    who: Identity,
    guard: Guard,
    runtime: Arc<Runtime>,
}

impl CommandSource {
    /// Names a file; nothing is started yet.
    pub fn new(template: CommandTemplate, uri: &str, who: &Identity, runtime: Arc<Runtime>) -> CommandSource {
        CommandSource { template, uri: uri.to_string(), who: who.clone(), guard: Guard::default(), runtime }
    }

    /// Runs the program and passes its output to `take`.
    async fn run<T>(
        &self,
        words: &[String],
        offset: u64,
        length: u64,
        take: impl AsyncFnOnce(&mut (dyn AsyncRead + Unpin + Send)) -> Result<T>,
    ) -> Result<T> {
        let words = fill(words, &self.uri, offset, length);
        let Some((program, arguments)) = words.split_first() else {
            return Err(SourceError::Permanent(format!("the command for {} has no words", self.template.scheme)));
        };
        let mut command = rights::command(program, &self.who)?;
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut command = tokio::process::Command::from(command);
        let spawned = command.kill_on_drop(true).spawn();
        let mut child = spawned.map_err(|e| SourceError::Permanent(format!("cannot start {program}: {e}")))?;
        let mut output = child.stdout.take().expect("piped");
        let taken = take(&mut output).await;
        drop(output);
        let status = child.wait().await.map_err(|e| failure::of_io(program, &e))?;
        if !status.success() {
            return Err(SourceError::Passing(format!("{program} ended with {status}")));
        }
        taken
    }
}

/// Replaces the placeholders in the words. A value is never split, and begins a word only where the template has it.
fn fill(words: &[String], uri: &str, offset: u64, length: u64) -> Vec<String> {
    let put = |word: &String| {
        // The URI is last, so that its content is not substituted again.
        let word = word.replace("{offset}", &offset.to_string()).replace("{length}", &length.to_string());
        word.replace("{uri}", uri)
    };
    words.iter().map(put).collect()
}

fn parse_stat(text: &str) -> Result<Version> {
    let bad = || SourceError::Permanent("the stat command must write SIZE, or SIZE and a word, on one line".into());
    let mut words = text.split_whitespace();
    let size = words.next().and_then(|w| w.parse().ok()).ok_or_else(bad)?;
    let etag = words.next().map(str::to_string);
    if words.next().is_some() { Err(bad()) } else { Ok(Version { size, etag, modified_ns: None }) }
}

impl Source for CommandSource {
    fn stat(&self) -> Result<Version> {
        let run = self.run(&self.template.stat, 0, 0, async |output| {
            let mut text = String::new();
            output.take(4096).read_to_string(&mut text).await.map_err(|e| failure::of_io("stat", &e))?;
            parse_stat(&text)
        });
        self.runtime.wait("stat", 0, run)
    }

    fn fetch_at(&self, version: &Version, offset: u64, buf: &mut [u8], arrived: &AtomicU64) -> Result<()> {
        self.guard.check(version, || self.stat())?;
        let length = buf.len() as u64;
        let run = self.run(&self.template.read, offset, length, async |output| {
            let mut filled = 0;
            while filled < buf.len() {
                let came = output.read(&mut buf[filled..]).await.map_err(|e| failure::of_io("read", &e))?;
                if came == 0 {
                    return Err(SourceError::Passing(format!("the command wrote {filled} of {length} bytes")));
                }
                filled += came;
                arrived.fetch_add(came as u64, Ordering::Relaxed);
            }
            match output.read(&mut [0]).await {
                Ok(0) => Ok(()),
                _ => Err(too_much()),
            }
        });
        self.runtime.wait("read", length, run)
    }

    /// The program runs only once: without version tags, two runs could return two versions.
    fn read_all(&self, version: &Version, each: &mut dyn FnMut(&[u8]) -> bool) -> Result<()> {
        self.guard.check(version, || self.stat())?;
        let run = self.run(&self.template.read, 0, version.size, async |output| {
            let (mut buf, mut left) = (vec![0; BLOCK_BYTES], version.size);
            loop {
                let came = output.read(&mut buf).await.map_err(|e| failure::of_io("read", &e))?;
                left = left.checked_sub(came as u64).ok_or_else(too_much)?;
                if came == 0 && left > 0 {
                    return Err(failure::short(version.size - left, version.size));
                }
                if came == 0 || !each(&buf[..came]) {
                    return Ok(());
                }
            }
        });
        self.runtime.wait("read", version.size, run)
    }

    fn has_ranges(&self) -> Result<bool> {
        Ok(true)
    }
}

fn too_much() -> SourceError {
    SourceError::Permanent("the command wrote more than it was asked for".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|w| w.to_string()).collect()
    }

    #[test]
    fn values_stay_one_word_and_are_not_filled_again() {
        let filled = fill(&words(&["get", "{uri}", "-o{offset}", "{length}"]), "x://h/$(id) {offset};ls", 3, 4);
        assert_eq!(filled, ["get", "x://h/$(id) {offset};ls", "-o3", "4"]);
    }

    /// [S-422]
    #[test]
    fn a_range_through_a_program() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("data");
        std::fs::write(&path, b"0123456789").expect("write");
        let script = dir.path().join("get");
        let text = format!("#!/bin/sh\ntail -c +$(($1 + 1)) {} | head -c $2\n", path.display());
        std::fs::write(&script, text).expect("write");
        let script = script.display().to_string();
        let template = CommandTemplate {
            scheme: "x".into(),
            read: words(&["/bin/sh", &script, "{offset}", "{length}"]),
            stat: words(&["/bin/echo", "10", "v1"]),
        };
        let who = Identity {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            ..Default::default()
        };
        let runtime = Arc::new(Runtime::new(Duration::from_secs(10)));
        let source = CommandSource::new(template.clone(), "x://h/y", &who, runtime.clone());
        let version = source.stat().expect("stat");
        assert_eq!((version.size, version.etag.as_deref()), (10, Some("v1")));
        let mut buf = [0; 4];
        source.read_at(&version, 3, &mut buf).expect("read");
        assert_eq!(&buf, b"3456");
        let mut all = Vec::new();
        let mut each = |bytes: &[u8]| {
            all.extend_from_slice(bytes);
            true
        };
        source.read_all(&version, &mut each).expect("all of it");
        assert_eq!(all, b"0123456789");
        let longer = Version { size: 11, etag: None, modified_ns: None };
        assert!(matches!(source.read_all(&longer, &mut |_| true), Err(SourceError::Passing(_))));
        let (mut beyond, arrived) = ([0; 9], AtomicU64::new(0));
        assert!(matches!(source.fetch_at(&version, 3, &mut beyond, &arrived), Err(SourceError::Passing(_))));
        assert_eq!(arrived.into_inner(), 7, "bytes are counted before the range is complete");
        let other = Version { etag: Some("v0".into()), ..version };
        let source = CommandSource::new(template, "x://h/y", &who, runtime);
        assert!(matches!(source.read_at(&other, 0, &mut buf), Err(SourceError::Changed(_))));
    }
}

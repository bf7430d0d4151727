//! Shared by commands that serve a mount point by themselves: start in the background, end on a signal, report of a
//! failed start.

use crate::failure::{Failure, Result};
use crate::{shown, signals};
use node::control::{Problem, exit};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Weak};

/// Starts the same program in the background, as [`detached`] does. `places` are the arguments that are paths: the
/// child runs in `/`, so it gets them as absolute paths.
pub fn in_the_background(places: &[&Path], help: &str) -> Result<u8> {
    let own = |word: &OsStr| word == "--detach" || places.iter().any(|place| place.as_os_str() == word);
    let mut words: Vec<OsString> = std::env::args_os().skip(1).filter(|word| !own(word)).collect();
    words.extend(["--in-background".into(), "--".into()]);
    for place in places {
        words.push(std::path::absolute(place)?.into());
    }
    detached(words, "the file system", help)
}

/// Starts the same program in the background with these arguments, and waits for the report of [`announce`]. `next` is
/// the next step for a user whose `what` was not mounted by a process that ended without a report.
pub fn detached(arguments: impl IntoIterator<Item: AsRef<OsStr>>, what: &str, next: &str) -> Result<u8> {
    let mut command = Command::new(std::env::current_exe()?);
    // The child must keep neither a directory nor a terminal busy.
    command.args(arguments).current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let mut line = String::new();
    if let Some(out) = child.stdout.take() {
        BufReader::new(out).read_line(&mut line)?;
    }
    if let Ok(started) = serde_json::from_str::<Result<PathBuf>>(&line) {
        shown::text(&format!("mounted at {}\n", started?.display()))?;
        return Ok(0);
    }
    let ended = child.wait()?;
    let problem = Problem::failed(format!("the daemon ended before {what} was mounted ({ended})"));
    Err(problem.so(format!("{what} is not mounted")).try_this(next).into())
}

/// Reports the mount point or the failure of a start: from a process in the background to its parent, else to the
/// user.
pub fn announce<T>(started: Result<T>, mount_point: fn(&T) -> &Path, in_background: bool) -> Result<T> {
    if !in_background {
        let started = started?;
        shown::text(&format!("mounted at {}; Ctrl-C ends it\n", mount_point(&started).display()))?;
        return Ok(started);
    }
    let mut line = serde_json::to_vec(&started.as_ref().map(mount_point)).map_err(io::Error::from)?;
    line.push(b'\n');
    let mut out = io::stdout().lock();
    // An error is ignored: without the parent the mount is served all the same.
    drop(out.write_all(&line).and_then(|()| out.flush()));
    let nowhere = File::options().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&nowhere).map_err(io::Error::from)?;
    started.map_err(|_| Failure::Said(exit::FAILED))
}

/// Splits a message into cause, consequence and next step: `cause; consequence. Next step`.
pub fn parts<'a>(message: &'a str, help: &'a str) -> (&'a str, &'a str, &'a str) {
    let (cause, rest) = message.rsplit_once("; ").unwrap_or((message, "nothing was mounted"));
    let (so, next) = rest.split_once(". ").unwrap_or((rest, help));
    (cause, so, next)
}

/// Ends the mount on a signal. SIGTERM always ends it; the first Ctrl-C is refused while the mount is in use, the
/// second is not. `unmount` fails while it is in use; `detach` removes it from the tree, and it ends with its last
/// user.
pub fn end_on_signal<T: Send + Sync + 'static>(
    served: &Arc<T>,
    unmount: fn(&T) -> io::Result<()>,
    detach: fn(&T) -> io::Result<()>,
) -> Result<()> {
    let served: Weak<T> = Arc::downgrade(served);
    signals::on(signals::ENDS, move |insists| {
        let Some(served) = served.upgrade() else { return true };
        match unmount(&served) {
            Ok(()) => true,
            Err(error) if insists => {
                tracing::warn!(%error, "the mount is in use; it is detached, and ends with its last user");
                drop(detach(&served));
                true
            }
            Err(error) => {
                tracing::error!("the mount cannot be ended: {error}; press Ctrl-C again to detach it all the same");
                false
            }
        }
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::parts;

    #[test]
    fn a_message_falls_into_cause_consequence_and_next_step() {
        let whole = "/a cannot be used: not a dir. at all; nothing was mounted. Give two. Or three";
        assert_eq!(
            parts(whole, "help"),
            ("/a cannot be used: not a dir. at all", "nothing was mounted", "Give two. Or three")
        );
        assert_eq!(parts("no; nothing was mounted", "help"), ("no", "nothing was mounted", "help"));
        assert_eq!(parts("no", "help"), ("no", "nothing was mounted", "help"));
    }
}

//! Shared by commands that serve a mount point by themselves: start in the background, end on a signal, report of a
//! failed start.

use crate::failure::Result;
use crate::{shown, signals};
use node::control::{Problem, exit};
use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Weak};

/// Line that the background process prints once it serves.
const MOUNTED: &str = "mounted";

/// Starts the same program in the background and waits for its report. `places` are the arguments that are paths: the
/// child runs in `/`, so it gets them as absolute paths.
pub fn in_the_background(places: &[&Path], mountpoint: &Path, help: &str) -> Result<u8> {
    let own = |word: &OsStr| word == "--detach" || places.iter().any(|place| place.as_os_str() == word);
    let mut words: Vec<OsString> = std::env::args_os().skip(1).filter(|word| !own(word)).collect();
    words.extend(["--in-background".into(), "--".into()]);
    for place in places {
        words.push(std::path::absolute(place)?.into());
    }
    let (_, line) = started(words)?;
    if line.trim_end() == MOUNTED {
        shown::text(&format!("mounted at {}\n", mountpoint.display()))?;
        return Ok(0);
    }
    let (cause, so, next) = parts(line.trim_end(), help);
    Err(Problem::new(exit::FAILED, cause).so(so).try_this(next).into())
}

/// Starts the same program with these arguments, and waits for a line from it.
pub fn started(arguments: impl IntoIterator<Item: AsRef<OsStr>>) -> io::Result<(Child, String)> {
    let mut command = Command::new(std::env::current_exe()?);
    // The child must keep neither a directory nor a terminal busy.
    command.args(arguments).current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let mut line = String::new();
    if let Some(out) = child.stdout.take() {
        BufReader::new(out).read_line(&mut line)?;
    }
    Ok((child, line))
}

/// Reports the result of the start from the background process, in one line for the waiting parent.
pub fn say_started(failure: Option<String>) {
    let word = failure.unwrap_or_else(|| MOUNTED.into()).replace('\n', " ");
    let mut out = io::stdout().lock();
    // The parent may be gone; the mount is served all the same.
    drop(writeln!(out, "{word}").and_then(|()| out.flush()));
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

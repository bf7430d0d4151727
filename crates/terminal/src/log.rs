//! The log: on standard error in the foreground, in a file of bounded size in the background.

mod lines;

use crate::failure::Result;
use lines::{Form, Lines};
use node::control::Problem;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use tracing::field::Field;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{EnvFilter, LevelFilter, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry;
use tracing_subscriber::util::SubscriberInitExt;

/// Size at which the log becomes `daemon.log.1`, which replaces the one before; so at most twice this is kept.
const LOG_BYTES_MAX: u64 = 8 << 20;

/// Crates that keep secrets out of their messages.
const OURS: [&str; 14] = [
    "entrepot",
    "entrepot_lab",
    "policy",
    "object",
    "meta",
    "engine",
    "node",
    "source",
    "jobs",
    "sim",
    "emulate",
    "connect",
    "terminal",
    "endpoint",
];

/// Environment variable with the log levels, see [`parse`].
const ENVIRONMENT: &str = "ENTREPOT_LOG";

/// Parses `ENTREPOT_LOG`; `info` if it is not set.
fn wanted() -> Result<EnvFilter> {
    match std::env::var(ENVIRONMENT) {
        Err(_) => Ok(EnvFilter::new("info")),
        Ok(text) => parse(&text).map_err(|why| {
            let names = OURS.join(", ");
            let next = format!("write a level, or crate=level, such as `info` or `warn,engine=debug`; crates: {names}");
            Problem::wrong(format!("{ENVIRONMENT}={text}: {why}")).so("nothing was started").try_this(next).into()
        }),
    }
}

/// Parses levels and `CRATE=LEVEL`, separated by commas. A word that is neither is refused: the filter would take it
/// for a crate, log all of that one, and nothing of the others.
fn parse(text: &str) -> std::result::Result<EnvFilter, String> {
    let words: Vec<_> = text.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
    for word in &words {
        let (of, level) = word.rsplit_once('=').map_or(("", *word), |(of, level)| (of, level));
        if level.parse::<LevelFilter>().is_err() {
            return Err(format!("`{level}` is no level; levels are off, error, warn, info, debug, trace"));
        }
        let name = of.split([':', '[']).next().unwrap_or_default();
        if !OURS.contains(&name) && !of.is_empty() {
            return Err(format!("there is no crate `{name}`"));
        }
    }
    EnvFilter::try_new(words.join(",")).map_err(|e| e.to_string())
}

/// Excludes messages of other crates below a warning, at any log level: some contain credentials, or requests with
/// their headers.
fn is_harmless(what: &Metadata<'_>) -> bool {
    *what.level() <= Level::WARN || OURS.contains(&what.target().split("::").next().unwrap_or_default())
}

/// Prefix of fuser's error when a signal has ended a request in the kernel before its answer.
const TOO_LATE: &str = "Failed to send FUSE reply: No such file or directory";

/// Drops messages about a late answer: a signal of an ordinary user causes them.
struct OnTime;

impl<S: Subscriber> Layer<S> for OnTime {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let mut is_late = false;
        let mut look = |field: &Field, value: &dyn std::fmt::Debug| {
            is_late |= field.name() == "message" && format!("{value:?}").starts_with(TOO_LATE);
        };
        if *event.metadata().level() == Level::ERROR {
            event.record(&mut look);
        }
        !is_late
    }
}

/// The configured form of lines.
fn form() -> Result<Form> {
    Form::wanted().map_err(|why| {
        let next = "`json` is for programs, `journal` for systemd; without the variable it is text";
        Problem::wrong(why).so("nothing was started").try_this(next).into()
    })
}

/// Starts the log. No effect if there is a log already, which is no error.
fn start<W>(to: W, ansi: bool) -> Result<()>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let (wanted, form) = (wanted()?, form()?);
    let lines = tracing_subscriber::fmt::layer().with_writer(to).with_ansi(ansi).with_target(false);
    let all = registry().with(wanted).with(filter_fn(is_harmless)).with(OnTime);
    drop(match form {
        Form::Text => all.with(lines).try_init(),
        form => all.with(lines.event_format(Lines { is_json: form == Form::Json })).try_init(),
    });
    Ok(())
}

/// Logs to standard error, with colours if that is a terminal.
pub fn to_stderr() -> Result<()> {
    start(io::stderr, io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
}

/// Logs to the file, including panics.
pub fn to_file(path: &Path) -> Result<()> {
    start(Mutex::new(Rotating::open(path)?), false)?;
    std::panic::set_hook(Box::new(|panic| tracing::error!("bug: {panic}")));
    Ok(())
}

struct Rotating {
    path: PathBuf,
    file: File,
    written_bytes: u64,
}

impl Rotating {
    fn open(path: &Path) -> io::Result<Rotating> {
        let file = append_to(path)?;
        let written_bytes = file.metadata()?.len();
        Ok(Rotating { path: path.to_path_buf(), file, written_bytes })
    }

    fn rotate(&mut self) -> io::Result<()> {
        std::fs::rename(&self.path, self.path.with_extension("log.1"))?;
        self.file = append_to(&self.path)?;
        self.written_bytes = 0;
        Ok(())
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

impl Write for Rotating {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.written_bytes > LOG_BYTES_MAX {
            self.rotate()?;
        }
        let n = self.file.write(line)?;
        self.written_bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_logged_is_said_by_levels_and_crates() {
        for good in ["info", "off", "warn,engine=debug", " engine::recovery=trace , connect=info", "", "DEBUG"] {
            assert!(parse(good).is_ok(), "{good:?}");
        }
        for bad in ["inof", "garbage=zzz", "engine", "engnie=debug", "engine=debg", "hyper=debug"] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }

    /// [S-142]
    #[test]
    fn an_answer_to_a_request_that_a_signal_ended_is_not_logged() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let lines = tracing_subscriber::fmt::layer().with_writer(Mutex::new(File::create(&path).unwrap()));
        tracing::subscriber::with_default(registry().with(OnTime).with(lines), || {
            tracing::error!("{TOO_LATE} (os error 2)");
            tracing::error!("Failed to send FUSE reply: Invalid argument (os error 22)");
        });
        let log = std::fs::read_to_string(&path).unwrap();
        assert!(!log.contains("No such file") && log.contains("Invalid argument"), "{log}");
    }

    /// The list has every crate of this workspace that logs, so that none is filtered as foreign.
    #[test]
    fn all_our_crates_may_speak() {
        let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for dir in std::fs::read_dir(crates).unwrap() {
            let name = dir.unwrap().file_name().into_string().unwrap();
            let name = match &*name {
                "cli" => "entrepot",
                "lab" => "entrepot_lab",
                name => name,
            };
            assert!(OURS.contains(&name), "{name}");
        }
    }

    #[test]
    fn the_log_keeps_the_newest_and_stays_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("daemon.log");
        let mut log = Rotating::open(&path).unwrap();
        let line = vec![b'x'; 1 << 20];
        for _ in 0..30 {
            log.write_all(&line).unwrap();
        }
        log.write_all(b"last").unwrap();
        assert!(std::fs::read(&path).unwrap().ends_with(b"last"));
        let kept: u64 = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).sum();
        assert!(kept <= 2 * (LOG_BYTES_MAX + (2 << 20)), "{kept}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}

//! Formats of a log line: text for people, JSON for programs, or the form of systemd's journal.

use clap::ValueEnum;
use serde_json::Value;
use std::fmt::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::time::SystemTime;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Environment variable with the form of log lines, see [`Form::wanted`].
pub const ENVIRONMENT: &str = "ENTREPOT_LOG_FORMAT";

/// Form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// Time, level and message.
    Text,
    /// One JSON object a line.
    Json,
    /// The level as a number in front, as in sd-daemon(3); the journal adds the time.
    Journal,
}

impl Form {
    /// Returns the configured form. The default is text, or the journal's form where standard error goes to the
    /// journal.
    ///
    /// # Errors
    /// A word that is no form.
    pub fn wanted() -> Result<Form, String> {
        match std::env::var(ENVIRONMENT) {
            Ok(word) => Form::parse(word.trim()),
            Err(_) if is_journal() => Ok(Form::Journal),
            Err(_) => Ok(Form::Text),
        }
    }

    fn parse(word: &str) -> Result<Form, String> {
        Form::from_str(word, false).map_err(|_| format!("{ENVIRONMENT}={word}: forms are text, json, journal"))
    }
}

/// Returns whether standard error goes to systemd's journal: `JOURNAL_STREAM` names its device and inode. A program
/// with another standard error inherits the variable as well.
fn is_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else { return false };
    std::fs::metadata("/proc/self/fd/2").is_ok_and(|stderr| stream == format!("{}:{}", stderr.dev(), stderr.ino()))
}

/// Formatter of lines for programs.
#[derive(Debug)]
pub struct Lines {
    /// Whether lines are JSON; otherwise they have the journal's form.
    pub is_json: bool,
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut to: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut entry = LogEntry::default();
        event.record(&mut entry);
        let level = *event.metadata().level();
        let line = match self.is_json {
            true => json(SystemTime::now(), level, event.metadata().target(), &entry),
            false => journal(level, &entry),
        };
        to.write_str(&line)
    }
}

/// Message and fields of an event.
#[derive(Debug, Default)]
struct LogEntry {
    message: String,
    fields: Vec<(&'static str, Value)>,
}

impl LogEntry {
    fn put(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::String(text)) => self.message = text,
            (name, value) => self.fields.push((name, value)),
        }
    }
}

impl Visit for LogEntry {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}").into());
    }
}

/// Formats `{"time":"...","level":"warn","module":"node::daemon","message":"..."}`, then the fields.
fn json(now: SystemTime, level: Level, module: &str, entry: &LogEntry) -> String {
    let time = humantime::format_rfc3339_millis(now).to_string();
    let level = level.as_str().to_ascii_lowercase();
    let known = [("time", time), ("level", level), ("module", module.to_owned()), ("message", entry.message.clone())];
    let known = known.into_iter().map(|(name, value)| (name, Value::from(value)));
    let all = known.chain(entry.fields.iter().cloned());
    let all: Vec<_> = all.map(|(name, value)| format!("{}:{value}", Value::from(name))).collect();
    format!("{{{}}}\n", all.join(","))
}

/// Prefixes each line of the message with its priority: the journal makes an entry of each line.
fn journal(level: Level, entry: &LogEntry) -> String {
    let priority = match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    };
    let mut text = entry.message.clone();
    for (name, value) in &entry.fields {
        let _ = write!(text, " {name}={value}");
    }
    text.lines().map(|line| format!("<{priority}>{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn entry() -> LogEntry {
        LogEntry { message: "fast1 is \"failed\"\nsince now".into(), fields: vec![("target", 3.into())] }
    }

    #[test]
    fn json_is_one_object_a_line_and_quotes_what_it_must() {
        let line = json(SystemTime::UNIX_EPOCH + Duration::from_millis(1500), Level::WARN, "object::target", &entry());
        assert_eq!(line.matches('\n').count(), 1);
        let object: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(object["time"], "1970-01-01T00:00:01.500Z");
        assert_eq!(object["level"], "warn");
        assert_eq!(object["module"], "object::target");
        assert_eq!(object["message"], "fast1 is \"failed\"\nsince now");
        assert_eq!(object["target"], 3);
    }

    #[test]
    fn every_line_in_the_journal_has_its_priority() {
        assert_eq!(journal(Level::ERROR, &entry()), "<3>fast1 is \"failed\"\n<3>since now target=3\n");
        assert_eq!(journal(Level::DEBUG, &LogEntry { message: "a".into(), fields: vec![] }), "<7>a\n");
    }

    #[test]
    fn a_form_is_one_of_three_words() {
        assert_eq!(Form::parse("json"), Ok(Form::Json));
        assert!(Form::parse("xml").unwrap_err().contains("text, json, journal"));
    }
}

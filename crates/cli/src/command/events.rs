//! `entrepot events`: prints the events of the volume.

use crate::connect::Context;
use crate::failure::Result;
use crate::shown::{self, Output, count, moment_ms, plain};
use crate::values;
use clap::Args;
use engine::events::{Event, Kind};
use node::control::answers::{EventLine, read};
use node::control::{Client, Events as Asked, Request, exit};
use std::path::Path;
use std::time::Duration;

/// Interval of attempts to reach a daemon that ended.
const AGAIN: Duration = Duration::from_secs(1);

/// Show events of the volume with their reasons: moves, recoveries, targets, nodes, jobs
///
/// Each line has time, kind, file, action, mechanism and reason, the oldest first. The daemon keeps about 4,000 events
/// until it ends. Root and the user who runs the daemon see all events; other users see those of their own files and
/// jobs, and of targets and nodes. On a cluster these are the events of this node; decisions for all nodes, such as
/// tiering, are events of the leader.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot events --since 1h
  entrepot events --follow --target fast0             events of a drain of fast0
  entrepot events --follow --kind move --kind job --output json | jq -c '[.path, .why]'")]
pub struct Events {
    /// Continue with new events until Ctrl-C, also after a restart of the daemon.
    #[arg(long, short)]
    follow: bool,
    /// Only events of this last span, such as `10m`.
    #[arg(long, value_name = "SPAN", value_parser = values::span_ms)]
    since: Option<u64>,
    /// Only events that name this target.
    #[arg(long, value_name = "NAME")]
    target: Option<String>,
    /// Only events of this kind: move, recovery, target, node, burst, purge, scrub, quota or job. May be given several
    /// times.
    #[arg(long, value_name = "KIND", value_parser = values::word::<Kind>(Kind::ALL.iter().map(|kind| kind.name())))]
    kind: Vec<Kind>,
    /// Format of the output; `json` has a line for each event.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

impl Events {
    pub fn run(self, context: &Context) -> Result<u8> {
        let socket = context.find()?.socket();
        let now_ms = object::now_ms();
        let mut asked = Asked {
            follow: self.follow,
            from_ms: self.since.map(|span| now_ms.saturating_sub(span)),
            target: self.target.clone(),
            kinds: self.kind.clone(),
            after: None,
        };
        if !self.follow {
            self.ask(&socket, &mut asked)?;
            return Ok(0);
        }
        crate::command::work::end_at_interrupt()?;
        let mut away = false;
        loop {
            let reached = asked.after;
            match self.ask(&socket, &mut asked) {
                Err(problem) if problem.exit_code != exit::NO_DAEMON || asked.after.is_none() => {
                    return Err(problem.into());
                }
                // The daemon ended, or the connection broke.
                Ok(()) | Err(_) => {}
            }
            if reached != asked.after || !away {
                eprintln!("the daemon went away; waiting for it to come back, Ctrl-C ends");
            }
            away = true;
            std::thread::sleep(AGAIN);
        }
    }

    /// Prints the events of one daemon, and records the position of the last.
    fn ask(&self, socket: &Path, asked: &mut Asked) -> std::result::Result<(), node::control::Problem> {
        let mut client = Client::connect(socket)?;
        let request = Request::Events(asked.clone());
        client.ask(&request, &mut |value| {
            // Lines of a later version cannot be parsed and are skipped.
            let EventLine { event, missed, at } = read(value).unwrap_or_default();
            if let Some(at) = at {
                if let Some((run, _)) = asked.after.filter(|(run, _)| at.0 != *run) {
                    eprintln!("the daemon of {} ended, another goes on", moment_ms(run));
                }
                asked.after = Some(at);
            }
            if let Some(missed) = missed {
                eprintln!(
                    "{} not shown: they came faster than they were read",
                    count(missed, "event") + if missed == 1 { " was" } else { " were" }
                );
            }
            if let Some(event) = event {
                let written = match self.output {
                    Output::Json => shown::json_line(&event),
                    Output::Text => shown::text(&line(&event)),
                };
                if written.is_err() {
                    // The output is closed.
                    std::process::exit(exit::FAILED.into());
                }
            }
        })?;
        Ok(())
    }
}

/// Formats an event as text. Names come from users, so control characters are escaped.
fn line(event: &Event) -> String {
    let mut line = format!("{}  {:<8}  ", moment_ms(event.at_ms), event.kind.name());
    if let Some(path) = &event.path {
        line += &format!("{path}: ");
    }
    line += &event.what;
    match (event.from.join(", "), event.to.join(", ")) {
        (from, to) if !from.is_empty() && !to.is_empty() => line += &format!(", {from} -> {to}"),
        (from, to) if from.is_empty() && !to.is_empty() => line += &format!(", to {to}"),
        (from, _) if !from.is_empty() => line += &format!(", off {from}"),
        _ => {}
    }
    let why: Vec<&str> = [event.by.as_deref(), event.why.as_deref()].into_iter().flatten().collect();
    if !why.is_empty() {
        line += &format!(" ({})", why.join(": "));
    }
    plain(&line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_what_is_known_and_nothing_else() {
        let event = Event {
            path: Some("a/b".into()),
            from: vec!["d0".into()],
            to: vec!["d1".into(), "d2".into()],
            by: Some("drain".into()),
            why: Some("target d0 was being emptied".into()),
            ..Event::new(Kind::Move, "replace target")
        };
        assert_eq!(
            line(&event),
            "1970-01-01T00:00:00Z  move      a/b: replace target, d0 -> d1, d2 (drain: target d0 was being emptied)"
        );
        let event = Event::new(Kind::Node, "node 3 has joined");
        assert_eq!(line(&event), "1970-01-01T00:00:00Z  node      node 3 has joined");
    }

    #[test]
    fn a_name_does_not_move_the_cursor() {
        let event = Event { path: Some("a\u{1b}[2J\nb".into()), ..Event::new(Kind::Move, "moved") };
        assert!(!line(&event).contains(['\u{1b}', '\n']), "{}", line(&event));
    }
}

//! `entrepot status`: how the volume is.

use crate::connect::Context;
use crate::failure::Result;
use crate::shown::{self, Output, list, number, word};
use clap::Args;
use serde_json::Value;
use std::fmt::Write;
use std::time::Duration;
use store::control::Request;

/// Show how the volume is: targets, space, what moves, what was recovered
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot status
  entrepot status --watch
  entrepot status --output json | jq .repair")]
pub struct Status {
    /// Show it again every second until interrupted.
    #[arg(long)]
    watch: bool,
    /// How to write it.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

impl Status {
    pub fn run(self, context: &Context) -> Result<u8> {
        let mut client = context.connect()?;
        loop {
            let status = client.ask(&Request::Status {}, &mut |_| {})?;
            match self.output {
                Output::Json => shown::json(&status)?,
                // Clears the screen and goes to its corner.
                Output::Text if self.watch => shown::on_a_clear_screen(&render(&status))?,
                Output::Text => shown::text(&render(&status))?,
            }
            if !self.watch {
                return Ok(0);
            }
            std::thread::sleep(Duration::from_secs(1));
        }
    }
}

/// Section on striping: load of the volume, the width for it, and recent decisions.
fn stripes(s: &Value) -> String {
    if !s.is_object() {
        return String::new();
    }
    let number_of = |key: &str| s[key].as_f64().unwrap_or_default();
    let mut text = format!(
        "stripes  {}: {:.1} requests/s of {:.0} KiB, {:.0} % writing; {} files watched, {} with forks\n",
        word(s, "mode"),
        number_of("requests_per_s"),
        number_of("request_bytes") / 1024.0,
        number_of("writes_share") * 100.0,
        number(s, "files"),
        number(s, "files_with_forks"),
    );
    if word(s, "mode") != "fixed" {
        let measured =
            if s["device_measured"] == true { "measured" } else { "a guess, see `entrepot-lab bench device`" };
        let _ = writeln!(text, "         {} targets, each {} ({measured})", number(s, "targets"), word(s, "device"));
        if let Some(shape) = s["new_files"].as_str() {
            let _ = writeln!(text, "         new files get {shape}");
        }
    }
    for one in list(s, "decisions") {
        let _ = writeln!(text, "         {}  {}", shown::moment_ms(number(one, "at_ms")), word(one, "text"));
    }
    text
}

/// Objects that no file named after an unclean end of the daemon before.
fn left(l: &Value) -> String {
    match (l["due"].as_bool(), l["why"].as_str()) {
        (Some(_), Some(why)) => format!("crash    objects that no file names are not removed yet: {why}\n"),
        (Some(_), None) => {
            "crash    the daemon before did not end in order: looking for objects that no file names\n".into()
        }
        (None, _) if number(l, "objects") > 0 => format!(
            "crash    {} objects with {} that no file named were removed\n",
            number(l, "objects"),
            shown::bytes(number(l, "bytes"))
        ),
        (None, _) => String::new(),
    }
}

/// The connections of a target that has several.
fn connections(text: &mut String, target: &Value) {
    let status: Option<::connect::Status> = serde_json::from_value(target["connections"].clone()).ok();
    if let Some(status) = status {
        let _ = writeln!(text, "connections of {} ({}, policy {})", word(target, "name"), status.kind, status.policy);
        text.push_str(&super::connect::table(&status.connections));
        text.push('\n');
    }
}

/// The status for people.
fn render(s: &Value) -> String {
    let mut text = String::new();
    let up_s = number(s, "uptime_s");
    let _ = writeln!(text, "volume   {} at {}, up {}", word(s, "name"), word(s, "mount_point"), shown::span_s(up_s));
    let (total, free) = (number(s, "total_bytes"), number(s, "free_bytes"));
    let _ = writeln!(text, "space    {} free of {}", shown::bytes(free), shown::bytes(total));
    text.push('\n');
    text.push_str(&super::target::table(list(s, "targets")));
    text.push('\n');
    for target in list(s, "targets") {
        connections(&mut text, target);
    }
    if !list(s, "nodes").is_empty() {
        text.push_str(&super::node::table(s));
        text.push('\n');
    }
    let m = &s["mover"];
    let _ = writeln!(
        text,
        "mover    {} changes done, {} failed, {} copied, {} under way",
        number(m, "changes_done"),
        number(m, "changes_failed"),
        shown::bytes(number(m, "bytes_copied")),
        number(m, "running"),
    );
    for one in list(m, "moves") {
        let _ = writeln!(text, "         {}", one.as_str().unwrap_or_default());
    }
    let r = &s["repair"];
    let _ = writeln!(
        text,
        "repair   {} stripes lost, {} recovered, {} fetched, readers waited {} ms in all, {} objects could not be recovered",
        number(r, "stripes_lost"),
        number(r, "stripes_recovered"),
        shown::bytes(number(r, "bytes_fetched")),
        number(r, "reader_delay_total_ms"),
        number(r, "failures"),
    );
    if s["away"].is_object() {
        let (files, size) =
            (shown::count(number(&s["away"], "files"), "file"), shown::bytes(number(&s["away"], "bytes")));
        let _ = writeln!(text, "away     {files} cannot be read now ({size}): `entrepot find --state away`");
    }
    let c = &s["cache"];
    if c.is_object() {
        let percent = |key| c[key].as_f64().unwrap_or_default() * 100.0;
        let _ = writeln!(
            text,
            "cache    {} of {} blocks, {} asked, {:.1} % hit; {} prefetched, {} used, {} late, {} wasted, coverage {:.1} %, accuracy {:.1} %",
            number(c, "inventory"),
            number(c, "blocks"),
            number(c, "asked"),
            percent("hit_ratio"),
            number(c, "prefetched"),
            number(c, "prefetch_used"),
            number(c, "prefetch_late"),
            number(c, "prefetch_wasted"),
            percent("coverage"),
            percent("accuracy"),
        );
    }
    let q = &s["quotas"];
    if q.is_object() {
        let _ = writeln!(
            text,
            "quotas   {}, {} over a soft limit, {} of these refused because the grace is over, {} at a hard limit",
            shown::count(number(q, "limits"), "quota"),
            number(q, "over"),
            number(q, "expired"),
            number(q, "full"),
        );
    }
    if s["burst"].is_object() {
        text += &super::checkpoint::burst_line(&s["burst"]);
    }
    text.push_str(&stripes(&s["stripes"]));
    text.push_str(&tiering(&s["tiering"]));
    let _ = match s["state_away"].as_str() {
        Some(why) => writeln!(text, "state    AWAY: {why}"),
        None => writeln!(text, "garbage  {} objects wait to be removed", number(s, "garbage_objects")),
    };
    text += &left(&s["left"]);
    let events = list(s, "events");
    if !events.is_empty() {
        text.push_str("\nlately\n");
    }
    for event in events {
        let _ = writeln!(text, "  {}  {}", shown::moment_ms(number(event, "at_ms")), word(event, "text"));
    }
    text
}

/// Section on tiering; empty if it is off.
fn tiering(t: &Value) -> String {
    let mut text = String::new();
    if !t.is_object() {
        return text;
    }
    if t["measuring"] == true {
        let _ = writeln!(text, "tiering  {}: the devices are being measured", word(t, "policy"));
        return text;
    }
    let threshold = t["threshold"].as_u64().map_or("none".into(), |h| h.to_string());
    let _ = writeln!(
        text,
        "tiering  {}: {} accesses, {:.1} % of them to the fast tier; {} segments in the working set, {} on the fast tier, room for {} more",
        word(t, "policy"),
        number(t, "accesses"),
        t["fast_share"].as_f64().unwrap_or_default() * 100.0,
        number(t, "working_set"),
        number(t, "fast_segments"),
        number(t, "room_segments"),
    );
    let _ = writeln!(
        text,
        "         {} promoted, {} demoted, {} given up, {} wait, {} under way; {} slow copies kept, {} made while idle; hot from {threshold} reads on",
        number(t, "promoted"),
        number(t, "demoted"),
        number(t, "failed"),
        number(t, "waiting"),
        number(t, "moving"),
        number(t, "copies"),
        number(t, "copied"),
    );
    for hot in list(t, "hot") {
        let (reads, writes) = (number(hot, "reads"), number(hot, "writes"));
        let _ = writeln!(
            text,
            "         hot: {} segment {}, {reads} reads, {writes} writes, {}",
            word(hot, "file"),
            number(hot, "segment"),
            word(hot, "tier"),
        );
    }
    text
}

//! `entrepot status`: shows the state of the volume.

use crate::connect::Context;
use crate::failure::Result;
use crate::shown::{self, Output, bytes, count, moment_ms};
use clap::Args;
use node::control::Request;
use node::control::answers::{Leftovers, Note, Status as Answer, Stripes, Target, Tiering, read};
use std::fmt::Write;
use std::time::Duration;

/// Show the state of the volume: targets, space, moves, recoveries
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot status
  entrepot status --watch
  entrepot status --output json | jq .repair")]
pub struct Status {
    /// Repeat every second until interrupted.
    #[arg(long)]
    watch: bool,
    /// Format of the output.
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
                // Clears the screen first.
                Output::Text if self.watch => shown::on_a_clear_screen(&render(&read(status)?))?,
                Output::Text => shown::text(&render(&read(status)?))?,
            }
            if !self.watch {
                return Ok(0);
            }
            std::thread::sleep(Duration::from_secs(1));
        }
    }
}

/// Section on striping: load of the volume, the width for it, and recent decisions.
fn stripes(s: &Stripes) -> String {
    let mut text = format!(
        "stripes  {}: {:.1} requests/s of {:.0} KiB, {:.0} % writing; {} files watched, {} with forks\n",
        s.mode,
        s.requests_per_s,
        s.request_bytes / 1024.0,
        s.writes_share * 100.0,
        s.files,
        s.files_with_forks,
    );
    if s.mode != "fixed" {
        let measured = if s.device_measured { "measured" } else { "a guess, see `entrepot-lab bench device`" };
        let _ = writeln!(text, "         {} targets, each {} ({measured})", s.targets, s.device);
        if let Some(shape) = &s.new_files {
            let _ = writeln!(text, "         new files get {shape}");
        }
    }
    text + &notes("         ", &s.decisions)
}

fn notes(indent: &str, notes: &[Note]) -> String {
    notes.iter().map(|note| format!("{indent}{}  {}\n", moment_ms(note.at_ms), note.text)).collect()
}

/// Line about objects without a file after an unclean end of the last daemon.
fn left(left: &Leftovers) -> String {
    match left {
        Leftovers::Due { why: Some(why), .. } => {
            format!("crash    objects that no file names are not removed yet: {why}\n")
        }
        Leftovers::Due { why: None, .. } => {
            "crash    the daemon before did not end in order: looking for objects that no file names\n".into()
        }
        Leftovers::Removed(left) if left.objects > 0 => {
            let size = bytes(left.bytes);
            format!("crash    {} objects with {size} that no file named were removed\n", left.objects)
        }
        Leftovers::Removed(_) => String::new(),
    }
}

/// Adds the connections of a target that has several.
fn connections(text: &mut String, target: &Target) {
    let status = target.connections.clone().and_then(|status| serde_json::from_value(status).ok());
    let status: Option<::connect::Status> = status;
    if let Some(status) = status {
        let _ = writeln!(text, "connections of {} ({}, policy {})", target.name, status.kind, status.policy);
        text.push_str(&super::connect::table(&status.connections));
        text.push('\n');
    }
}

/// Formats the status as text.
fn render(s: &Answer) -> String {
    let mut text = String::new();
    let (at, up) = (s.mount_point.display(), shown::span_s(s.uptime_s));
    let _ = writeln!(text, "volume   {} at {at}, up {up}", s.name);
    let _ = writeln!(text, "space    {} free of {}", bytes(s.free_bytes), bytes(s.total_bytes));
    text.push('\n');
    text.push_str(&super::target::table(&s.targets));
    text.push('\n');
    s.targets.iter().for_each(|target| connections(&mut text, target));
    if let Some(nodes) = s.nodes.as_ref().filter(|nodes| !nodes.nodes.is_empty()) {
        text.push_str(&super::node::table(nodes));
        text.push('\n');
    }
    let m = &s.mover;
    let _ = writeln!(
        text,
        "mover    {} changes done, {} failed, {} copied, {} under way",
        m.changes_done,
        m.changes_failed,
        bytes(m.bytes_copied),
        m.running,
    );
    for one in &m.moves {
        let _ = writeln!(text, "         {one}");
    }
    let r = &s.repair;
    let _ = writeln!(
        text,
        "repair   {} stripes lost, {} recovered, {} fetched, readers waited {} ms in all, {} objects could not be recovered",
        r.stripes_lost,
        r.stripes_recovered,
        bytes(r.bytes_fetched),
        r.reader_delay_total_ms,
        r.failures,
    );
    if let Some(away) = &s.away {
        let (files, size) = (count(away.files, "file"), bytes(away.bytes));
        let _ = writeln!(text, "away     {files} cannot be read now ({size}): `entrepot find --state away`");
    }
    if let Some(c) = &s.cache {
        let _ = writeln!(
            text,
            "cache    {} of {} blocks, {} asked, {:.1} % hit; {} prefetched, {} used, {} late, {} wasted, coverage {:.1} %, accuracy {:.1} %",
            c.inventory,
            c.blocks,
            c.asked,
            c.hit_ratio * 100.0,
            c.prefetched,
            c.prefetch_used,
            c.prefetch_late,
            c.prefetch_wasted,
            c.coverage * 100.0,
            c.accuracy * 100.0,
        );
    }
    if let Some(q) = &s.quotas {
        let _ = writeln!(
            text,
            "quotas   {}, {} over a soft limit, {} of these refused because the grace is over, {} at a hard limit",
            count(q.limits as u64, "quota"),
            q.over,
            q.expired,
            q.full,
        );
    }
    if let Some(burst) = s.burst.iter().flatten().next() {
        text += &super::checkpoint::burst_line(burst);
    }
    text.extend(s.stripes.as_ref().map(stripes));
    text.extend(s.tiering.as_ref().map(tiering));
    let _ = match &s.state_away {
        Some(why) => writeln!(text, "state    AWAY: {why}"),
        None => writeln!(text, "garbage  {} objects wait to be removed", s.garbage_objects.unwrap_or(0)),
    };
    text.extend(s.left.as_ref().map(left));
    if !s.events.is_empty() {
        text.push_str("\nlately\n");
    }
    text + &notes("  ", &s.events)
}

/// Section on tiering.
fn tiering(tiering: &Tiering) -> String {
    let Some(t) = &tiering.counts else {
        return format!("tiering  {}: the devices are being measured\n", tiering.policy);
    };
    let threshold = t.threshold.map_or("none".into(), |h| h.to_string());
    let mut text = format!(
        "tiering  {}: {} accesses, {:.1} % of them to the fast tier; {} segments in the working set, {} on the fast tier, room for {} more\n",
        tiering.policy,
        t.accesses,
        t.fast_share * 100.0,
        t.working_set,
        t.fast_segments,
        t.room_segments,
    );
    let _ = writeln!(
        text,
        "         {} promoted, {} demoted, {} given up, {} wait, {} under way; {} slow copies kept, {} made while idle; hot from {threshold} reads on",
        t.promoted, t.demoted, t.failed, t.waiting, t.moving, t.copies, t.copied,
    );
    for hot in &t.hot {
        let _ = writeln!(
            text,
            "         hot: {} segment {}, {} reads, {} writes, {}",
            hot.file, hot.segment, hot.reads, hot.writes, hot.tier,
        );
    }
    text
}

//! `entrepot status`: shows the state of the volume.

use crate::connect::Context;
use crate::failure::Result;
use crate::shown::{self, Output, bytes, count, moment_ms};
use clap::Args;
use engine::cache::CacheCounts;
use node::control::Request;
use node::control::answers::{HotSegment, Leftovers, MoverCounts, Note, QuotaCounts, Repair};
use node::control::answers::{Status as Answer, Stripes, Target, Tiering, TieringCounts, read};
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
    let Stripes { mode, requests_per_s, files, files_with_forks, .. } = s;
    let (kib, writing) = (s.request_bytes / 1024.0, s.writes_share * 100.0);
    let mut text = format!(
        "stripes  {mode}: {requests_per_s:.1} requests/s of {kib:.0} KiB, {writing:.0} % writing; \
         {files} files watched, {files_with_forks} with forks\n"
    );
    if mode != "fixed" {
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
    let facts = &s.facts;
    let (at, up) = (s.mount_point.display(), shown::span_s(facts.uptime_s));
    let _ = writeln!(text, "volume   {} at {at}, up {up}", facts.name);
    let _ = writeln!(text, "space    {} free of {}", bytes(facts.free_bytes), bytes(facts.total_bytes));
    text.push('\n');
    text.push_str(&super::target::table(&s.targets));
    text.push('\n');
    s.targets.iter().for_each(|target| connections(&mut text, target));
    if let Some(nodes) = s.nodes.as_ref().filter(|nodes| !nodes.nodes.is_empty()) {
        text.push_str(&super::node::table(nodes));
        text.push('\n');
    }
    let MoverCounts { changes_done, changes_failed, running, bytes_copied } = &s.mover.counts;
    let copied = bytes(*bytes_copied);
    text += &format!(
        "mover    {changes_done} changes done, {changes_failed} failed, {copied} copied, {running} under way\n"
    );
    text.extend(s.mover.moves.iter().map(|one| format!("         {one}\n")));
    let Repair { stripes_lost, stripes_recovered, reader_delay_total_ms, failures, .. } = &facts.repair;
    let fetched = bytes(facts.repair.bytes_fetched);
    text += &format!(
        "repair   {stripes_lost} stripes lost, {stripes_recovered} recovered, {fetched} fetched, \
         readers waited {reader_delay_total_ms} ms in all, {failures} objects could not be recovered\n"
    );
    if let Some(away) = &s.away {
        let (files, size) = (count(away.files, "file"), bytes(away.bytes));
        let _ = writeln!(text, "away     {files} cannot be read now ({size}): `entrepot find --state away`");
    }
    if let Some(c) = &facts.cache {
        let CacheCounts { inventory, blocks, asked, prefetched, prefetch_used, prefetch_late, prefetch_wasted, .. } = c;
        let [hit, coverage, accuracy] = [c.hit_ratio, c.coverage, c.accuracy].map(|share| share * 100.0);
        text += &format!(
            "cache    {inventory} of {blocks} blocks, {asked} asked, {hit:.1} % hit; \
             {prefetched} prefetched, {prefetch_used} used, {prefetch_late} late, {prefetch_wasted} wasted, \
             coverage {coverage:.1} %, accuracy {accuracy:.1} %\n"
        );
    }
    if let Some(QuotaCounts { limits, over, expired, full }) = &facts.quotas {
        let quotas = count(*limits as u64, "quota");
        text += &format!(
            "quotas   {quotas}, {over} over a soft limit, {expired} of these refused because the grace is over, \
             {full} at a hard limit\n"
        );
    }
    if let Some(burst) = s.burst.iter().flatten().next() {
        text += &super::checkpoint::burst_line(burst);
    }
    text.extend(facts.stripes.as_ref().map(stripes));
    text.extend(facts.tiering.as_ref().map(tiering));
    let _ = match &s.state_away {
        Some(why) => writeln!(text, "state    AWAY: {why}"),
        None => writeln!(text, "garbage  {} objects wait to be removed", facts.garbage_objects.unwrap_or(0)),
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
    let (policy, fast) = (&tiering.policy, t.fast_share * 100.0);
    let TieringCounts { accesses, working_set, fast_segments, room_segments, .. } = t;
    let TieringCounts { promoted, demoted, failed, waiting, moving, copies, copied, .. } = t;
    let threshold = t.threshold.map_or("none".into(), |h| h.to_string());
    let text = format!(
        "tiering  {policy}: {accesses} accesses, {fast:.1} % of them to the fast tier; \
         {working_set} segments in the working set, {fast_segments} on the fast tier, room for {room_segments} more\n         \
         {promoted} promoted, {demoted} demoted, {failed} given up, {waiting} wait, {moving} under way; \
         {copies} slow copies kept, {copied} made while idle; hot from {threshold} reads on\n"
    );
    let hot = |HotSegment { file, segment, reads, writes, tier }: &HotSegment| {
        format!("         hot: {file} segment {segment}, {reads} reads, {writes} writes, {tier}\n")
    };
    text + &t.hot.iter().map(hot).collect::<String>()
}

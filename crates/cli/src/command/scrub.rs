//! `entrepot scrub`: reads every file, compares it, and repairs wrong bytes.

use crate::answer;
use crate::command::work;
use crate::connect::Context;
use crate::failure::Result;
use crate::shown::{self, Output};
use clap::Args;
use engine::recovery::{FindingKind, Outcome};
use node::control::answers::{self, read};
use node::control::{Client, Request, exit};

/// Read every file slowly, compare it with its checksums or mirrors, and repair wrong bytes
///
/// Files are read in the order of their paths, no faster than `[scrub] rate`. An object with wrong or unreadable bytes
/// is rebuilt, stripe by stripe, from mirrors with correct checksums or from the source. Damage without either is
/// reported with its range and target, and left as it is. Ctrl-C or the end of the daemon stops a scrub, and the next
/// start continues after the last finished file. One scrub runs at a time, on the leader, whichever node runs the
/// command. `[scrub] every` starts it regularly. The exit code is 7 when damage was found and not repaired.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot scrub
  entrepot scrub --rate 100MiB      while the volume is idle
  entrepot scrub --status           progress, or findings of the last one
  entrepot scrub --anew             from the first file, also where one was stopped")]
pub struct Scrub {
    /// Bytes per second that are read, instead of `[scrub] rate`; 0 is no limit.
    #[arg(long, value_name = "SIZE", value_parser = crate::values::size)]
    rate: Option<u64>,
    /// Begin at the first file.
    #[arg(long)]
    anew: bool,
    /// Show the progress of the present scrub, or the findings of the last one, and start none.
    #[arg(long, conflicts_with_all = ["rate", "anew"])]
    status: bool,
    /// Format of the output.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

impl Scrub {
    pub fn run(self, context: &Context) -> Result<u8> {
        let Scrub { rate, anew, status, output } = self;
        let volume = context.find()?;
        let request = Request::Scrub(node::control::Scrub { anew, rate, status });
        let mut client = Client::connect(&volume.socket())?;
        let hint = "run the same command without --anew: it goes on where it was";
        let answer = work::follow(|progress| client.ask(&request, progress), (!status).then_some(hint))?;
        let healthy = read::<answers::Scrub>(answer.clone())?.healthy;
        answer::show(output, answer, render)?;
        Ok(if healthy { 0 } else { exit::INCOMPLETE })
    }
}

fn render(scrub: &answers::Scrub) -> String {
    let pass = &scrub.pass;
    if pass.began_ms == 0 {
        return "no scrub was made so far\n".into();
    }
    let rows = pass.findings.iter().map(|f| {
        let kind = answer::words(f.kind);
        let range = f.range.as_ref().map_or(String::new(), |range| format!("{}..{}", range.start, range.end));
        let outcome = match &f.outcome {
            Outcome::Repaired => "mended".to_string(),
            Outcome::Failed(why) => why.clone(),
            Outcome::Repairable => "not mended".to_string(),
            Outcome::Lost if f.kind == FindingKind::BadLayout => "lost".to_string(),
            Outcome::Lost => "neither mirror nor source has it".to_string(),
            Outcome::Away => "cannot be read until its target is back".to_string(),
        };
        vec![f.path.clone(), kind, f.target.clone(), range, outcome]
    });
    let mut text = match pass.findings.is_empty() {
        true => String::new(),
        false => shown::table(&["file", "what", "target", "bytes", "outcome"], rows.collect()) + "\n",
    };
    text.extend(pass.left_files.iter().map(|left| format!("not compared: {left}\n")));
    let how = match (scrub.under_way, pass.ended_ms) {
        (true, _) => format!("under way, at {}: ", pass.after),
        (false, Some(_)) => String::new(),
        (false, None) => format!("stopped after {}: ", pass.after),
    };
    let (files, size, wrong) =
        (shown::count(pass.files, "file"), shown::bytes(pass.bytes), shown::count(pass.found, "object"));
    let (left, mended) = (pass.left, pass.mended);
    text + &format!("{how}{files} with {size} compared, {left} not compared, {wrong} wrong, {mended} of them rebuilt\n")
}

//! Results of `entrepot state rebuild`, as text and as JSON.

use crate::shown;
use meta::state::TargetRecord;
use node::renewal::{GONE, Rebuilt};
use serde::Serialize;

/// The result in JSON.
#[derive(Serialize)]
struct Shown<'a> {
    written: bool,
    rows: Option<usize>,
    targets: Vec<Target<'a>>,
    epoch: u32,
    files: u64,
    files_on_targets: u64,
    dead_nodes: usize,
    unread: &'a [String],
    unread_count: u64,
    gone: [Gone; GONE.len()],
}

#[derive(Serialize)]
struct Target<'a> {
    name: &'a str,
    number: u16,
    state: String,
    objects: Option<u64>,
    files_that_name_it: Option<u64>,
}

#[derive(Serialize)]
struct Gone {
    what: &'static str,
    what_to_do: &'static str,
}

pub fn json(rebuilt: &Rebuilt) -> impl Serialize {
    let targets = rebuilt.targets.iter().map(|TargetRecord { id, name, state, .. }| Target {
        name,
        number: id.0,
        state: state.to_string(),
        objects: rebuilt.objects.get(name).copied(),
        files_that_name_it: rebuilt.files_on.get(name).copied(),
    });
    Shown {
        written: rebuilt.rows.is_some(),
        rows: rebuilt.rows,
        targets: targets.collect(),
        epoch: rebuilt.epoch,
        files: rebuilt.files,
        files_on_targets: rebuilt.laid_out,
        dead_nodes: rebuilt.dead,
        unread: &rebuilt.unread.0,
        unread_count: rebuilt.unread.1,
        gone: GONE.map(|(what, what_to_do)| Gone { what, what_to_do }),
    }
}

pub fn text(rebuilt: &Rebuilt) -> String {
    let row = |record: &TargetRecord| {
        let holds = match (rebuilt.objects.get(&record.name), rebuilt.files_on.get(&record.name)) {
            (Some(objects), _) => shown::count(*objects, "object"),
            (None, files) => format!("not looked at; {} on it", shown::count(files.copied().unwrap_or(0), "file")),
        };
        vec![record.name.clone(), record.id.0.to_string(), record.state.to_string(), holds]
    };
    let mut text = shown::table(&["target", "number", "state", ""], rebuilt.targets.iter().map(row).collect());
    let (files, laid_out) = (shown::count(rebuilt.files, "file"), rebuilt.laid_out);
    text.push_str(&format!("\n{files}, {laid_out} of them on targets; numbers go on above {:#x}\n", rebuilt.epoch));
    if rebuilt.dead > 0 {
        let done = if rebuilt.rows.is_some() { "are over" } else { "would be over" };
        text.push_str(&format!("{} that stood still {done}\n", shown::count(rebuilt.dead as u64, "node")));
    }
    text.extend(rebuilt.unread.0.iter().map(|what| format!("cannot be read: {what}\n")));
    let more = rebuilt.unread.1 - rebuilt.unread.0.len() as u64;
    if more > 0 {
        text.push_str(&format!("and {more} more\n"));
    }
    text.push_str("\nGone with the state:\n");
    text.extend(GONE.map(|(what, todo)| format!("  {what}: {todo}\n")));
    text + &match rebuilt.rows {
        Some(rows) => format!("\n{rows} rows were written; `entrepot up`, then `entrepot check`\n"),
        None => "\nnothing was changed; without --dry-run the state is written\n".into(),
    }
}

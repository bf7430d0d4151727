//! Results of `entrepot state rebuild`, as text and as JSON.

use crate::shown;
use serde_json::{Value, json};
use store::renewal::{GONE, Rebuilt};

pub fn json(rebuilt: &Rebuilt) -> Value {
    let target = |record: &store::state::TargetRecord| {
        json!({
            "name": record.name,
            "number": record.id.0,
            "state": record.state.to_string(),
            "objects": rebuilt.objects.get(&record.name),
            "files_that_name_it": rebuilt.files_on.get(&record.name),
        })
    };
    json!({
        "written": rebuilt.rows.is_some(),
        "rows": rebuilt.rows,
        "targets": rebuilt.targets.iter().map(target).collect::<Vec<_>>(),
        "epoch": rebuilt.epoch,
        "files": rebuilt.files,
        "files_on_targets": rebuilt.laid_out,
        "dead_nodes": rebuilt.dead,
        "unread": rebuilt.unread.0,
        "unread_count": rebuilt.unread.1,
        "gone": GONE.map(|(what, todo)| json!({"what": what, "what_to_do": todo})),
    })
}

pub fn text(rebuilt: &Rebuilt) -> String {
    let row = |record: &store::state::TargetRecord| {
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
    for what in &rebuilt.unread.0 {
        text.push_str(&format!("cannot be read: {what}\n"));
    }
    let more = rebuilt.unread.1 - rebuilt.unread.0.len() as u64;
    if more > 0 {
        text.push_str(&format!("and {more} more\n"));
    }
    text.push_str("\nGone with the state:\n");
    for (what, todo) in GONE {
        text.push_str(&format!("  {what}: {todo}\n"));
    }
    text.push_str(&match rebuilt.rows {
        Some(rows) => format!("\n{rows} rows were written; `entrepot up`, then `entrepot check`\n"),
        None => "\nnothing was changed; without --dry-run the state is written\n".into(),
    });
    text
}

//! The reference of `volume.toml` and of the metrics is written from the template and the table that the program has.

#[path = "command_line/reference.rs"]
mod reference;

use std::path::Path;
use store::stats::{Snapshot, Stats};

/// Keys that the template shows under one comment: what they mean, and each with its default.
#[derive(Default)]
struct Entry {
    meaning: String,
    keys: Vec<(String, String)>,
}

/// A `key = value` line of the template; a comment sign before it says that the value is the default.
fn key(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.trim_start_matches(['#', ' ']).split_once(" = ")?;
    let is_word = !key.is_empty() && key.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    // A sentence that holds an equals sign is no key.
    let is_value = value.starts_with(['"', '[', 't', 'f']) || value.starts_with(|c: char| c.is_ascii_digit());
    (is_word && is_value && !value.ends_with([',', ';', ')'])).then_some((key, value))
}

/// The entries of each table, in the order of the template. A key that is shown inside a comment (`#   key`) belongs to the
/// table that comes next.
fn tables(template: &str) -> Vec<(String, Vec<Entry>)> {
    let mut tables: Vec<(String, Vec<Entry>)> = vec![("Top level".into(), Vec::new())];
    let (mut at, mut next, mut comment) = (0, Vec::new(), Vec::new());
    let mut goes_on = false;
    for line in template.lines() {
        if line.starts_with('[') {
            let name = if line.starts_with("[tier.") { "[tier.NAME]" } else { line };
            at = tables.iter().position(|(table, _)| table == name).unwrap_or_else(|| {
                tables.push((name.to_owned(), Vec::new()));
                tables.len() - 1
            });
            tables[at].1.append(&mut next);
            (goes_on, comment) = (false, Vec::new());
        } else if let Some((key, value)) = key(line) {
            let entries = if line.starts_with("#   ") { &mut next } else { &mut tables[at].1 };
            if entries.iter().flat_map(|entry| &entry.keys).any(|(known, _)| known == key) {
                continue;
            }
            if !goes_on || entries.is_empty() {
                entries.push(Entry { meaning: comment.join(" "), keys: Vec::new() });
            }
            entries.last_mut().expect("it was pushed").keys.push((key.to_owned(), value.to_owned()));
            (goes_on, comment) = (true, Vec::new());
        } else if let Some(words) = line.strip_prefix("# ") {
            comment.push(words.trim());
            goes_on = false;
        } else {
            (goes_on, comment) = (false, Vec::new());
        }
    }
    tables
}

#[test]
fn keys_are_read_as_the_template_has_them() {
    let found = tables("# One.\n# a = 1\n# b = \"x\"\n# Of t:\n#   d = 2\n[t]\n# Two, a = 3, both.\n# c = 0\n");
    let shown = |entry: &Entry| (entry.meaning.clone(), entry.keys.iter().map(|(key, _)| &**key).collect::<String>());
    assert_eq!(found[0].1.iter().map(shown).collect::<Vec<_>>(), [("One.".into(), "ab".into())]);
    assert_eq!(
        found[1].1.iter().map(shown).collect::<Vec<_>>(),
        [("Of t:".into(), "d".into()), ("Two, a = 3, both.".into(), "c".into())]
    );
}

#[test]
fn the_reference_has_every_key_of_a_volume() {
    let template = store::volume::template(Path::new("scratch"));
    let mut page = String::from(
        "# volume.toml\n\nWritten by `make reference` from the file that `entrepot init` makes; a test compares them.\n\
         Sizes are \"64KiB\", \"1MiB\", \"2GB\" or bytes; spans are \"500ms\", \"5s\", \"2min\" or seconds. Paths are relative to the file.\n",
    );
    let tables = tables(&template);
    assert!(tables.len() > 12, "the tables were not found");
    for (name, entries) in tables.iter().filter(|(_, entries)| !entries.is_empty()) {
        page.push_str(&format!("\n## {name}\n| key | in a new file, or the default | meaning |\n|---|---|---|\n"));
        for entry in entries {
            let column = |of: fn(&(String, String)) -> &String| {
                entry
                    .keys
                    .iter()
                    .map(|key| format!("`{}`", of(key).replace('|', "\\|")))
                    .collect::<Vec<_>>()
                    .join("<br>")
            };
            let (keys, values) = (column(|(key, _)| key), column(|(_, value)| value));
            page.push_str(&format!("| {keys} | {values} | {} |\n", entry.meaning.replace('|', "\\|")));
        }
    }
    reference::held("volume.toml.md", &page);
}

#[test]
fn the_reference_has_every_metric() {
    let mut snapshot: Snapshot = Stats::new().snapshot();
    snapshot.targets.push(Default::default());
    snapshot.cache = Some(Default::default());
    let shown = snapshot.prometheus("NAME");
    let mut page = String::from(
        "# Metrics\n\nWritten by `make reference` from what `entrepot stats --prometheus` shows; a test compares them. Each has the\n\
         label `volume`.\n\n| metric | kind | labels | what it counts |\n|---|---|---|---|\n",
    );
    let families: Vec<&str> = shown.split("# HELP ").filter(|family| !family.is_empty()).collect();
    assert!(families.len() > 60, "the metrics were not found");
    for family in families {
        let mut lines = family.lines();
        let (name, help) = lines.next().and_then(|line| line.split_once(' ')).expect("a name and its help");
        let kind = lines.next().and_then(|line| line.rsplit_once(' ')).expect("a kind").1;
        let sample = lines.next().and_then(|line| line.split_once('{')?.1.split_once('}')).expect("a sample").0;
        let labels = sample.split(',').filter_map(|label| label.split_once('=')).map(|(label, _)| label);
        let labels: Vec<String> = labels.filter(|label| *label != "volume").map(|label| format!("`{label}`")).collect();
        page.push_str(&format!("| `{name}` | {kind} | {} | {help} |\n", labels.join(", ")));
    }
    reference::held("metrics.md", &page);
}

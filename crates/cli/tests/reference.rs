//! The reference of `volume.toml` and of the metrics is written from the tables that the program has.

#[path = "command_line/reference.rs"]
mod reference;

use store::stats::{Snapshot, Stats};
use store::volume::SECTIONS;

#[test]
fn the_reference_has_every_key_of_a_volume() {
    let mut page = String::from(
        "# volume.toml\n\nWritten by `make reference` from the tables that the program reads it with; a test compares them.\n\
         Sizes are \"64KiB\", \"1MiB\", \"2GB\" or bytes; spans are \"500ms\", \"5s\", \"2min\" or seconds. Paths are relative to the file.\n",
    );
    for (name, keys) in SECTIONS {
        page.push_str(&format!("\n## {name}\n| key | default, or an example | meaning |\n|---|---|---|\n"));
        for key in keys {
            let help: String = key.help.concat().trim().replace('|', "\\|");
            page.push_str(&format!("| `{}` | `{}` | {help} |\n", key.name, key.value.replace('|', "\\|")));
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

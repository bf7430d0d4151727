//! The reference of `volume.toml` and of the metrics is written from the tables that the program has.

mod exposition;
#[path = "command_line/reference.rs"]
mod reference;

use engine::volume::SECTIONS;

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
    let shown = exposition::all();
    let mut page = String::from(
        "# Metrics\n\nWritten by `make reference` from what the endpoint and `entrepot stats --prometheus` show; a test compares them. Each\n\
         has the labels `volume` and `node` (the host).\n\n| metric | kind | labels | what it counts |\n|---|---|---|---|\n",
    );
    let families = shown.trim_end_matches("# EOF\n").split("# HELP ").filter(|family| !family.is_empty());
    let families: Vec<&str> = families.collect();
    assert!(families.len() > 60, "the metrics were not found");
    for family in families {
        let mut lines = family.lines();
        let (name, help) = lines.next().and_then(|line| line.split_once(' ')).expect("a name and its help");
        let kind = lines.next().and_then(|line| line.rsplit_once(' ')).expect("a kind").1;
        let sample = lines.next().and_then(|line| line.split_once('{')?.1.split_once('}')).expect("a sample").0;
        let labels = sample.split(',').filter_map(|label| label.split_once('=')).map(|(label, _)| label);
        let own = labels.filter(|label| !["volume", "node"].contains(label));
        let labels: Vec<String> = own.map(|label| format!("`{label}`")).collect();
        let suffix = if kind == "counter" { "_total" } else { "" };
        page.push_str(&format!("| `{name}{suffix}` | {kind} | {} | {help} |\n", labels.join(", ")));
    }
    reference::held("metrics.md", &page);
}

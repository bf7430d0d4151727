//! From the text of a `volume.toml` to a [`Config`]: every key with its default, every problem with its place.

use super::config::{Config, Keeping, TargetConfig};
use super::keys::Directory;
use super::problem::Result;
use super::section::{Reading, Section};
use super::sections::{
    Accounting, Burst, Cache, Checksums, Endpoint, Health, Jobs, LayoutConfig, Mount, Mover, Purge, Recovery,
    Replication, Scrub, Stage, StateConfig, StateStore, Stripes, TargetKeys, TierKeys, Tiering, Top, connections,
};
use object::target::TARGETS_MAX;
use policy::tier::cost::DeviceCost;
use std::ops::Range;
use std::path::Path;
use toml::de::{DeTable, DeValue};

/// The tier of targets that name none.
const DEFAULT_TIER: &str = "default";

/// Reads and checks the text alone.
pub fn parse(file: &Path, text: &str) -> Result<Config> {
    let reading = Reading::new(file, text);
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        reading.problem(error.span().unwrap_or(0..0), format!("no TOML: {}", error.message()), "Correct the line");
    }
    let root = Section::new(&reading, "", 0..0, Some(table.get_ref()));
    let config = read(&reading, &root, file);
    root.finish();
    match reading.into_problems() {
        Some(problems) => Err(problems),
        None => Ok(config),
    }
}

fn read(reading: &Reading<'_>, root: &Section<'_, '_, '_>, file: &Path) -> Config {
    let top = Top::read(root);
    let state = StateConfig::read(root, &top);
    let (declared, speeds) = tiers(reading, root);
    let targets = targets(reading, root, declared);
    let layout = table(root, "layout", LayoutConfig::checked);
    if state.store == StateStore::Embedded
        && let Some(some) = targets.iter().find(|target| !target.only_on.is_empty())
    {
        let cause = format!("target \"{}\" is `only_on` some hosts, and the volume is one node's", some.name);
        root.problem("state", cause, "Name a Redis server as `state`, or remove `only_on`");
    }
    let burst = table(root, "burst", Burst::checked);
    let holds = |tier| burst.fast.is_some() && (burst.fast == Some(tier) || burst.capacity == tier);
    if let Some(some) = targets.iter().find(|target| holds(target.tier) && !target.only_on.is_empty()) {
        let cause = format!("target \"{}\" is `only_on` some hosts, and holds checkpoints of all", some.name);
        root.problem("target", cause, "Export it so that all nodes reach it, and remove `only_on`");
    }
    Config {
        file: file.to_owned(),
        name: top.name,
        namespace: top.namespace.path,
        namespace_place: top.namespace.place,
        state: state.directory.path,
        state_is_derived: state.is_derived,
        state_place: state.directory.place,
        state_store: state.store,
        nodes_listen: top.nodes_listen,
        targets,
        mount: table(root, "mount", Mount::read),
        cache: table(root, "cache", Cache::checked),
        health: table(root, "health", Health::read),
        mover: table(root, "mover", Mover::read),
        tiering: table(root, "tiering", |section| Tiering::checked(section, speeds, layout.segment)),
        recovery: table(root, "recovery", Recovery::read),
        stage: table(root, "stage", Stage::read),
        jobs: table(root, "jobs", Jobs::read),
        replication: table(root, "replication", Replication::read),
        purge: table(root, "purge", Purge::checked),
        accounting: table(root, "accounting", Accounting::read),
        checksums: table(root, "checksums", Checksums::read),
        scrub: table(root, "scrub", Scrub::read),
        endpoint: table(root, "endpoint", Endpoint::checked),
        burst,
        stripes: table(root, "stripes", Stripes::checked),
        layout,
        tiers: reading.tiers.take(),
    }
}

fn table<T>(root: &Section<'_, '_, '_>, name: &'static str, read: impl FnOnce(&Section<'_, '_, '_>) -> T) -> T {
    let section = root.section(name);
    let read = read(&section);
    section.finish();
    read
}

/// Tiers with names and places in the text, and the costs of their devices if the file gives them.
type Declared = (Vec<(String, Range<usize>)>, Vec<Option<DeviceCost>>);

/// The tiers that `[tier.NAME]` lines declare, in the order of the file, which is the order of speed.
fn tiers(reading: &Reading<'_>, root: &Section<'_, '_, '_>) -> Declared {
    let Some(value) = root.get("tier") else { return Declared::default() };
    let Some(table) = value.get_ref().as_table() else {
        reading.problem(value.span(), "`tier` is no table", "Write `[tier.NAME]` on a line of its own");
        return Declared::default();
    };
    let mut tiers = Vec::new();
    for (name, value) in table {
        let section =
            Section::new(reading, &format!("tier.{}", name.get_ref()), value.span(), value.get_ref().as_table());
        tiers.push(((name.get_ref().to_string(), name.span()), TierKeys::read(&section).cost()));
        section.finish();
    }
    tiers.sort_by_key(|((_, span), _)| span.start);
    tiers.into_iter().unzip()
}

fn targets(
    reading: &Reading<'_>,
    root: &Section<'_, '_, '_>,
    declared: Vec<(String, Range<usize>)>,
) -> Vec<TargetConfig> {
    let value = root.get("target");
    let blocks = value.and_then(|value| value.get_ref().as_array()).map(|array| array.iter());
    *reading.tiers.borrow_mut() = declared.iter().map(|(name, _)| name.clone()).collect();
    let mut targets: Vec<TargetConfig> = Vec::new();
    for block in blocks.into_iter().flatten() {
        let section = Section::new(reading, "target", block.span(), block.get_ref().as_table());
        if !matches!(block.get_ref(), DeValue::Table(_)) {
            reading.problem(block.span(), "a target is no table", "Write `[[target]]` on a line of its own");
            continue;
        }
        let target = target(reading, section, !declared.is_empty());
        // Each duplicate is compared with the first only: of n equal names, n - 1 must change.
        let mend = |first: &TargetConfig| format!("Give it another (the first is in line {})", first.place.0);
        if let Some(first) = targets.iter().find(|other| other.name == target.name && !target.name.is_empty()) {
            reading.problem(block.span(), format!("two targets are named \"{}\"", target.name), mend(first));
        }
        if let Some(path) = target.directory()
            && let Some(first) = targets.iter().find(|other| other.directory() == Some(path) && other.meets(&target))
        {
            reading.problem(block.span(), format!("two targets are in {}", path.display()), mend(first));
        }
        targets.push(target);
    }
    if targets.is_empty() {
        let mend = "Add a block `[[target]]` with `name`, `path` and `tier`";
        reading.problem(value.map_or(0..0, |value| value.span()), "there is no target", mend);
    }
    if targets.len() > TARGETS_MAX {
        let cause = format!("there are {} targets, and {TARGETS_MAX} is the most", targets.len());
        reading.problem(value.map_or(0..0, |value| value.span()), cause, "Remove some, or make two volumes");
    }
    for (name, span) in declared {
        if !targets.iter().any(|target| reading.tiers.borrow()[usize::from(target.tier)] == name) {
            let mend = format!("Give a target `tier = \"{name}\"`, or remove `[tier.{name}]`");
            reading.problem(span, format!("tier \"{name}\" has no target"), mend);
        }
    }
    targets
}

fn target(reading: &Reading<'_>, section: Section<'_, '_, '_>, declared: bool) -> TargetConfig {
    let TargetKeys { name, path, tier, only_on, near, device } = TargetKeys::read(&section);
    let bad = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    if name.contains(bad) || name.len() > 64 {
        let mend = "Use at most 64 letters, digits, `-`, `_` and `.`";
        section.problem("name", format!("\"{name}\" cannot be the name of a target"), mend);
    }
    let mut tiers = reading.tiers.borrow_mut();
    let tier = tier.unwrap_or_else(|| {
        let first = tiers.first().filter(|_| declared);
        first.map_or(DEFAULT_TIER, String::as_str).to_owned()
    });
    let known = tiers.iter().position(|known| *known == tier);
    let number = known.unwrap_or_else(|| {
        if declared {
            let mend = format!("Use one of {}, or add `[tier.{tier}]`", tiers.join(", "));
            section.problem("tier", format!("tier \"{tier}\" is not declared"), mend);
            return 0;
        }
        tiers.push(tier);
        tiers.len() - 1
    });
    let (keeping, place) = match (connections(&section), path) {
        (Some(connections), _) => (Keeping::Servers(connections), reading.place(section.span.start)),
        (None, Some(Directory { path, place })) => (Keeping::Directory(path), place),
        (None, None) => (Keeping::Directory(section.missing("path", "\"targets/fast0\"")), (0, 0)),
    };
    section.finish();
    let (only_on, near) = (only_on.unwrap_or_default(), near.unwrap_or_default());
    TargetConfig { name, keeping, tier: u8::try_from(number).unwrap_or(u8::MAX), only_on, near, device, place }
}

#[cfg(test)]
mod tests;

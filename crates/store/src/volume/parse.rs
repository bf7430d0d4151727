//! From the text of a `volume.toml` to a [`Config`]: every key with its default, every problem with its place.

mod burst;
mod cache;
mod connections;
mod tiering;

pub use burst::Burst;

use super::config::{
    Config, Health, Io, LayoutConfig, MirrorWrites, Mount, Mover, Passthrough, Recovery, StateStore, TargetConfig,
};
use super::parse_jobs::{jobs, purge, replication};
use super::parse_stripes::stripes;
use super::problem::Problems;
use super::section::{Reading, Section};
use policy::tier::cost::DeviceCost;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;
use toml::de::{DeTable, DeValue};

/// Targets of one volume. A guess at what one daemon serves well; the formats allow 65 535.
pub const TARGETS_MAX: usize = 512;
/// The tier of targets that name none.
const DEFAULT_TIER: &str = "default";

const MIB: u64 = 1 << 20;
const TIB: u64 = 1 << 40;

/// Reads and checks the text alone.
pub fn parse(file: &Path, text: &str) -> Result<Config, Problems> {
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
    let name = root.string("name").map_or_else(|| "scratch".to_owned(), |(name, _)| name);
    let (namespace, namespace_span) = root.path("namespace", "namespace");
    let (state, state_span) = root.path("state", "state");
    let (declared, speeds) = tiers(reading, root);
    let (tiers, targets) = targets(reading, root, declared);
    let burst = burst::burst(reading, root.section("burst"), &tiers);
    let stripes = stripes(reading, root.section("stripes"), &tiers);
    let layout = layout(reading, root.section("layout"));
    let tiering = tiering::tiering(reading, root.section("tiering"), &tiers, speeds, layout.segment);
    Config {
        burst,
        file: file.to_owned(),
        name,
        namespace,
        namespace_place: reading.place(namespace_span.start),
        state,
        state_place: reading.place(state_span.start),
        state_store: root.words("state_store", StateStore::Embedded, state_store),
        tiers,
        targets,
        layout,
        mount: mount(root.section("mount")),
        cache: cache::cache(reading, root.section("cache")),
        health: health(root.section("health")),
        mover: mover(root.section("mover")),
        tiering,
        recovery: recovery(root.section("recovery")),
        jobs: jobs(root.section("jobs")),
        replication: replication(reading, root.section("replication")),
        purge: purge(reading, root.section("purge")),
        stripes,
    }
}

fn state_store(text: &str) -> Result<StateStore, String> {
    let form = "Write embedded, or redis://HOST:PORT/DATABASE, or unix:///PATH/TO/SOCKET";
    if text == "embedded" {
        return Ok(StateStore::Embedded);
    }
    if !text.contains("://") {
        return Err(form.into());
    }
    crate::state::redis::check_url(text).map_err(|why| format!("{why}. {form}"))?;
    Ok(StateStore::Redis(text.into()))
}

/// Tiers by name with their place, and what their devices take where the file says it.
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
        tiers.push(((name.get_ref().to_string(), name.span()), tiering::speed(&section)));
        section.finish();
    }
    tiers.sort_by_key(|((_, span), _)| span.start);
    tiers.into_iter().unzip()
}

fn targets(
    reading: &Reading<'_>,
    root: &Section<'_, '_, '_>,
    declared: Vec<(String, Range<usize>)>,
) -> (Vec<String>, Vec<TargetConfig>) {
    let value = root.get("target");
    let blocks = value.and_then(|value| value.get_ref().as_array()).map(|array| array.iter());
    let mut tiers: Vec<String> = declared.iter().map(|(name, _)| name.clone()).collect();
    let mut targets: Vec<TargetConfig> = Vec::new();
    for block in blocks.into_iter().flatten() {
        let section = Section::new(reading, "target", block.span(), block.get_ref().as_table());
        if !matches!(block.get_ref(), DeValue::Table(_)) {
            reading.problem(block.span(), "a target is no table", "Write `[[target]]` on a line of its own");
            continue;
        }
        let target = target(reading, section, &mut tiers, !declared.is_empty());
        // Each is held against the first alone: of n of one name n - 1 have to be mended.
        let mend = |first: &TargetConfig| format!("Give it another (the first is in line {})", first.place.0);
        if let Some(first) = targets.iter().find(|other| other.name == target.name && !target.name.is_empty()) {
            reading.problem(block.span(), format!("two targets are named \"{}\"", target.name), mend(first));
        }
        if let Some(first) = targets.iter().find(|other| other.path == target.path) {
            reading.problem(block.span(), format!("two targets are in {}", target.path.display()), mend(first));
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
        if !targets.iter().any(|target| tiers[usize::from(target.tier)] == name) {
            let mend = format!("Give a target `tier = \"{name}\"`, or remove `[tier.{name}]`");
            reading.problem(span, format!("tier \"{name}\" has no target"), mend);
        }
    }
    (tiers, targets)
}

fn target(
    reading: &Reading<'_>,
    section: Section<'_, '_, '_>,
    tiers: &mut Vec<String>,
    declared: bool,
) -> TargetConfig {
    let (name, name_span) = section.required("name", "fast0");
    let bad = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    if name.contains(bad) || name.len() > 64 {
        let mend = "Use at most 64 letters, digits, `-`, `_` and `.`";
        reading.problem(name_span.clone(), format!("\"{name}\" cannot be the name of a target"), mend);
    }
    let (path, path_span) = section.path("path", "targets/fast0");
    let (tier_name, tier_span) = section.string("tier").unwrap_or_else(|| {
        let first = tiers.first().filter(|_| declared);
        (first.cloned().unwrap_or_else(|| DEFAULT_TIER.to_owned()), section.span.clone())
    });
    let known = tiers.iter().position(|tier| *tier == tier_name);
    let tier = known.unwrap_or_else(|| {
        if declared {
            let mend = format!("Use one of {}, or add `[tier.{tier_name}]`", tiers.join(", "));
            reading.problem(tier_span, format!("tier \"{tier_name}\" is not declared"), mend);
            return 0;
        }
        tiers.push(tier_name);
        tiers.len() - 1
    });
    let place = reading.place(path_span.start);
    let device = section.words("device", None, |text| text.parse().map(Some));
    let connections = connections::connections(reading, &section);
    section.finish();
    TargetConfig { name, path, tier: u8::try_from(tier).unwrap_or(u8::MAX), device, connections, place }
}

fn layout(reading: &Reading<'_>, section: Section<'_, '_, '_>) -> LayoutConfig {
    let stripe = "a multiple of 4096 bytes up to 1GiB, such as \"1MiB\"";
    let layout = LayoutConfig {
        stripe_size: section.size("stripe_size", MIB, 4096..=1 << 30, stripe),
        stripe_count: section.count("stripe_count", 4, 1..=TARGETS_MAX as u64) as usize,
        inline_max: section.size("inline_max", 64 << 10, 0..=MIB, "a size up to 1MiB, such as \"64KiB\""),
        single_max: section.size("single_max", 4 * MIB, 0..=TIB, "a size up to 1TiB, such as \"4MiB\""),
        segment: section.size("segment", 0, 0..=TIB, "a size up to 1TiB, such as \"64MiB\", or 0"),
        mirrors: section.count("mirrors", 1, 1..=8) as usize,
        mirror_writes: section.choice(
            "mirror_writes",
            MirrorWrites::Sync,
            &[("sync", MirrorWrites::Sync), ("stale", MirrorWrites::Stale)],
        ),
    };
    if !layout.stripe_size.is_multiple_of(4096) {
        let span = section.get("stripe_size").map_or(0..0, |value| value.span());
        reading.problem(span, format!("`stripe_size` is {} bytes", layout.stripe_size), format!("Give {stripe}"));
    }
    section.finish();
    layout
}

fn mount(section: Section<'_, '_, '_>) -> Mount {
    let day = Duration::from_secs(86_400);
    let mount = Mount {
        threads: section.count("threads", default_threads(), 1..=256) as usize,
        entry_timeout: section.span("entry_timeout", Duration::from_secs(1), Duration::ZERO..=day),
        attr_timeout: section.span("attr_timeout", Duration::from_secs(1), Duration::ZERO..=day),
        allow_other: section.boolean("allow_other"),
        passthrough: section.choice(
            "passthrough",
            Passthrough::Auto,
            &[("auto", Passthrough::Auto), ("off", Passthrough::Off)],
        ),
        io: section.choice("io", Io::Auto, &[("auto", Io::Auto), ("direct", Io::Direct), ("cached", Io::Cached)]),
    };
    section.finish();
    mount
}

/// Two per core, so that a reader computes while another waits; some spare ones that may hang. A guess.
fn default_threads() -> u64 {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    (2 * cores).clamp(6, 32)
}

fn health(section: Section<'_, '_, '_>) -> Health {
    let (ms, hour) = (Duration::from_millis(1), Duration::from_secs(3600));
    let health = Health {
        deadline: section.span("deadline", Duration::from_secs(5), 10 * ms..=hour),
        probe_interval: section.span("probe_interval", Duration::from_millis(500), 10 * ms..=hour),
        probes_failed_max: section.count("probes_failed_max", 2, 1..=1000) as u32,
        auto_restore: section.count("auto_restore", 0, 0..=1000) as u32,
    };
    section.finish();
    health
}

fn mover(section: Section<'_, '_, '_>) -> Mover {
    let mover = Mover {
        rate: section.size("rate", 0, 0..=u64::MAX, "bytes per second, such as \"200MiB\", or 0 for no limit"),
        concurrent: section.count("concurrent", 2, 1..=64) as usize,
        in_kernel: section.choice("copy", false, &[("kernel", true), ("process", false)]),
    };
    section.finish();
    mover
}

fn recovery(section: Section<'_, '_, '_>) -> Recovery {
    let recovery = Recovery {
        concurrent: section.count("concurrent", 4, 1..=64) as usize,
        retries: section.count("retries", 3, 1..=100) as u32,
        rate: section.size("rate", 0, 0..=u64::MAX, "bytes per second, such as \"200MiB\", or 0 for no limit"),
        source_patience: section.span(
            "source_patience",
            Duration::from_secs(30),
            Duration::from_secs(1)..=Duration::from_secs(3600),
        ),
    };
    section.finish();
    recovery
}

#[cfg(test)]
mod tests;

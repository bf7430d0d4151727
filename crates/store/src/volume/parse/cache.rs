//! `[cache]`: the words of the simulator's command line, read by the same code, and whether they fit together.

use super::super::config::Cache;
use super::super::section::{Reading, Section};
use crate::cache::BLOCK_BYTES;
use policy::cache::{CAPACITY_MAX, ConfigError, LevelConfig};
use policy::prefetch::Prefetch;
use policy::words;

/// A cache smaller than this is no cache: not even the windows of one stream would fit.
const SIZE_MIN: u64 = 64 << 10;
const SIZE_MAX: u64 = CAPACITY_MAX as u64 * BLOCK_BYTES as u64;

/// What goes with `size` alone: the read-ahead that a kernel of today has, and its replacement.
const PREFETCH: Prefetch = Prefetch::OnDemand { max: 32 };

pub fn cache(reading: &Reading<'_>, section: Section<'_, '_, '_>) -> Cache {
    let size =
        section.size("size", 0, 0..=SIZE_MAX, "0 for no cache, or a size from 64KiB to 4TiB, such as \"256MiB\"");
    let span_of = |key| section.get(key).map_or_else(|| section.span.clone(), |value| value.span());
    if size > 0 && size < SIZE_MIN {
        reading.problem(
            span_of("size"),
            format!("`size` is {size} bytes, too little to cache"),
            "Give at least \"64KiB\", or 0",
        );
    }
    let said = |error: words::WordError| format!("Mend it: {}", error.why);
    let prefetch = section.words("prefetch", PREFETCH, |text| words::prefetch(text).map_err(said));
    let mut level = LevelConfig::new((size / BLOCK_BYTES as u64).clamp(1, CAPACITY_MAX.into()) as u32, prefetch);
    level.announce = true;
    level.replacement = section.words("replacement", level.replacement, |text| words::replacement(text).map_err(said));
    level.trigger = section.words("trigger", level.trigger, |text| words::trigger(text).map_err(said));
    level.coordination =
        section.words("coordinator", level.coordination, |text| words::coordination(text).map_err(said));
    if let Err(error) = level.check() {
        let key = match error {
            ConfigError::Capacity { .. } => "size",
            ConfigError::BottomFraction { .. } | ConfigError::NothingSequential => "replacement",
            ConfigError::Coordination(_) => "coordinator",
            ConfigError::Prefetch(policy::prefetch::ConfigError::Degree { .. }) => "prefetch",
            ConfigError::Prefetch(_) if section.get("trigger").is_some() => "trigger",
            ConfigError::Prefetch(_) | ConfigError::Streams => "prefetch",
        };
        let (cause, mend) = split(&error.to_string());
        reading.problem(span_of(key), cause, mend);
    }
    section.finish();
    Cache { size, level: (size > 0).then_some(level) }
}

/// The policies say what is wrong, a semicolon, and what to do.
fn split(said: &str) -> (String, String) {
    let (cause, mend) = said.split_once("; ").unwrap_or((said, "choose other parameters"));
    let mut mend = mend.to_owned();
    if let Some(first) = mend.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    (cause.to_owned(), mend)
}

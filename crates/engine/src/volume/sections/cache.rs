//! `[cache]`: the words of the simulator's command line, read by the same code, and whether they fit together.

use super::super::keys::{parsed, section, size};
use super::super::section::Section;
use crate::cache::BLOCK_BYTES;
use policy::cache::{CAPACITY_MAX, LevelConfig, Replacement, Setting};
use policy::coordinate::Coordination;
use policy::prefetch::{Prefetch, Trigger};
use policy::words;

/// A cache smaller than this is no cache: not even the windows of one stream would fit.
const SIZE_MIN: u64 = 64 << 10;
const SIZE_MAX: u64 = CAPACITY_MAX as u64 * BLOCK_BYTES as u64;

// The defaults are the read-ahead of a present kernel, and the replacement that goes with it.
section! {
    /// `[cache]` as it is written.
    CacheKeys {
        /// Size of the mount's own block cache, with algorithms of `entrepot-lab sim cache` (see its --help for all
        /// words). 0 is no cache; the kernel's page cache and read-ahead work as usual. With a cache the mount reads past the
        /// page cache, and the kernel reads no file by itself (`passthrough`). So the cache sees every read of files that are
        /// not open for writing.
        size: u64 = size(0..=SIZE_MAX, "0 for no cache, or a size from 64KiB to 4TiB, such as \"256MiB\""), 0;
        /// The prefetcher: none, on-demand or stream (stream:degree_max=32). `entrepot-lab sim cache` has others.
        prefetch: Prefetch = parsed(said(words::prefetch)), "on-demand";
        /// The replacement: lru or sarc.
        replacement: Replacement = parsed(said(words::replacement)), "lru";
        /// The setter of the trigger distance: native, fixed:24, ets or esf (ets:redistribute, esf:default=24,min=4,max=48).
        trigger: Trigger = parsed(said(words::trigger)), "native";
        /// Coordination with another volume's cache above it: none, labels, pfc (pfc:file, pfc:client), pfc:adaptive,
        /// du, or several joined by +. A mount sends early requests, so `pfc` here is the simulator's `early+pfc`.
        coordinator: Coordination = parsed(said(words::coordination)), "none";
    }
}

fn said<T>(parse: impl Fn(&str) -> Result<T, String>) -> impl Fn(&str) -> Result<T, String> {
    move |text| parse(text).map_err(|why| format!("Mend it: {why}"))
}

/// The mount's block cache.
#[derive(Clone, Debug, PartialEq)]
pub struct Cache {
    /// Bytes of file data it holds at most, what is on the way included; 0: there is none.
    pub size: u64,
    /// Its algorithms, and its size in blocks of [`crate::cache::BLOCK_BYTES`]; `None` without a cache.
    pub level: Option<LevelConfig>,
}

impl Cache {
    pub(in crate::volume) fn checked(section: &Section<'_, '_, '_>) -> Cache {
        let CacheKeys { size, prefetch, replacement, trigger, coordinator } = CacheKeys::read(section);
        if size > 0 && size < SIZE_MIN {
            let cause = format!("`size` is {size} bytes, too little to cache");
            section.problem("size", cause, "Give at least \"64KiB\", or 0");
        }
        let mut level = LevelConfig::new((size / BLOCK_BYTES as u64).clamp(1, CAPACITY_MAX.into()) as u32, prefetch);
        level.announce = true;
        (level.replacement, level.trigger, level.coordination) = (replacement, trigger, coordinator);
        // A mount above sends its application's blocks and its own prefetch as two requests.
        level.coordination.early |= coordinator.pfc.is_some() || coordinator.adaptive;
        if let Err(error) = level.check() {
            let key = match error.setting {
                Setting::Capacity => "size",
                Setting::Replacement => "replacement",
                Setting::Prefetch => "prefetch",
                Setting::Trigger => "trigger",
                Setting::Coordination => "coordinator",
            };
            let (cause, mend) = split(&error.why);
            section.problem(key, cause, mend);
        }
        Cache { size, level: (size > 0).then_some(level) }
    }
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

//! Search of `[cache]`: one key after the other, twice, on the first half of the reads.

use engine::volume::Config;
use policy::cache::LevelConfig;
use std::collections::BTreeMap;
use std::path::Path;

/// Prefetchers from simple to complex. The degrees are powers of 4 up to the largest request of the kernel, 1 MiB.
const PREFETCHERS: [&str; 6] = [
    "none",
    "on-demand",
    "stream:degree_max=4",
    "stream:degree_max=16",
    "stream:degree_max=64",
    "stream:degree_max=256",
];
const TRIGGERS: [&str; 2] = ["native", "ets"];
const REPLACEMENTS: [&str; 2] = ["lru", "sarc"];
/// Least size of a cache, and the factor from one size to the next.
const SIZE_MIN: u64 = 1 << 20;
const SIZE_FACTOR: u64 = 4;
/// A later value of a key must be better by this share, so that a simple setting wins a tie. A guess.
const BETTER: f64 = 0.01;

/// Values of `[cache]`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Keys {
    pub size: u64,
    pub prefetch: &'static str,
    pub trigger: &'static str,
    pub replacement: &'static str,
}

impl Keys {
    /// Lines for `volume.toml`.
    pub fn lines(&self) -> String {
        let Keys { size, prefetch, trigger, replacement } = self;
        let size = if size % (1 << 20) == 0 { format!("{}MiB", size >> 20) } else { size.to_string() };
        format!(
            "[cache]\nsize = \"{size}\"\nprefetch = \"{prefetch}\"\ntrigger = \"{trigger}\"\n\
             replacement = \"{replacement}\"\n"
        )
    }

    /// Configuration that the daemon would have with these lines; `None` if it would refuse them.
    pub fn level(&self, file: &Path, volume: &toml::Table) -> Option<LevelConfig> {
        let mut volume = volume.clone();
        volume.remove("cache");
        let text = format!("{volume}\n{}", self.lines());
        Config::parse(file, &text).ok()?.cache.level
    }
}

/// Finds the values with the least mean that `mean_ms` returns. Returns them and the number of tried settings.
pub fn search(size_max: u64, mut mean_ms: impl FnMut(&Keys) -> Option<f64>) -> Option<(Keys, usize)> {
    let sizes: Vec<u64> = std::iter::successors(Some(SIZE_MIN), |size| Some(size * SIZE_FACTOR))
        .take_while(|size| *size < size_max)
        .chain([size_max])
        .collect();
    let mut tried: BTreeMap<Keys, Option<f64>> = BTreeMap::new();
    let mut best = Keys { size: size_max, prefetch: "on-demand", trigger: "native", replacement: "lru" };
    for _ in 0..2 {
        let of = |best: &Keys| best.clone();
        for axis in 0..4 {
            let values: Vec<Keys> = match axis {
                0 => PREFETCHERS.map(|prefetch| Keys { prefetch, ..of(&best) }).into(),
                1 => TRIGGERS.map(|trigger| Keys { trigger, ..of(&best) }).into(),
                2 => REPLACEMENTS.map(|replacement| Keys { replacement, ..of(&best) }).into(),
                _ => sizes.iter().map(|size| Keys { size: *size, ..of(&best) }).collect(),
            };
            let mut least: Option<f64> = None;
            for keys in values {
                let mean = *tried.entry(keys.clone()).or_insert_with(|| mean_ms(&keys));
                if let Some(mean) = mean
                    && least.is_none_or(|least| mean < least * (1.0 - BETTER))
                {
                    (least, best) = (Some(mean), keys);
                }
            }
        }
    }
    tried.get(&best).copied().flatten().map(|_| (best, tried.len()))
}

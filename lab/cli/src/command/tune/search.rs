//! Search of a section of `volume.toml`: one key after the other, twice, on the first half of the reads.

use engine::volume::Config;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A later value of a key must be better by this share, so that a simple setting wins a tie. A guess.
const BETTER: f64 = 0.01;

/// A key, its values in TOML from simple to complex, and the number of the one to begin with.
pub type Axis = (&'static str, Vec<String>, usize);

/// A choice of values: the number of the value of each axis.
pub type Keys = Vec<usize>;

/// A section of a `volume.toml`, and the values to search.
pub struct Space {
    pub file: PathBuf,
    pub volume: toml::Table,
    pub section: &'static str,
    /// Keys of the section that stay.
    pub kept: toml::Table,
    pub axes: Vec<Axis>,
}

/// Words as values in TOML.
pub fn quoted<W: AsRef<str>>(words: impl IntoIterator<Item = W>) -> Vec<String> {
    words.into_iter().map(|word| format!("\"{}\"", word.as_ref())).collect()
}

impl Space {
    /// Lines for `volume.toml`.
    pub fn lines(&self, keys: &Keys) -> String {
        let line = |((key, values, _), at): (&Axis, &usize)| format!("{key} = {}\n", values[*at]);
        let searched: String = self.axes.iter().zip(keys).map(line).collect();
        format!("[{}]\n{}{searched}", self.section, self.kept)
    }

    /// Configuration that the daemon would have with these lines; `None` if it would refuse them.
    pub fn config(&self, keys: &Keys) -> Option<Config> {
        let mut volume = self.volume.clone();
        volume.remove(self.section);
        Config::parse(&self.file, &format!("{volume}\n{}", self.lines(keys))).ok()
    }

    /// Finds the values with the least mean that `mean_ms` returns. Returns them and the number of tried settings.
    pub fn search(&self, mean_ms: impl Fn(&Config) -> f64) -> Option<(Keys, usize)> {
        let mut tried: BTreeMap<Keys, Option<f64>> = BTreeMap::new();
        let mut best: Keys = self.axes.iter().map(|(.., start)| *start).collect();
        for axis in (0..self.axes.len()).chain(0..self.axes.len()) {
            let mut least: Option<f64> = None;
            for value in 0..self.axes[axis].1.len() {
                let mut keys = best.clone();
                keys[axis] = value;
                let mean = *tried.entry(keys.clone()).or_insert_with(|| self.config(&keys).map(|of| mean_ms(&of)));
                if let Some(mean) = mean
                    && least.is_none_or(|least| mean < least * (1.0 - BETTER))
                {
                    (least, best) = (Some(mean), keys);
                }
            }
        }
        tried.get(&best).copied().flatten().map(|_| (best, tried.len()))
    }
}

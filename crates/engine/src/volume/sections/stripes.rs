//! `[stripes]`: the widths of files, and the mechanism that chooses them.

use super::super::keys::{DAY, HOUR, SECOND, choice, count, flag, optional, parsed, path, section, span, tier};
use super::super::section::Section;
use policy::stripe::advice::Mode;
use std::path::PathBuf;
use std::time::Duration;

/// Widths that may be listed.
const WIDTHS_MAX: usize = 64;

const MODES: &[(&str, Mode)] =
    &[("fixed", Mode::Fixed(0)), ("model", Mode::Model), ("fuzzy", Mode::Fuzzy), ("model+fuzzy", Mode::ModelFuzzy)];

section! {
    /// `[stripes]`
    Stripes {
        /// The mechanism that chooses the widths of files: none ("fixed"), the queueing model ("model"), the rules ("fuzzy"), or
        /// both ("model+fuzzy"). The mechanism changes files in use, so no file is passed through to the kernel unless this is
        /// "fixed".
        mode: Mode = choice(MODES), "fixed";
        /// The rules; the default is what `entrepot-lab rules show` prints.
        rules: Option<PathBuf> = optional(path), "my.rules" else None;
        /// The classifier of a file's requests for the rules (sequential, strided or random, read or written, sizes): the
        /// trained network or "rules-of-thumb".
        network in "classifier": bool = choice(&[("network", true), ("rules-of-thumb", false)]), "network";
        /// Weights of your own for the network (`entrepot-lab patterns train`).
        weights: Option<PathBuf> = optional(path), "my.weights" else None;
        /// Only files on this tier; by default all targets count as alike. Their speed is the value of `device = "..."` in their
        /// blocks, which `entrepot-lab bench device` writes.
        tier: Option<u8> = optional(tier), "fast" else None;
        /// Time for which a request counts.
        window: Duration = span(SECOND / 10..=HOUR), "10s";
        /// Interval of decisions.
        interval: Duration = span(SECOND / 20..=60 * SECOND), "1s";
        /// Smallest gain in response time that justifies a change.
        margin_percent: u32 = count(0..=90), 2;
        /// Number of decisions in a row that must agree on a change.
        settle: u32 = count(1..=100), 2;
        /// Time within which the gain must exceed the cost of the copy.
        horizon: Duration = span(SECOND..=DAY), "5min";
        /// Widths that requests may get; the default is the powers of two and all targets.
        widths: Vec<u32> = parsed(widths), "1,2,4,8" else Vec::new();
        /// Copies of a file that are striped differently, of which each read takes the one that answers first; 1 is none beside
        /// the file itself.
        forks: usize = count(1..=8), 1;
        /// They are made while so much of the space is free, and given up below half of it.
        fork_space_percent: u32 = count(0..=99), 20;
        /// Whether requests are counted for all this.
        sensors: bool = flag, true;
    }
}

impl Stripes {
    pub(in crate::volume) fn checked(section: &Section<'_, '_, '_>) -> Stripes {
        let stripes = Stripes::read(section);
        if !stripes.sensors && stripes.mode != Mode::Fixed(0) {
            let mend = "Remove `sensors`, or set `mode = \"fixed\"`";
            section.problem("sensors", "without sensors nothing can be decided", mend);
        }
        stripes
    }
}

/// `1,2,4,8`
fn widths(text: &str) -> Result<Vec<u32>, String> {
    let number = |word: &str| word.trim().parse::<u32>().ok().filter(|width| (1..=512).contains(width));
    let all: Option<Vec<u32>> = text.split(',').map(number).collect();
    all.filter(|all| all.len() <= WIDTHS_MAX)
        .ok_or_else(|| "Give numbers from 1 to 512 in one text, such as \"1,2,4,8\"".to_owned())
}

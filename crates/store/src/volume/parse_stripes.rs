//! `[stripes]`: how wide files are striped, and by whom that is decided.

use super::config::Stripes;
use super::section::{Reading, Section};
use policy::stripe::advice::Mode;
use std::path::Path;
use std::time::Duration;

/// Widths that may be listed.
const WIDTHS_MAX: usize = 64;

pub fn stripes(reading: &Reading<'_>, section: Section<'_, '_, '_>, tiers: &[String]) -> Stripes {
    let (ms, second) = (Duration::from_millis(1), Duration::from_secs(1));
    let base = reading.file.parent().unwrap_or(Path::new(""));
    let tier = section.string("tier").and_then(|(name, span)| {
        let known = tiers.iter().position(|tier| *tier == name);
        if known.is_none() {
            reading.problem(span, format!("there is no tier \"{name}\""), format!("Use one of: {}", tiers.join(", ")));
        }
        known.and_then(|known| u8::try_from(known).ok())
    });
    let stripes = Stripes {
        mode: section.choice(
            "mode",
            Mode::Fixed(0),
            &[
                ("fixed", Mode::Fixed(0)),
                ("model", Mode::Model),
                ("fuzzy", Mode::Fuzzy),
                ("model+fuzzy", Mode::ModelFuzzy),
            ],
        ),
        sensors: section.boolean("sensors").unwrap_or(true),
        rules: section.string("rules").map(|(path, _)| base.join(path)),
        network: section.choice("classifier", true, &[("network", true), ("rules-of-thumb", false)]),
        weights: section.string("weights").map(|(path, _)| base.join(path)),
        tier,
        window: section.span("window", 10 * second, 100 * ms..=3600 * second),
        interval: section.span("interval", second, 50 * ms..=60 * second),
        margin_percent: section.count("margin_percent", 2, 0..=90) as u32,
        settle: section.count("settle", 2, 1..=100) as u32,
        horizon: section.span("horizon", 300 * second, second..=86_400 * second),
        widths: section.words("widths", Vec::new(), widths),
        forks: section.count("forks", 1, 1..=8) as usize,
        fork_space_percent: section.count("fork_space_percent", 20, 0..=99) as u32,
    };
    if !stripes.sensors && stripes.mode != Mode::Fixed(0) {
        let span = section.get("sensors").map_or(0..0, |value| value.span());
        reading.problem(span, "without sensors nothing can be decided", "Remove `sensors`, or set `mode = \"fixed\"`");
    }
    section.finish();
    stripes
}

/// `1,2,4,8`
fn widths(text: &str) -> Result<Vec<u32>, String> {
    let number = |word: &str| word.trim().parse::<u32>().ok().filter(|width| (1..=512).contains(width));
    let all: Option<Vec<u32>> = text.split(',').map(number).collect();
    all.filter(|all| all.len() <= WIDTHS_MAX)
        .ok_or_else(|| "Give numbers from 1 to 512 in one text, such as \"1,2,4,8\"".to_owned())
}

//! Parses the algorithms of a cache level: a name, and parameters after a colon, as in `sarc:threshold=6,degree=8`. The
//! command line of the simulator and `volume.toml` share this syntax.

use crate::cache::{Replacement, TwoLists};
use crate::coordinate::{Coordination, Labels, Large, Pfc, Scope};
use crate::prefetch::{Prefetch, Share, Trigger};

/// Name of an algorithm, with its parameters.
pub struct Parser<'t> {
    /// Name of the algorithm.
    pub name: &'t str,
    /// Its parameters with their values.
    pub parameters: Vec<(&'t str, &'t str)>,
}

impl<'t> Parser<'t> {
    /// Splits `text`; a parameter without a value has an empty one.
    pub fn new(text: &'t str) -> Parser<'t> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let parts = rest.split(',').map(str::trim).filter(|part| !part.is_empty());
        let parameters = parts.map(|part| part.split_once('=').unwrap_or((part, ""))).collect();
        Parser { name: name.trim(), parameters }
    }

    /// Returns the error for a parameter that the algorithm lacks.
    pub fn unknown(&self, key: &str, known: &str) -> String {
        format!("{} has no parameter `{key}`; it has {known}", self.name)
    }
}

/// Parses the value of a parameter.
pub fn number<T: std::str::FromStr>(key: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("`{value}` is no value for {key}"))
}

/// Parses a prefetcher of a mount, with parameters by the names of its fields.
pub fn prefetch(text: &str) -> Result<Prefetch, String> {
    let parser = Parser::new(text);
    let mut chosen: Prefetch = parser.name.parse()?;
    for &(key, value) in &parser.parameters {
        set_prefetch(&mut chosen, &parser, key, value)?;
    }
    Ok(chosen)
}

/// Sets a parameter of a prefetcher.
pub fn set_prefetch(chosen: &mut Prefetch, parser: &Parser<'_>, key: &str, value: &str) -> Result<(), String> {
    match (chosen, key) {
        (Prefetch::OnDemand { max }, "max") => *max = number(key, value)?,
        (Prefetch::Stream { degree_max, .. }, "degree_max") => *degree_max = number(key, value)?,
        (Prefetch::Stream { distance, .. }, "distance") => *distance = number(key, value)?,
        (Prefetch::None, _) => return Err(parser.unknown(key, "none")),
        (Prefetch::OnDemand { .. }, _) => return Err(parser.unknown(key, "max")),
        (Prefetch::Stream { .. }, _) => return Err(parser.unknown(key, "degree_max, distance")),
    }
    Ok(())
}

/// Parses a replacement: `lru` or `sarc`.
pub fn replacement(text: &str) -> Result<Replacement, String> {
    let parser = Parser::new(text);
    let mut lists = TwoLists::default();
    match parser.name {
        "lru" if parser.parameters.is_empty() => return Ok(Replacement::Lru),
        "lru" => return Err("lru has no parameters".into()),
        "sarc" => {}
        _ => return Err("choose lru or sarc".into()),
    }
    for &(key, value) in &parser.parameters {
        match key {
            "bottom_fraction" => lists.bottom_fraction = number(key, value)?,
            "large_ratio" => lists.large_ratio = number(key, value)?,
            _ => return Err(parser.unknown(key, "bottom_fraction, large_ratio")),
        }
    }
    Ok(Replacement::Sarc(lists))
}

/// Parses a trigger: `native`, `fixed:24`, `ets`, `esf`; the last two with `default=`, `min=`, `max=`, `redistribute`.
pub fn trigger(text: &str) -> Result<Trigger, String> {
    let parser = Parser::new(text);
    match (parser.name, &parser.parameters[..]) {
        ("native", []) => return Ok(Trigger::Native),
        ("fixed", &[(distance, "")]) => return Ok(Trigger::Fixed { distance: number("fixed", distance)? }),
        ("ets" | "esf", _) => {}
        _ => return Err("choose native, fixed:BLOCKS, ets or esf".into()),
    }
    let mut share = Share::default();
    for &(key, value) in &parser.parameters {
        match key {
            "default" => share.distance_default = number(key, value)?,
            "min" => share.distance_min = number(key, value)?,
            "max" => share.distance_max = number(key, value)?,
            "redistribute" => share.redistribute = true,
            _ => return Err(parser.unknown(key, "default, min, max, redistribute")),
        }
    }
    Ok(if parser.name == "ets" { Trigger::Ets(share) } else { Trigger::Esf(share) })
}

/// Parses a coordination: `none`, or several of `labels`, `early`, `pfc`, `du` joined by `+`. Labels take `onward` for
/// our reading of the upper level's prefetches.
///
/// PFC takes `bypass` or `readmore` for one action only, and `file` or `client` for its scope. `text` (`text=0.5`) is
/// the other reading of its code, `prose` the other reading of readmore; further parameters are `queue=0.1` and
/// `cap=BLOCKS`. `pfc:adaptive` is our per-stream coordinator.
pub fn coordination(text: &str) -> Result<Coordination, String> {
    let mut chosen = Coordination::NONE;
    for part in text.split('+') {
        let parser = Parser::new(part);
        match parser.name {
            "none" => {}
            "labels" if parser.parameters == [("onward", "")] => {
                chosen.labels = Labels::Onward;
                continue;
            }
            "labels" => chosen.labels = Labels::Published,
            "early" => chosen.early = true,
            "du" => chosen.du = true,
            "pfc" if parser.parameters == [("adaptive", "")] => {
                chosen.adaptive = true;
                continue;
            }
            "pfc" => {
                chosen.pfc = Some(pfc(&parser)?);
                continue;
            }
            _ => return Err("choose none, labels, early, pfc, du, or several joined by +".into()),
        }
        if let Some((key, _)) = parser.parameters.first() {
            return Err(parser.unknown(key, if parser.name == "labels" { "onward" } else { "none" }));
        }
    }
    Ok(chosen)
}

fn pfc(parser: &Parser<'_>) -> Result<Pfc, String> {
    let mut pfc = Pfc::PUBLISHED;
    for &(key, value) in &parser.parameters {
        match key {
            "bypass" => pfc.readmore = false,
            "readmore" => pfc.bypass = false,
            "file" => pfc.scope = Scope::File,
            "client" => pfc.scope = Scope::Client,
            "prose" => pfc.prose = true,
            "text" if value.is_empty() => pfc.large = Large::Text { factor: 0.5 },
            "text" => pfc.large = Large::Text { factor: number(key, value)? },
            "queue" => pfc.queue_fraction = number(key, value)?,
            "cap" => pfc.bypass_max = Some(number(key, value)?),
            _ => return Err(parser.unknown(key, "bypass, readmore, file, client, prose, text, queue, cap")),
        }
    }
    if !pfc.bypass && !pfc.readmore {
        return Err("bypass and readmore each mean that action only; leave both out for both".into());
    }
    Ok(pfc)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_parameters_become_algorithms() {
        assert_eq!(prefetch("on-demand:max=64").unwrap(), Prefetch::OnDemand { max: 64 });
        assert_eq!(prefetch("stream:distance=9").unwrap(), Prefetch::Stream { degree_max: 48, distance: 9 });
        assert_eq!(trigger("fixed:24").unwrap(), Trigger::Fixed { distance: 24 });
        assert_eq!(trigger("ets").unwrap(), Trigger::Ets(Share::default()));
        assert_eq!(coordination("none").unwrap(), Coordination::NONE);
        assert_eq!(coordination("pfc").unwrap(), Coordination::PFC);
        assert!(!coordination("labels+pfc:bypass").unwrap().pfc.unwrap().readmore);
        assert!(coordination("pfc:prose").unwrap().pfc.unwrap().prose);
        assert_eq!(coordination("labels+pfc").unwrap().labels, Labels::Published);
        assert_eq!(coordination("labels:onward").unwrap().labels, Labels::Onward);
        assert!(coordination("early+pfc:adaptive").unwrap().early);
        assert_eq!(coordination("pfc:adaptive").unwrap(), Coordination::ADAPTIVE);
    }

    #[test]
    fn what_is_wrong_is_said_with_what_would_be_right() {
        assert!(prefetch("sark").unwrap_err().contains("on-demand"));
        assert!(prefetch("stream:threshold=4").unwrap_err().contains("degree_max"));
        assert!(prefetch("on-demand:max=x").unwrap_err().contains("`x`"));
        assert!(trigger("fixed").is_err());
        assert!(coordination("pfc:bypass,readmore").is_err());
        assert!(coordination("labels:loud").is_err());
        assert!(replacement("fifo").is_err());
    }
}

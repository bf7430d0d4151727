//! Layout requests: values that users write to `user.entrepot.layout` of a directory or an empty file.

use crate::{Error, Result};
use object::target::Targets;
use policy::layout::Placement;

/// Parses a request like `stripe_count=4 stripe_size=1M mirrors=2 tier=fast single_max=4M`, on top of `base`.
pub fn parse_request(text: &str, base: &Placement, tiers: &[String]) -> Result<Placement> {
    let mut placement = base.clone();
    for word in text.split([' ', ',', '\n', '\t']).filter(|w| !w.is_empty()) {
        let (key, value) = word.split_once('=').ok_or_else(|| refused(word, "KEY=VALUE is expected"))?;
        match key {
            "stripe_count" => placement.stripe_count = count(word, value, 256)?,
            "mirrors" => placement.mirrors = count(word, value, 16)?,
            "stripe_size" => {
                placement.stripe_size = bytes(word, value)?;
                if placement.stripe_size == 0
                    || !placement.stripe_size.is_multiple_of(4096)
                    || placement.stripe_size > 1 << 30
                {
                    return Err(refused(word, "a multiple of 4K up to 1G is expected"));
                }
            }
            "single_max" => placement.single_bytes_max = bytes(word, value)?,
            "tier" if value == "any" => placement.tier = None,
            "tier" => {
                let tier = tiers.iter().position(|t| t == value);
                let tier =
                    tier.ok_or_else(|| refused(word, &format!("the volume's tiers are {}", tiers.join(", "))))?;
                placement.tier = Some(tier as u8);
            }
            _ => return Err(refused(word, "valid are stripe_count, stripe_size, single_max, mirrors, tier")),
        }
    }
    Ok(placement)
}

/// Refuses more mirrors than there are targets: no two mirrors of a file share one.
pub fn check_mirrors(placement: &Placement, tiers: &[String], targets: &Targets) -> Result<()> {
    let on_tier = |tier: u8| placement.tier.is_none_or(|asked| asked == tier);
    let n_targets = targets.all().iter().filter(|target| on_tier(target.tier())).count();
    if placement.mirrors <= n_targets {
        return Ok(());
    }
    let tier = placement.tier.and_then(|tier| tiers.get(usize::from(tier)));
    let place = tier.map_or("the volume".into(), |tier| format!("tier {tier}"));
    let next = format!("{place} has {n_targets} targets, and each mirror needs its own");
    Err(refused(&format!("mirrors={}", placement.mirrors), &next))
}

fn refused(word: &str, next: &str) -> Error {
    Error::Invalid(format!("the layout request `{word}` cannot be met: {next}"))
}

fn count(word: &str, value: &str, max: usize) -> Result<usize> {
    let parsed = value.parse().ok().filter(|n| (1..=max).contains(n));
    parsed.ok_or_else(|| refused(word, &format!("a number from 1 to {max} is expected")))
}

fn bytes(word: &str, value: &str) -> Result<u64> {
    policy::units::bytes(value).ok_or_else(|| refused(word, "a size like 65536, 64K, 1M is expected"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::target::memory::MemoryMedium;
    use object::target::{TargetSpec, TargetsOptions};
    use policy::TargetId;
    use std::sync::Arc;

    fn base() -> Placement {
        Placement {
            stripe_size: 1 << 20,
            stripe_count: 3,
            single_bytes_max: 4 << 20,
            segment_bytes: 0,
            mirrors: 1,
            tier: None,
        }
    }

    #[test]
    fn says_what_is_asked_and_keeps_the_rest() {
        let tiers = ["fast".to_string(), "large".to_string()];
        let asked = parse_request("stripe_count=8 stripe_size=256K, mirrors=2 tier=large\n", &base(), &tiers).unwrap();
        let expected = Placement { stripe_size: 256 << 10, stripe_count: 8, mirrors: 2, tier: Some(1), ..base() };
        assert_eq!(asked, expected);
        assert_eq!(parse_request("", &base(), &tiers).unwrap(), base());
    }

    #[test]
    fn refuses_what_it_does_not_understand() {
        let tiers = ["fast".to_string()];
        let wrong = [
            "stripe_count=0",
            "stripe_count=257",
            "stripe_count",
            "stripe_size=1000",
            "stripe_size=0",
            "mirrors=x",
            "tier=slow",
            "color=red",
            "stripe_size=99999999999999G",
        ];
        for text in wrong {
            let error = parse_request(text, &base(), &tiers).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
        let typo = parse_request("mirors=2", &base(), &tiers).unwrap_err().to_string();
        assert!(typo.contains("valid are stripe_count, stripe_size, single_max, mirrors, tier"), "{typo}");
    }

    #[test]
    fn each_mirror_needs_targets_of_its_own() {
        let tiers = ["fast".to_string(), "large".to_string()];
        let targets = Targets::new(TargetsOptions::inline());
        for (id, tier) in [(1, 0), (2, 0), (3, 1)] {
            targets.add(TargetSpec::new(TargetId(id), tier, Arc::new(MemoryMedium::new(id.into()))));
        }
        let of = |text: &str| check_mirrors(&parse_request(text, &base(), &tiers).unwrap(), &tiers, &targets);
        assert!(of("mirrors=3").is_ok() && of("mirrors=2 tier=fast").is_ok());
        let message = of("mirrors=9").unwrap_err().to_string();
        assert!(message.contains("`mirrors=9`") && message.contains("the volume has 3 targets"), "{message}");
        let message = of("mirrors=2 tier=large").unwrap_err().to_string();
        assert!(message.contains("tier large has 1 targets"), "{message}");
    }
}

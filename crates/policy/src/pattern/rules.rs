//! Reference classifier: thresholds on the features, easy to verify by hand.

use super::features::{Features, features};
use super::{Classifier, Hints, Label, Mix, Order, Request, Sizes};

/// Classifier by rules of thumb.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RulesOfThumb;

/// Returns the label that the rules give to features.
pub fn label([reads, sequential, step, size, sizes, ..]: Features) -> Label {
    let mix = match reads {
        r if r >= 0.95 => Mix::ReadOnly,
        r if r <= 0.05 => Mix::WriteOnly,
        _ => Mix::Mixed,
    };
    let order = if sequential >= 0.6 {
        Order::Sequential
    } else if step >= 0.6 {
        Order::Strided
    } else {
        Order::Random
    };
    let sizes = if size >= 0.8 || sizes <= 0.02 { Sizes::Uniform } else { Sizes::Variable };
    Label { mix, order, sizes }
}

impl Classifier for RulesOfThumb {
    fn hints(&self, window: &[Request]) -> Option<Hints> {
        features(window).map(|features| label(features).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_windows_are_what_they_are() {
        let of = |order: fn(u64) -> u64, len: fn(u64) -> u64| {
            let window: Vec<_> = (0..64).map(|n| Request { write: true, offset: order(n), len: len(n) }).collect();
            RulesOfThumb.classify(&window).unwrap().to_string()
        };
        assert_eq!(of(|n| n * 4096, |_| 4096), "write-only, sequential, uniform sizes");
        assert_eq!(of(|n| n * 65536, |_| 4096), "write-only, strided, uniform sizes");
        let anywhere = |n: u64| (n * n + 17).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 30;
        assert_eq!(of(anywhere, |n| 512 * (1 + n * 7 % 31)), "write-only, random, variable sizes");
        assert_eq!(RulesOfThumb.classify(&[]), None);
    }
}

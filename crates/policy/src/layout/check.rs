//! Invariants of a layout, checked whenever a layout is read from disk or made.

use super::{Layout, MirrorState, OPEN_END, ObjectState};
use std::collections::BTreeSet;

impl Layout {
    /// Checks the invariants; the error names the broken one.
    pub fn check(&self) -> Result<(), String> {
        if self.mirrors.is_empty() {
            return Err("the layout has no mirror".into());
        }
        if !self.mirrors.iter().any(|m| m.state == MirrorState::InSync) {
            return Err("no mirror of the layout is in sync".into());
        }
        let apart = |mirror| Err(format!("the segments of mirror {mirror} do not follow each other from offset 0"));
        for (mirror, m) in self.mirrors.iter().enumerate() {
            let mut next = 0;
            for (segment, s) in m.segments.iter().enumerate() {
                if s.start != next || s.end <= s.start {
                    return apart(mirror);
                }
                if s.objects.is_empty() || s.stripe_size == 0 || s.stripe_size % 4096 != 0 {
                    return Err(format!("segment {segment} of mirror {mirror} has no object or a bad stripe size"));
                }
                next = s.end;
            }
            let closed_early = m.segments.iter().rev().skip(1).any(|s| s.end == OPEN_END);
            if m.segments.is_empty() || closed_early {
                return apart(mirror);
            }
        }
        let mut seen = BTreeSet::new();
        for (_, object) in self.objects() {
            if !seen.insert(object.id) {
                return Err(format!("object {} occurs twice", object.id));
            }
            if object.merged.is_some_and(|merged| !merged.is_valid() || object.state != ObjectState::Complete) {
                return Err(format!("object {} is shared in a way that cannot be", object.id));
            }
        }
        Ok(())
    }
}

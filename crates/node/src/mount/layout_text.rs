//! A layout as the text of the attribute `user.entrepot.layout`.

use policy::TargetId;
use policy::layout::{Layout, MirrorState, OPEN_END, ObjectState};
use std::fmt::Write;

/// One line per mirror and segment; `name` returns a target's name.
pub fn describe(layout: &Layout, name: impl Fn(TargetId) -> Option<String>) -> String {
    let mut text = format!("generation={} mirrors={}\n", layout.generation, layout.mirrors.len());
    for (number, mirror) in layout.mirrors.iter().enumerate() {
        let state = match mirror.state {
            MirrorState::InSync => "in-sync",
            MirrorState::Stale => "stale",
        };
        for segment in &mirror.segments {
            let end = if segment.end == OPEN_END { "end".into() } else { segment.end.to_string() };
            let _ = write!(
                text,
                "mirror={number} state={state} start={} end={end} stripe_size={} stripe_count={} targets=",
                segment.start,
                segment.stripe_size,
                segment.objects.len()
            );
            let turns = segment.objects.iter().find_map(|object| object.merged);
            let targets = segment.objects.iter().map(|object| {
                let target = name(object.target).unwrap_or_else(|| object.target.to_string());
                if object.state == ObjectState::Partial { target + "(recovering)" } else { target }
            });
            text.push_str(&targets.collect::<Vec<_>>().join(","));
            if let Some(turns) = turns {
                let _ = write!(text, " merged={}/{} unit={}", turns.slot + 1, turns.of, turns.unit_bytes);
            }
            text.push('\n');
        }
    }
    text
}

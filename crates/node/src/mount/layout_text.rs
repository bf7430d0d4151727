//! A layout as the text of the attribute `user.entrepot.layout`.

use object::target::Targets;
use policy::layout::{Layout, MirrorState, OPEN_END, ObjectState};
use std::fmt::Write;

/// One line per mirror and segment.
pub fn describe(layout: &Layout, targets: &Targets) -> String {
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
            let names = segment.objects.iter().map(|object| {
                let target = targets.name_of(object.target);
                if object.state == ObjectState::Partial { target + "(recovering)" } else { target }
            });
            text.push_str(&names.collect::<Vec<_>>().join(","));
            if let Some(turns) = turns {
                let _ = write!(text, " merged={}/{} unit={}", turns.slot + 1, turns.of, turns.unit_bytes);
            }
            text.push('\n');
        }
    }
    text
}

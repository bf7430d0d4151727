//! Recent decisions and actions in words: for `entrepot status` and `entrepot explain`.

use super::stripes::shown;
use engine::file::Pool;
use object::now_ms;
use parking_lot::Mutex;
use policy::FileId;
use policy::stripe::forks::Shape;
use policy::stripe::striper::Why;
use policy::volume::ownership::Mechanism;
use policy::volume::{Change, Outcome, Verb};
use std::collections::VecDeque;
use std::time::Instant;

/// Number of lines kept for each mechanism.
const LINES_MAX: usize = 32;

struct Line {
    by: Mechanism,
    file: Option<FileId>,
    at: Instant,
    /// Milliseconds since 1970.
    at_ms: u64,
    text: String,
}

/// The latest lines.
#[derive(Default)]
pub struct History(Mutex<VecDeque<Line>>);

impl History {
    /// Records the begin of a change to a file's stripes.
    pub fn decided(&self, change: &Change, pool: &Pool) {
        if change.by != Mechanism::Stripes {
            return;
        }
        let name = pool.name_of(change.file);
        let what = match &change.verb {
            Verb::Restripe { mirror, to } => format!("mirror {mirror} gets {}", shown(to)),
            Verb::AddMirror { shape: Some(to), .. } => format!("a fork with {}", shown(to)),
            Verb::DropMirror(mirror) => format!("mirror {mirror} goes"),
            _ => return,
        };
        let text = format!("{name}: {what}: {}", change.reason);
        tracing::info!("stripes: {text}");
        self.add(change.by, Some(change.file), text);
    }

    /// Records that new files get that shape.
    pub fn placed(&self, shape: &Shape, why: &Why) {
        let text = format!("new files get {}: {why}", shown(shape));
        tracing::info!("stripes: {text}");
        self.add(Mechanism::Stripes, None, text);
    }

    /// Records the end of a move or copy of a segment.
    pub fn ended(&self, change: &Change, result: Outcome) {
        let made = matches!(result, Outcome::Made { .. });
        let text = match change.verb {
            Verb::MoveSegment { segment, to } => {
                let what = if made { "moved" } else { "to be moved, without success," };
                format!("segment {segment} was {what} to the {to} tier: {}.", change.reason)
            }
            Verb::CopySegment(segment) if made => {
                format!("segment {segment} got a slow copy while the devices were idle.")
            }
            Verb::CopySegment(segment) => {
                format!("a slow copy of segment {segment} was given up: it was in use, or there was no room.")
            }
            _ => return,
        };
        self.add(change.by, Some(change.file), text);
    }

    /// The lines of a mechanism, the oldest first, with milliseconds since 1970.
    pub fn of(&self, by: Mechanism) -> Vec<(u64, String)> {
        self.0.lock().iter().filter(|line| line.by == by).map(|line| (line.at_ms, line.text.clone())).collect()
    }

    /// The lines of a mechanism about a file, with the seconds since then.
    pub fn of_file(&self, by: Mechanism, file: FileId) -> Vec<String> {
        let lines = self.0.lock();
        let of = lines.iter().filter(|line| line.by == by && line.file == Some(file));
        of.map(|line| format!("  {} s ago {}", line.at.elapsed().as_secs(), line.text)).collect()
    }

    fn add(&self, by: Mechanism, file: Option<FileId>, text: String) {
        let mut lines = self.0.lock();
        if lines.iter().filter(|line| line.by == by).count() == LINES_MAX
            && let Some(oldest) = lines.iter().position(|line| line.by == by)
        {
            lines.remove(oldest);
        }
        lines.push_back(Line { by, file, at: Instant::now(), at_ms: now_ms(), text });
    }
}

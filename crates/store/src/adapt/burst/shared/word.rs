//! What nodes tell each other of checkpoints.

use super::super::record::Marked;
use crate::control::BeginCheckpoint;
use policy::burst::admission::Verdict;
use serde::{Deserialize, Serialize};

/// Texts about the burst buffer begin with this.
pub const WORD: &str = "burst ";

/// A number of a file's asks and states: when it was opened, and the how manieth since.
pub type Number = (u64, u64);

/// Who says it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct By {
    /// The name under which it hears.
    pub name: String,
    /// Its number.
    pub node: u32,
}

/// A file of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// Whose checkpoint.
    pub app: String,
    /// Of which version.
    pub label: String,
    /// Its path.
    pub path: String,
    /// Its stub's inode, which is the same on all nodes.
    pub inode: u64,
}

/// How a file of a checkpoint stands with a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stand {
    /// The file.
    pub of: Named,
    /// The number of this state: a later one is larger.
    pub number: Number,
    /// Whether it may be written there. If not, what was written is durable.
    pub writes: bool,
    /// It was cut to nothing there.
    pub emptied: bool,
    /// Bytes whose latest write failed there, from and to.
    pub missing: Vec<(u64, u64)>,
}

/// What a held write is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Said {
    Go,
    NoRoom,
    Closed,
}

impl From<Verdict> for Said {
    fn from(verdict: Verdict) -> Said {
        match verdict {
            Verdict::Go => Said::Go,
            Verdict::NoRoom => Said::NoRoom,
            Verdict::Closed => Said::Closed,
        }
    }
}

impl From<Said> for Verdict {
    fn from(said: Said) -> Verdict {
        match said {
            Said::Go => Verdict::Go,
            Said::NoRoom => Verdict::NoRoom,
            Said::Closed => Verdict::Closed,
        }
    }
}

/// A command that the node that decides serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Asked {
    /// A version begins.
    Begin(BeginCheckpoint),
    /// A version is complete, or given up.
    End(String, bool),
    /// How long an application runs between failures, or on how many nodes.
    About(String, Option<u64>, Option<u64>),
    /// The versions, of one application or of all.
    Rows(Option<String>),
    /// The versions that an application may restart from.
    Restart(String),
    /// How often an application should write one.
    Advice(String),
    /// How the buffer is.
    Status,
    /// A job marks files.
    Mark(String, Marked),
    /// A job marks none any more.
    Unmark(String),
}

/// What is said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Word {
    // To the node that decides.
    /// So many bytes are to be written.
    Ask { by: By, stand: Stand, number: Number, bytes: u64 },
    /// A file is open for writing, or closed and durable.
    Stands { by: By, stand: Stand },
    /// The devices had no room for so many bytes.
    Full { bytes: u64 },
    /// A file that looks like one of an application's checkpoints is opened to be read.
    Reads { path: String, file: Option<u64> },
    /// All of a version is durable there, and stands so.
    Settled { by: By, number: u64, stands: Vec<Stand> },
    /// What was announced is known there.
    Heard { by: By, number: u64 },
    // From it.
    /// That ask waits for its turn, or for room.
    Waits { path: String, number: Number },
    /// What becomes of that ask.
    Answer { path: String, number: Number, said: Said, direct: bool },
    /// How a file stands is known.
    Known { path: String, number: Number },
    /// Make durable what was written of a version, and say how its files stand.
    Settle { by: By, number: u64, app: String, label: String },
    /// A version is complete, or given up.
    Over { app: String, label: String },
    /// Other versions are announced, or other files marked.
    Announced { by: By, number: u64 },
}

impl Word {
    /// As it travels.
    pub fn text(&self) -> String {
        format!("{WORD}{}", serde_json::to_string(self).expect("numbers and texts"))
    }

    /// From what has travelled, without the first word; `None` if it makes no sense.
    pub fn of(text: &str) -> Option<Word> {
        serde_json::from_str(text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_travels_and_nonsense_is_none() {
        let by = By { name: "a".into(), node: 3 };
        let of = Named { app: "wave".into(), label: "7".into(), path: "w/\"7\"/ü".into(), inode: u64::MAX };
        let stand = Stand { of, number: (8, 1), writes: true, emptied: false, missing: vec![(0, u64::MAX)] };
        let word = Word::Ask { by, stand, number: (8, 5), bytes: 9 };
        assert_eq!(word.text().strip_prefix(WORD).and_then(Word::of), Some(word));
        assert_eq!([Word::of("{"), Word::of("{}"), Word::of("\"Odd\"")], [None, None, None]);
    }
}

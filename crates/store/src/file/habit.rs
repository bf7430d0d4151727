//! In what order applications read a file (`policy::advice`): shared by all that read it, without a lock. Of two reads that come at the same
//! moment one may be left out; what comes of it is a hint.

use super::File;
use policy::advice::{Advice, Habit};
use std::sync::atomic::{AtomicU32, Ordering};

pub(super) struct Habits(AtomicU32);

impl Default for Habits {
    fn default() -> Habits {
        Habits(AtomicU32::new(Habit::default().to_bits()))
    }
}

impl File {
    /// An application read something; whether that goes on where it, or another stream of the same open file, was.
    pub fn note_order(&self, goes_on: bool) {
        let mut habit = Habit::from_bits(self.habits.0.load(Ordering::Relaxed));
        let before = habit;
        habit.read(goes_on);
        if habit != before {
            self.habits.0.store(habit.to_bits(), Ordering::Relaxed);
        }
    }

    /// What those that read its objects are to tell the media below.
    pub fn advice(&self) -> Advice {
        Habit::from_bits(self.habits.0.load(Ordering::Relaxed)).advice()
    }
}

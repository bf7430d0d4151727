//! Order in which applications read a file (`policy::advice`), shared by all readers, without a lock. One of two
//! simultaneous reads may be missed; the result is only a hint.

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
    /// Records a read of an application. `goes_on`: it continues where this or another stream of the same open file
    /// ended.
    pub fn note_order(&self, goes_on: bool) {
        let mut habit = Habit::from_bits(self.habits.0.load(Ordering::Relaxed));
        let before = habit;
        habit.read(goes_on);
        if habit != before {
            self.habits.0.store(habit.to_bits(), Ordering::Relaxed);
        }
    }

    /// Advice for the media below, for reads of the file's objects.
    pub fn advice(&self) -> Advice {
        Habit::from_bits(self.habits.0.load(Ordering::Relaxed)).advice()
    }
}

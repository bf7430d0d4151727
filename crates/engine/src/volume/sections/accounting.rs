//! `[accounting]`.

use super::super::keys::{DAY, section, span};
use std::time::Duration;

section! {
    /// `[accounting]`
    Accounting {
        /// Time for which the daily counts of bytes that each user and each job read, wrote and staged are kept. 0:
        /// nothing is counted.
        keep: Duration = span(Duration::ZERO..=36_500 * DAY), "400d";
    }
}

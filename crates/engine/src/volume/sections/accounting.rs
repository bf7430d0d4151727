//! `[accounting]`.

use super::super::keys::{DAY, section, span};
use std::time::Duration;

section! {
    /// `[accounting]`
    Accounting {
        /// How long it is remembered what each user and each job read, wrote and staged, day by day. 0: nothing is.
        keep: Duration = span(Duration::ZERO..=36_500 * DAY), "400d";
    }
}

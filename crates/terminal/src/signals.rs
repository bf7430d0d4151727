//! Reaction to signals, on a thread of its own that ends with the process.

use object::workers::apart;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io;

/// Signals by which a user ends a command.
pub const INTERRUPTS: &[i32] = &[SIGINT, SIGTERM];
/// These signals, and the end of the terminal.
pub const ENDS: &[i32] = &[SIGINT, SIGTERM, SIGHUP];

/// Calls `end` at each of these signals until it returns `true`. Its argument is `true` for SIGTERM and from the second
/// signal on: the user insists.
pub fn on(signals: &[i32], mut end: impl FnMut(bool) -> bool + Send + 'static) -> io::Result<()> {
    let mut signals = signal_hook::iterator::Signals::new(signals)?;
    let mut insists = false;
    let has_ended = move |signal| {
        let has_ended = end(insists || signal == SIGTERM);
        insists = true;
        has_ended
    };
    apart("signals", move || signals.forever().any(has_ended)).map(drop)
}

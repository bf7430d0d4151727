//! What every state store must do, as one function that panics where one does not.

use super::State;

/// Runs the suite on an empty store.
pub fn conformance(state: &dyn State) {
    let _ = state;
    todo!()
}

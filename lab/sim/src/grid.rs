//! Cases that differ along axes, and their simulation side by side.

mod axes;
mod parallel;

pub use axes::{Case, Cell, cross};
pub use parallel::{alone, side_by_side};

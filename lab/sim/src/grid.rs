//! Grids: one setup varied along axes, run in parallel, compared pair by pair.
//!
//! [`cross`] and [`side_by_side`] are for all worlds; the rest is for caches, whose grid file is:
//!
//! ```toml
//! [[trace]]
//! name = "oltp"
//! path = "financial1.spc"          # or: generate = "oltp", seed = 1
//! [base]                           # whatever differs from the defaults of a setup
//! disk = "cheetah9lp"
//! [axes]                           # every combination is a case
//! pair = ["ra", "linux", "sarc", "amp"]
//! l1_size = ["5%", "1%"]
//! l2_size = ["200%", "100%", "10%", "5%"]
//! coordinator = ["none", "du", "pfc"]
//! [compare]
//! axis = "coordinator"
//! baseline = "none"
//! [published]                      # printed beside what comes out
//! pfc = "96 of 96 improved"
//! ```

mod axes;
mod parallel;
mod plan;
mod summary;

pub use axes::{Case, Cell, Word, cross};
pub use parallel::{alone, side_by_side};
pub use plan::{Compare, Done, GridError, Plan, TraceWish, cell_text, trace_setup};
pub use summary::{Comparison, Summary, summarise};

//! A simulated computing centre: a batch queue over nodes, inputs striped over I/O nodes that fail, recovery and replication.
//!
//! ```text
//!   log (jobs) --+                                   +-- waits, affected jobs, expansion factor
//!                +--> world: queue, runs, failures --+-- utilisation
//!   records -----+                                   +-- jobs at risk, space of the copies
//! ```
//! The decisions are those of `policy`; `docs/guide/simulator.md` lists the parts of the model.
//!
//! Source: Zhang, section 4.7; the reference, sections 6.7 and 6.8.

pub mod checker;
pub mod fit;
pub mod log;
pub mod nodes;
pub mod outages;
pub mod plan;
pub mod records;
pub mod setup;
pub mod world;

pub use log::{Log, Rules};
pub use outages::Failures;
pub use setup::Setup;
pub use world::{JobOutcome, Report, Sample, Waits, simulate};

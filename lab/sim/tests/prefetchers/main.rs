//! The laboratory's prefetchers in a cache level: the tests of the level itself, and the reference's check values.

mod algorithms;
#[allow(dead_code, reason = "the policy's own tests read all results")]
#[path = "../../../../crates/policy/src/cache/tests/driver.rs"]
mod driver;
#[path = "../../../../crates/policy/src/cache/tests/oracle.rs"]
mod oracle;
#[path = "../../../../crates/policy/src/cache/tests/random.rs"]
mod random;
#[path = "../../../../crates/policy/src/cache/tests/stacked.rs"]
mod stacked;

use driver::Driver;
use policy::{cache, coordinate, machine, precedence, time};

/// The names that those tests use, with the laboratory's prefetchers.
mod prefetch {
    pub(crate) use policy::prefetch::{Algorithm, Share, Trigger};
    pub(crate) use sim::prefetch::Prefetch;
}

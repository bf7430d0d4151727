//! Generated traces: seeded streams with the published characteristics of workloads that are not to be had.
//!
//! Every generator is an iterator of records in the order of time. The same seed gives the same records on any machine:
//! random numbers are our own (`Rng`), logarithms too (`arithmetic`), and nothing else of floating point is used but the
//! four operations and the root, which are exact everywhere. What of a generator is published, derived or a guess is
//! said in its own file and in `docs/reference/traces.md`.

pub(crate) mod arithmetic;
mod arrivals;
mod mixed;
mod multi;
mod paced;
mod popularity;
mod queries;
mod rng;
mod skewed;
mod web_server;
mod workload;

pub use arrivals::Arrivals;
pub use mixed::{Mixed, MixedShape, oltp_like, web_like};
pub use multi::{Multi, MultiShape};
pub use paced::{Paced, Stream};
use popularity::Popularity;
pub use queries::Queries;
pub use rng::Rng;
pub use skewed::{Skew, Skewed, SkewedShape};
pub use web_server::WebServer;
pub use workload::{copies, downloads, rates, vod};

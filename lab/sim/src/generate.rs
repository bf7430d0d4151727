//! Generated traces: seeded streams with the published characteristics of workloads that are not available.
//!
//! Every generator is an iterator of records in order of time. The same seed gives the same records on any machine:
//! random numbers (`Rng`) and logarithms (`arithmetic`) are our own. Other floating-point operations are the four
//! basic ones and the square root, which are exact everywhere. Each generator's file and `docs/reference/traces.md`
//! list which parameters are published, derived or guesses.

pub(crate) mod arithmetic;
mod arrivals;
mod joined;
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
pub use joined::joined;
pub use mixed::{Mixed, MixedShape, oltp_like, web_like};
pub use multi::{Multi, MultiShape};
pub use paced::{Paced, Stream};
use popularity::Popularity;
pub use queries::Queries;
pub use rng::Rng;
pub use skewed::{Skew, Skewed, SkewedShape};
pub use web_server::WebServer;
pub use workload::{copies, downloads, rates, vod};

//! What the requests of a file look like, and which come next.
//!
//! ```text
//!   window of requests --> features --> rules of thumb        --> read-only | write-only | mixed
//!                                   \-> small trained network --> sequential | strided | random,  uniform | variable sizes
//!   offsets, one by one --> hidden Markov model of their steps --> the next ranges, for a prefetcher
//! ```
//! A label is a hint: it decides nothing by itself.
//!
//! Source: Simitci & Reed, section 5 and future work, after Madhyastha & Reed; the reference, section 10.3. The paper gives neither
//! topology nor training: window, features and network are ours.

pub mod features;
pub mod hmm;
pub mod network;
pub mod rules;

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Whether it writes.
    pub write: bool,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

/// Reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mix {
    /// Nothing is written.
    ReadOnly,
    /// Nothing is read.
    WriteOnly,
    /// Both.
    Mixed,
}

/// Where the next request begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Order {
    /// Where the last ended.
    Sequential,
    /// At a fixed distance from where the last began.
    Strided,
    /// Anywhere.
    Random,
}

/// Sizes of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sizes {
    /// All alike.
    Uniform,
    /// Different.
    Variable,
}

/// What a window looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label {
    /// Reads and writes.
    pub mix: Mix,
    /// Where the next begins.
    pub order: Order,
    /// Sizes.
    pub sizes: Sizes,
}

impl Label {
    /// Every label.
    pub fn all() -> impl Iterator<Item = Label> {
        let mixes = [Mix::ReadOnly, Mix::WriteOnly, Mix::Mixed];
        let orders = [Order::Sequential, Order::Strided, Order::Random];
        mixes.into_iter().flat_map(move |mix| {
            orders
                .into_iter()
                .flat_map(move |order| [Sizes::Uniform, Sizes::Variable].map(|sizes| Label { mix, order, sizes }))
        })
    }
}

impl std::fmt::Display for Label {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mix = match self.mix {
            Mix::ReadOnly => "read-only",
            Mix::WriteOnly => "write-only",
            Mix::Mixed => "mixed",
        };
        let order = match self.order {
            Order::Sequential => "sequential",
            Order::Strided => "strided",
            Order::Random => "random",
        };
        let sizes = match self.sizes {
            Sizes::Uniform => "uniform",
            Sizes::Variable => "variable",
        };
        write!(f, "{mix}, {order}, {sizes} sizes")
    }
}

/// Says what a window of requests looks like.
pub trait Classifier {
    /// The label of a window, oldest request first; `None` for fewer than [`features::WINDOW_MIN`].
    fn classify(&self, window: &[Request]) -> Option<Label>;
}

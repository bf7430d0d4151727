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
pub mod recent;
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

/// What a window looks like, for rules that want no jumps: each from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hints {
    /// The label itself.
    pub label: Label,
    /// How sequential: 1 sequential, 1/2 strided, 0 random.
    pub sequentiality: f64,
    /// How much is written: 1 all, 1/2 mixed, 0 nothing.
    pub writes: f64,
    /// How different the sizes are: 1 variable, 0 uniform.
    pub variability: f64,
}

impl From<Label> for Hints {
    fn from(label: Label) -> Hints {
        let sequentiality = match label.order {
            Order::Sequential => 1.0,
            Order::Strided => 0.5,
            Order::Random => 0.0,
        };
        let writes = match label.mix {
            Mix::WriteOnly => 1.0,
            Mix::Mixed => 0.5,
            Mix::ReadOnly => 0.0,
        };
        let variability = if label.sizes == Sizes::Variable { 1.0 } else { 0.0 };
        Hints { label, sequentiality, writes, variability }
    }
}

/// Says what a window of requests looks like.
pub trait Classifier {
    /// The label of a window, oldest request first; `None` for fewer than [`features::WINDOW_MIN`].
    fn classify(&self, window: &[Request]) -> Option<Label> {
        self.hints(window).map(|hints| hints.label)
    }

    /// The label, and how sure it is.
    fn hints(&self, window: &[Request]) -> Option<Hints>;
}

/// One of the classifiers, chosen by configuration.
#[derive(Clone, Debug, PartialEq)]
pub enum Chosen {
    /// The trained network.
    Network(Box<network::Network>),
    /// The rules of thumb.
    Thumb(rules::RulesOfThumb),
}

impl Default for Chosen {
    /// The network that comes with the program.
    fn default() -> Chosen {
        match network::Network::parse(network::BUILT_IN) {
            Ok(network) => Chosen::Network(Box::new(network)),
            Err(_) => Chosen::Thumb(rules::RulesOfThumb), // never so: a test reads it
        }
    }
}

impl Classifier for Chosen {
    fn hints(&self, window: &[Request]) -> Option<Hints> {
        match self {
            Chosen::Network(network) => network.hints(window),
            Chosen::Thumb(thumb) => thumb.hints(window),
        }
    }
}

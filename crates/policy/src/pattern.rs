//! Classifies the requests of a file.
//!
//! ```text
//!   window of requests --> features --> rules of thumb    --> read-only | write-only | mixed
//!                                   \-> trained network   --> sequential | strided | random, uniform | variable sizes
//! ```
//! A label is a hint: it decides nothing by itself.
//!
//! Source: Simitci & Reed, section 5, after Madhyastha & Reed; the reference, section 10.3. The paper
//! gives neither topology nor training: window, features and network are ours.

use crate::named;

pub mod features;
pub mod network;
pub mod rules;

/// Request as the classifiers see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Whether it writes.
    pub write: bool,
    /// Offset of the first byte.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
}

named! {
    /// Mix of reads and writes.
    #[derive(PartialOrd, Ord, Hash)]
    Mix {
        /// Only reads occur.
        ReadOnly = "read-only",
        /// Only writes occur.
        WriteOnly = "write-only",
        /// Reads and writes occur.
        Mixed = "mixed",
    }
}

named! {
    /// Start of the next request.
    #[derive(PartialOrd, Ord, Hash)]
    Order {
        /// At the end of the last.
        Sequential = "sequential",
        /// At a fixed distance from the start of the last.
        Strided = "strided",
        /// Anywhere in the file.
        Random = "random",
    }
}

named! {
    /// Sizes of the requests.
    #[derive(PartialOrd, Ord, Hash)]
    Sizes {
        /// All sizes are equal.
        Uniform = "uniform",
        /// The sizes differ.
        Variable = "variable",
    }
}

/// Class of a window of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label {
    /// Mix of reads and writes.
    pub mix: Mix,
    /// Start of the next request.
    pub order: Order,
    /// Sizes of the requests.
    pub sizes: Sizes,
}

impl Label {
    /// Iterates over every label.
    pub fn all() -> impl Iterator<Item = Label> {
        let orders = |mix| Order::ALL.into_iter().map(move |order| (mix, order));
        let all = Mix::ALL.into_iter().flat_map(orders);
        all.flat_map(|(mix, order)| Sizes::ALL.map(|sizes| Label { mix, order, sizes }))
    }
}

impl std::fmt::Display for Label {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, {}, {} sizes", self.mix, self.order, self.sizes)
    }
}

/// Class of a window as numbers from 0 to 1, for rules that must not jump.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hints {
    /// Most likely label.
    pub label: Label,
    /// Order: 1 sequential, 1/2 strided, 0 random.
    pub sequentiality: f64,
    /// Share of writes: 1 all, 1/2 mixed, 0 none.
    pub writes: f64,
    /// Difference of the sizes: 1 variable, 0 uniform.
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

/// Classifier of windows of requests.
pub trait Classifier {
    /// Returns the label of a window, oldest request first; `None` for fewer than [`features::WINDOW_MIN`].
    fn classify(&self, window: &[Request]) -> Option<Label> {
        self.hints(window).map(|hints| hints.label)
    }

    /// Returns the label with its certainty.
    fn hints(&self, window: &[Request]) -> Option<Hints>;
}

/// Classifier chosen by configuration.
#[derive(Clone, Debug, PartialEq)]
pub enum Chosen {
    /// The trained network.
    Network(Box<network::Network>),
    /// The rules of thumb.
    Thumb(rules::RulesOfThumb),
}

impl Default for Chosen {
    /// The network built into the program.
    fn default() -> Chosen {
        match network::Network::parse(network::BUILT_IN) {
            Ok(network) => Chosen::Network(Box::new(network)),
            Err(_) => Chosen::Thumb(rules::RulesOfThumb), // unreachable: a test parses it
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

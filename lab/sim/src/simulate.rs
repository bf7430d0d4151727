//! One simulation from words to figures: survey of the traces, construction of the world, run, report.

mod instant;
mod report;
mod workload;

pub use crate::rounded::rounded;
pub use report::{LevelFigures, Report, Times};
pub use workload::{Workload, reader};

use crate::replay::{Replay, Survey, SurveyError};
use crate::setup::{Setup, SetupError};
use crate::trace::{self, Reader};
use crate::world::{Answered, Arrival, Sample, World};

/// Opens a trace at its start, repeatedly. Every call gives the same records.
pub trait Opener: Sync {
    /// Returns a reader at the start of the trace.
    fn open(&self) -> Result<Box<dyn Reader>, trace::Error>;
}

impl<F: Fn() -> Result<Box<dyn Reader>, trace::Error> + Sync> Opener for F {
    fn open(&self) -> Result<Box<dyn Reader>, trace::Error> {
        self()
    }
}

/// Reason why a simulation has no result.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    /// The setup is wrong.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The traces cannot be surveyed.
    #[error(transparent)]
    Survey(#[from] SurveyError),
    /// A surveyed trace cannot be read again.
    #[error("a trace changed while it was replayed: {0}")]
    Trace(String),
    /// Requests without times cannot come at their times.
    #[error(
        "trace {number} has no times of its requests, so they would all come at once; nothing was simulated. Replay \
         it in a closed loop: `--closed`"
    )]
    NoTimes {
        /// Number of the trace, from 1.
        number: usize,
    },
    /// A level cannot be made.
    #[error("{0}; nothing was simulated")]
    Level(#[from] policy::cache::ConfigError),
}

/// Result of a simulation.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Figures of the run.
    pub report: Report,
    /// Samples of inventories, if requested.
    pub samples: Vec<Sample>,
    /// Answered requests, if requested.
    pub answered: Vec<Answered>,
}

/// Reads all traces once, for [`run`].
pub fn survey(setup: &Setup, traces: &[&dyn Opener]) -> Result<Survey, SimulateError> {
    let cut = setup.cut()?;
    let mut survey = Survey::default();
    for trace in traces {
        survey.add(trace.open().map_err(SurveyError::from)?, &cut)?;
    }
    Ok(survey)
}

/// Simulates `setup` on surveyed traces. Each trace is one client, or as many as it names.
pub fn run(setup: &Setup, survey: &Survey, traces: &[&dyn Opener]) -> Result<Outcome, SimulateError> {
    let config = setup.config(survey.footprint_blocks())?;
    let cut = setup.cut()?;
    let open = matches!(config.arrival, Arrival::Open { .. }) && !setup.has_no_device();
    if let Some(at) = survey.traces().iter().position(|trace| open && !trace.has_times) {
        return Err(SimulateError::NoTimes { number: at + 1 });
    }
    let mut sources = Vec::new();
    for (number, trace) in traces.iter().enumerate() {
        let all = [None];
        let each: Vec<_> = survey.clients(number)?.iter().copied().map(Some).collect();
        for client in if setup.client_each { &each[..] } else { &all[..] } {
            let reader = trace.open().map_err(SurveyError::from)?;
            sources.push(Replay::new(reader, survey, number, cut, *client));
        }
    }
    let changed = |error: &trace::Error| SimulateError::Trace(error.to_string());
    if setup.has_no_device() {
        instant::check(setup)?;
        let tally = instant::run(&config.private[0], config.writes, config.check, &mut sources)?;
        return match sources.iter().find_map(Replay::failed) {
            Some(error) => Err(changed(error)),
            None => {
                let report = Report::new(&tally, cut.block_bytes);
                Ok(Outcome { report, samples: Vec::new(), answered: Vec::new() })
            }
        };
    }
    let storage = setup.storage()?;
    let placement = setup.placement(survey, &storage)?;
    let mut world = World::new(config, storage, placement, sources)?;
    world.run();
    if let Some(error) = world.sources().find_map(Replay::failed) {
        return Err(changed(error));
    }
    let tally = world.tally();
    let (samples, answered) = (world.samples().to_vec(), world.answered().to_vec());
    Ok(Outcome { report: Report::new(&tally, cut.block_bytes), samples, answered })
}

/// Checks a setup's words, as far as possible without its traces.
pub fn check(setup: &Setup) -> Result<(), SetupError> {
    setup.config(1 << 20)?;
    if setup.has_no_device() { instant::check(setup) } else { setup.storage().map(drop) }
}

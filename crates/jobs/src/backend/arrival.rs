//! A job's data and the arrivals: when they may begin to come, and what there is to tell of them.

use super::{Backend, Core};
use crate::arrivals::Ticket;
use crate::job::Job;
use crate::plan::paths;
use crate::request::{Arrival, Wanted};

/// What there is to tell of a job.
#[derive(Clone, Copy)]
pub(crate) enum Now {
    /// Its data come since before this daemon.
    UnderWay,
    /// They are there; how long they came, where that says something about their source.
    Arrived(Option<u64>),
    /// They will not come.
    Failed,
    /// It was started.
    Started,
    /// It is over, or begins anew.
    Gone,
}

/// What is fetched, if all of it is known.
fn wanted<X>(job: &Job<X>) -> Vec<Wanted> {
    paths::wanted(&job.plan, &job.cwd, job.mount.as_deref()).unwrap_or_default()
}

impl<B: Backend> Core<B> {
    /// The ticket of a job with the arrivals.
    pub fn ticket(job: &Job<B::Own>) -> Ticket {
        (B::queue_of(job), job.id.0)
    }

    /// A job could bring its data. Whether the arrivals say when; else there is nothing to wait for.
    pub fn ask(&self, job: &Job<B::Own>) -> bool {
        let arrivals = self.config.arrivals.as_ref();
        arrivals.map(|arrivals| arrivals.ask(Self::ticket(job), job.owner, wanted(job))).is_some()
    }

    /// Tells the arrivals how far a job is.
    pub fn tell(&self, job: &mut Job<B::Own>, now: Now) {
        let Some(arrivals) = &self.config.arrivals else { return };
        let ticket = Self::ticket(job);
        match now {
            Now::UnderWay => {
                let promised = job.arrival.as_ref().map_or(0, |arrival| arrival.bytes);
                return arrivals.adopt(ticket, job.owner, wanted(job), promised);
            }
            Now::Arrived(took_ms) => arrivals.arrived(ticket, took_ms),
            Now::Failed => arrivals.failed(ticket),
            Now::Started => arrivals.started(ticket),
            Now::Gone => {}
        }
        job.arrival = arrivals.told(ticket).or(job.arrival.take());
        if matches!(now, Now::Gone) {
            arrivals.gone(ticket);
        }
    }

    /// How a job's data stand now, or stood when it ended.
    pub fn told(&self, job: &Job<B::Own>) -> Option<Arrival> {
        let told = self.config.arrivals.as_ref().and_then(|arrivals| arrivals.told(Self::ticket(job)));
        told.or_else(|| job.arrival.clone())
    }
}

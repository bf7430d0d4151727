//! Connects a backend's jobs to the arrivals: requests when stage-ins may begin, and reports their progress.

use super::{Backend, Core};
use crate::arrivals::Ticket;
use crate::job::Job;
use crate::plan::paths;
use crate::request::{Arrival, StageInput};

/// Progress of a job, as reported to the arrivals.
#[derive(Clone, Copy)]
pub(crate) enum Now {
    /// Its data were in transit before this daemon started.
    UnderWay,
    /// The data are there. The value is the duration of the transfer, if it measures the rate of the source.
    Arrived(Option<u64>),
    /// The data will not be staged in.
    Failed,
    /// The job was started.
    Started,
    /// The job is over, or starts from the beginning.
    Gone,
}

/// Data to be fetched, if all of them are known.
fn wanted<X>(job: &Job<X>) -> Vec<StageInput> {
    paths::wanted(&job.plan, &job.cwd, job.mount.as_deref()).unwrap_or_default()
}

impl<B: Backend> Core<B> {
    /// The ticket of a job with the arrivals.
    pub fn ticket(job: &Job<B::JobData>) -> Ticket {
        (B::queue_of(job), job.id.0)
    }

    /// Requests the begin of the job's stage-in. Returns false if the stage-in need not wait for the arrivals.
    pub fn ask(&self, job: &Job<B::JobData>) -> bool {
        let arrivals = self.config.arrivals.as_ref();
        arrivals.map(|arrivals| arrivals.ask(Self::ticket(job), job.owner, wanted(job))).is_some()
    }

    /// Reports the progress of a job to the arrivals.
    pub fn tell(&self, job: &mut Job<B::JobData>, now: Now) {
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

    /// Progress of a job's data now, or at the job's end.
    pub fn told(&self, job: &Job<B::JobData>) -> Option<Arrival> {
        let told = self.config.arrivals.as_ref().and_then(|arrivals| arrivals.told(Self::ticket(job)));
        told.or_else(|| job.arrival.clone())
    }
}

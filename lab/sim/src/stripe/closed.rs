//! Clients that each wait for the answer to their request: the time of all requests, by width (figure 17).

use super::{Drive, Phase, Setup};
use crate::generate::Rng;
use crate::volume::{self, Request};
use policy::stripe::model::Parameters;
use policy::time::Time;

/// Figures of a closed loop.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Closed {
    /// Time until the last answer, in seconds.
    pub total_s: f64,
    /// Mean response time, in milliseconds.
    pub mean_ms: f64,
}

impl Setup {
    /// Setup with the disks of the queueing model, without phases.
    pub fn of(parameters: Parameters, seed: u64) -> Setup {
        Setup {
            parameters,
            mechanical: None,
            slowness: 1.0,
            far: false,
            phases: Vec::new(),
            interval: Time::from_secs(3600),
            warm_up: Time::ZERO,
            copy_bytes: 0,
            seed,
        }
    }
}

/// Requests of a closed loop.
#[derive(Clone, Copy, Debug)]
pub struct Loop {
    /// Number of clients.
    pub clients: u32,
    /// Pause of a client after each answer.
    pub pause: Time,
    /// Requests of all clients.
    pub requests: u64,
    /// Bytes of a request.
    pub bytes: u64,
    /// Devices of a request.
    pub width: u32,
}

/// Runs a closed loop with requests at random places.
pub fn closed(setup: &Setup, of: Loop) -> Closed {
    let Loop { clients, pause, requests, bytes, width } = of;
    let sized = Setup { phases: vec![Phase::of(1.0, bytes, 0.0)], ..setup.clone() };
    let mut volume = sized.volume(&Drive::Width(width));
    let (mut rng, unit) = (Rng::new(setup.seed, 2), volume.files[0].1[0].unit_bytes);
    let offset = |_| rng.below(setup.parameters.devices.into()) * unit;
    let request = |offset| Request { at: Time::ZERO, file: 0, offset, bytes, write: false };
    (volume.clients, volume.pause) = (clients, pause);
    volume.requests = Some((0..requests).map(offset).map(request).collect());
    let answered = volume::observe(volume).answered;
    let ends = answered.iter().map(|of| of.at + of.took).max().unwrap_or_default();
    let took_ms = answered.iter().map(|of| of.took.as_secs_f64() * 1e3).sum::<f64>();
    Closed { total_s: ends.as_secs_f64(), mean_ms: took_ms / answered.len().max(1) as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paper's testbed: 24 disks of its Table 2, 1 GiB in requests of 512 KiB.
    #[test]
    fn four_clients_are_served_soonest_four_wide() {
        let setup = Setup::of(Parameters { devices: 24, ..Parameters::default() }, 1);
        let of = |clients, width| Loop { clients, pause: Time::ZERO, requests: 2048, bytes: 512 << 10, width };
        let total_s = |clients, width| closed(&setup, of(clients, width)).total_s;
        let all = [1, 2, 3, 4, 6, 8, 12].map(|width| (width, total_s(4, width)));
        let best = all.iter().map(|of| of.1).fold(f64::INFINITY, f64::min);
        assert!(all[3].1 < best * 1.03, "{all:?}");
        assert!(all[0].1 > best * 1.3 && all[6].1 > best * 1.2, "{all:?}");
        // The best width falls with the number of clients, and more clients are faster.
        assert!(total_s(2, 8) < total_s(2, 2) && total_s(16, 2) < total_s(16, 6));
        assert!(total_s(1, 1) > 3.0 * total_s(4, 1));
        // A pause after each of the 512 requests of a client is added, and empties the queues.
        let pauses = closed(&setup, Loop { pause: Time::from_millis(500), ..of(4, 1) });
        assert!(pauses.total_s > 256.0 && pauses.mean_ms < closed(&setup, of(4, 1)).mean_ms, "{pauses:?}");
    }
}

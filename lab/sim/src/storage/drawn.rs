//! Devices with random positioning times: those of the striping model, with uniform terms, or mechanical disks with
//! requests at random places.

use crate::disk::{Command, Disk, Model};
use crate::generate::Rng;
use policy::stripe::device::BLOCK_BYTES;
use policy::stripe::model::{Device, Parameters};
use policy::time::Time;

/// First stream of random numbers, so that no two devices share one.
const STREAM: u64 = 16;

/// A device with random positioning.
#[derive(Debug)]
pub struct Drawn {
    /// Spans of the random terms, fixed time per request, and time per sector, in seconds.
    spans_s: [f64; 3],
    request_s: f64,
    sector_s: f64,
    mechanical: Option<Box<Disk>>,
    slowness: f64,
    rng: Rng,
}

impl Drawn {
    /// Creates device number `n` with these parameters, or the mechanical one. Its times are `slowness` times as
    /// long.
    pub fn new(of: &Parameters, mechanical: Option<&'static Model>, slowness: f64, seed: u64, n: u64) -> Drawn {
        let (spans_s, request_s, block_s) = match of.device {
            Device::Disk { revolution_s, seek_s, settle_s, track_blocks } => {
                ([seek_s, revolution_s, settle_s], 0.0, revolution_s / track_blocks + of.interface_s)
            }
            // The channels share one queue; as in the model, one server that is as many times as fast.
            Device::Flash { latency_s, block_s, channels } => {
                ([0.0; 3], latency_s / channels.max(1.0), (block_s + of.interface_s) / channels.max(1.0))
            }
        };
        let mechanical = mechanical.map(|model| Box::new(Disk::new(model)));
        let rng = Rng::new(seed, STREAM + n);
        Drawn { spans_s, request_s, sector_s: block_s * 512.0 / BLOCK_BYTES, mechanical, slowness, rng }
    }

    /// Begins a read or write of `count` sectors; returns the time of its completion.
    #[inline]
    pub fn serve(&mut self, now: Time, count: u64) -> Time {
        let takes_s = match &mut self.mechanical {
            None => {
                let positioning_s: f64 = self.spans_s.iter().map(|span_s| self.rng.unit() * span_s).sum();
                self.request_s + positioning_s + count as f64 * self.sector_s
            }
            Some(disk) => {
                let sector = self.rng.below(disk.sectors().saturating_sub(count).max(1));
                disk.serve(now, Command { sector, count, write: false }).done.since(now).as_secs_f64()
            }
        };
        now + Time((takes_s * self.slowness * 1e9) as u64)
    }
}

//! Devices of the stripe simulations, in the words of the command line.

use crate::command::sim::words::span;
use crate::failure::Result;
use clap::{Args, ValueEnum};
use node::control::Problem;
use policy::stripe::model::{Device, Parameters, Scaling};
use policy::time::Time;

/// Maximum of devices, each with a queue. A guess: such a run takes a second or two.
const DEVICES_MAX: u32 = 4096;

/// The devices; without options those of the paper's Table 2.
#[derive(Debug, Args)]
pub(super) struct DeviceArgs {
    /// Number of devices.
    #[arg(long, default_value_t = 128, value_name = "N")]
    pub(super) devices: u32,
    /// A revolution, the paper's c.
    #[arg(long, default_value = "8.4ms", value_name = "TIME", value_parser = span)]
    revolution: Time,
    /// Span of the seek time, f.
    #[arg(long, default_value = "18ms", value_name = "TIME", value_parser = span)]
    seek: Time,
    /// Span of the third uniform term, k.
    #[arg(long, default_value = "30ms", value_name = "TIME", value_parser = span)]
    settle: Time,
    /// Blocks of 4 KiB on a track, t.
    #[arg(long, default_value_t = 22.0, value_name = "N")]
    track_blocks: f64,
    /// Interface or network, per block of 4 KiB, i.
    #[arg(long, default_value = "0.5ms", value_name = "TIME", value_parser = span)]
    interface: Time,
    /// Work per stripe, h.
    #[arg(long, default_value = "1ms", value_name = "TIME", value_parser = span)]
    overhead: Time,
    /// Flash devices: service time that does not depend on the size.
    #[arg(long, value_name = "TIME", requires = "flash_block", value_parser = span)]
    flash_latency: Option<Time>,
    /// Flash devices: time per block of 4 KiB.
    #[arg(long, value_name = "TIME", requires = "flash_latency", value_parser = span)]
    flash_block: Option<Time>,
    /// Flash devices: requests served side by side.
    #[arg(long, default_value_t = 8.0, value_name = "N")]
    channels: f64,
}

/// The model's scaling; the adaptive modes always use positioning.
#[derive(Debug, Args)]
pub(super) struct ScalingArgs {
    /// How the last of the parallel requests compares with the mean.
    #[arg(long, value_enum, default_value = "uniform")]
    scaling: ScalingArg,
}

impl ScalingArgs {
    pub(super) fn of(&self, parameters: Parameters) -> Parameters {
        let scaling = match self.scaling {
            ScalingArg::Uniform => Scaling::Uniform,
            ScalingArg::Exponential => Scaling::Exponential,
            ScalingArg::Normal => Scaling::Normal,
            ScalingArg::Positioning => Scaling::Positioning,
        };
        Parameters { scaling, ..parameters }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ScalingArg {
    /// The whole service time is uniform, as in the paper.
    Uniform,
    /// The whole service time is exponential.
    Exponential,
    /// The whole service time is normal.
    Normal,
    /// Only the positioning is random: ours.
    Positioning,
}

impl DeviceArgs {
    pub(super) fn parameters(&self) -> Result<Parameters> {
        let numbers = !self.track_blocks.is_nan() && !self.channels.is_nan();
        if !numbers || self.devices == 0 || self.track_blocks <= 0.0 || self.channels < 1.0 {
            return Err(Problem::wrong("--devices, --track-blocks and --channels are at least 1").into());
        }
        if self.devices > DEVICES_MAX {
            return Err(Problem::wrong(format!("--devices is at most {DEVICES_MAX}")).into());
        }
        let device = match (&self.flash_latency, &self.flash_block) {
            (Some(latency), Some(block)) => Device::Flash {
                latency_s: latency.as_secs_f64(),
                block_s: block.as_secs_f64(),
                channels: self.channels,
            },
            _ => Device::Disk {
                revolution_s: self.revolution.as_secs_f64(),
                seek_s: self.seek.as_secs_f64(),
                settle_s: self.settle.as_secs_f64(),
                track_blocks: self.track_blocks,
            },
        };
        Ok(Parameters {
            device,
            devices: self.devices,
            interface_s: self.interface.as_secs_f64(),
            overhead_s: self.overhead.as_secs_f64(),
            ..Parameters::default()
        })
    }
}

//! Text form of a measured device: `disk:...` or `flash:...`, for `volume.toml` and the command line.
//!
//! ```text
//!   disk:seek=12ms,revolution=8ms,read=70MB/s,write=60MB/s,overhead=0.2ms
//!   flash:latency=90us,read=2000MB/s,write=900MB/s,channels=16,overhead=0.02ms
//! ```
//! `seek` and `revolution` are spans of uniform times, so that mean and variance of a positioning match the
//! measurement.

use super::model::{Device, Parameters, Scaling};
use crate::units;
use std::fmt;
use std::str::FromStr;

/// Bytes of a block of the model.
pub const BLOCK_BYTES: f64 = 4096.0;

/// A measured device. Times in seconds, rates in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Spans of seek and revolution of a disk; `None` for flash.
    pub disk: Option<(f64, f64)>,
    /// Mean time of an operation, without its size-dependent part.
    pub latency_s: f64,
    /// Operations served in parallel; 1 for a disk.
    pub channels: f64,
    /// Rate of reads.
    pub read_rate: f64,
    /// Rate of writes.
    pub write_rate: f64,
    /// Work per stripe of a request.
    pub overhead_s: f64,
}

impl Default for Measured {
    /// A present disk, as the default without measurement: 8 ms to position, 150 MB/s. A guess.
    fn default() -> Measured {
        Measured::disk(0.008, 0.008, 150e6, 150e6, 0.0002)
    }
}

impl Measured {
    /// Makes a disk with spans of seek and revolution.
    pub fn disk(seek_s: f64, revolution_s: f64, read_rate: f64, write_rate: f64, overhead_s: f64) -> Measured {
        let latency_s = (seek_s + revolution_s) / 2.0;
        let disk = Some((seek_s, revolution_s));
        Measured { disk, latency_s, channels: 1.0, read_rate, write_rate, overhead_s }
    }

    /// Makes a disk with this mean and variance of positioning, as nearly as two uniforms permit.
    pub fn disk_from(mean_s: f64, variance: f64, read_rate: f64, write_rate: f64, overhead_s: f64) -> Measured {
        // a + b = 2 mean, a^2 + b^2 = 12 variance: possible from mean^2 / 6 (a = b) to mean^2 / 3 (b = 0).
        let square = (12.0 * variance).clamp(2.0 * mean_s * mean_s, 4.0 * mean_s * mean_s);
        let apart = (2.0 * square - 4.0 * mean_s * mean_s).max(0.0).sqrt();
        Measured::disk(mean_s + apart / 2.0, mean_s - apart / 2.0, read_rate, write_rate, overhead_s)
    }

    /// Returns the model's parameters for `devices` of these, with the scaling that holds for queues
    /// (`Scaling::Positioning`).
    pub fn parameters(&self, devices: u32) -> Parameters {
        let block_s = BLOCK_BYTES / self.read_rate.max(1.0);
        let device = match self.disk {
            Some((seek_s, revolution_s)) => {
                // The transfer of a track takes a revolution.
                let revolution_s = revolution_s.max(1e-6);
                Device::Disk { revolution_s, seek_s, settle_s: 0.0, track_blocks: revolution_s / block_s }
            }
            None => Device::Flash { latency_s: self.latency_s, block_s, channels: self.channels },
        };
        let scaling = Scaling::Positioning;
        let overhead_s = self.overhead_s;
        Parameters { device, devices, request_blocks: 1.0, interface_s: 0.0, overhead_s, rate: 0.0, scaling }
    }

    /// Returns the mean of several devices with equal shares of every file.
    pub fn mean(all: &[Measured]) -> Option<Measured> {
        let n = all.len() as f64;
        let of = |value: fn(&Measured) -> f64| all.iter().map(value).sum::<f64>() / n;
        let disks: Vec<(f64, f64)> = all.iter().filter_map(|one| one.disk).collect();
        let share = disks.len() as f64;
        let disk = (2 * disks.len() > all.len()).then(|| {
            (
                disks.iter().map(|(seek, _)| seek).sum::<f64>() / share,
                disks.iter().map(|(_, turn)| turn).sum::<f64>() / share,
            )
        });
        (!all.is_empty()).then(|| Measured {
            disk,
            latency_s: of(|one| one.latency_s),
            channels: of(|one| one.channels),
            read_rate: of(|one| one.read_rate),
            write_rate: of(|one| one.write_rate),
            overhead_s: of(|one| one.overhead_s),
        })
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |s: f64| (s * 1e6).round() / 1e3;
        match self.disk {
            Some((seek, turn)) => write!(f, "disk:seek={}ms,revolution={}ms", ms(seek), ms(turn))?,
            None => write!(f, "flash:latency={}ms,channels={}", ms(self.latency_s), self.channels.round())?,
        }
        let rate = |rate: f64| (rate / 1e5).round() / 10.0;
        write!(
            f,
            ",read={}MB/s,write={}MB/s,overhead={}ms",
            rate(self.read_rate),
            rate(self.write_rate),
            ms(self.overhead_s)
        )
    }
}

impl FromStr for Measured {
    type Err = String;

    fn from_str(text: &str) -> Result<Measured, String> {
        let help = "give what `entrepot-lab bench device` prints, such as \
                    \"disk:seek=12ms,revolution=8ms,read=70MB/s,write=60MB/s\" or \
                    \"flash:latency=0.09ms,channels=16,read=2000MB/s,write=900MB/s\"";
        let (kind, words) = text.split_once(':').ok_or_else(|| help.to_owned())?;
        let mut one = match kind {
            "disk" => Measured::default(),
            "flash" => Measured { disk: None, latency_s: 1e-4, channels: 1.0, ..Measured::default() },
            _ => return Err(format!("there is no device `{kind}`; {help}")),
        };
        for word in words.split(',') {
            let (key, value) = word.trim().split_once('=').ok_or_else(|| format!("`{word}`: {help}"))?;
            let wrong = || format!("`{word}` cannot be read; {help}");
            let (mut seek, mut turn) = one.disk.unwrap_or_default();
            match key {
                "seek" if kind == "disk" => seek = seconds(value).ok_or_else(wrong)?,
                "revolution" if kind == "disk" => turn = seconds(value).ok_or_else(wrong)?,
                "latency" if kind == "flash" => one.latency_s = seconds(value).ok_or_else(wrong)?,
                "channels" if kind == "flash" => one.channels = number(value, 1.0, 4096.0).ok_or_else(wrong)?,
                "read" => one.read_rate = rate(value).ok_or_else(wrong)?,
                "write" => one.write_rate = rate(value).ok_or_else(wrong)?,
                "overhead" => one.overhead_s = seconds(value).ok_or_else(wrong)?,
                _ => return Err(format!("a {kind} has no `{key}`; {help}")),
            }
            if kind == "disk" {
                one.disk = Some((seek, turn));
                one.latency_s = (seek + turn) / 2.0;
            }
        }
        Ok(one)
    }
}

fn number(text: &str, least: f64, most: f64) -> Option<f64> {
    text.trim().parse::<f64>().ok().filter(|x| (least..=most).contains(x))
}

/// Parses a time span that names its unit.
fn seconds(text: &str) -> Option<f64> {
    units::span_ns(text).filter(|_| text.trim().ends_with('s')).map(|ns| ns as f64 / 1e9)
}

fn rate(text: &str) -> Option<f64> {
    units::bytes(text.trim().strip_suffix("/s")?).filter(|bytes| *bytes > 0).map(|bytes| bytes as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read_back() {
        for text in [
            "disk:seek=12ms,revolution=8ms,read=70MB/s,write=60MB/s,overhead=0.2ms",
            "flash:latency=0.09ms,channels=16,read=2000MB/s,write=900.5MB/s,overhead=0.02ms",
        ] {
            assert_eq!(text.parse::<Measured>().unwrap().to_string(), text);
        }
        for wrong in ["", "tape:read=1MB/s", "disk:seek=12", "disk:channels=3", "flash:latency=-1ms", "disk:read=0MB/s"]
        {
            assert!(wrong.parse::<Measured>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn mean_and_variance_of_a_positioning_are_kept_where_two_uniforms_can() {
        let (mean, variance) = (0.010, 0.010f64.powi(2) / 4.0);
        let (seek, turn) = Measured::disk_from(mean, variance, 1e8, 1e8, 0.0).disk.unwrap();
        assert!(((seek + turn) / 2.0 - mean).abs() < 1e-12);
        assert!(((seek * seek + turn * turn) / 12.0 - variance).abs() < 1e-12);
        let (seek, turn) = Measured::disk_from(mean, 0.0, 1e8, 1e8, 0.0).disk.unwrap();
        assert!((seek - turn).abs() < 1e-12, "no variance at all is no disk: the least there is");
    }

    #[test]
    fn the_model_of_a_measured_device_has_its_rate_and_positioning() {
        let one: Measured = "disk:seek=12ms,revolution=8ms,read=40.96MB/s,write=1MB/s,overhead=0ms".parse().unwrap();
        let at = Parameters { request_blocks: 100.0, rate: 1.0, ..one.parameters(8) };
        assert!((at.predict(1).service_s - 0.020).abs() < 1e-9, "10 ms, and 100 blocks at 10000 a second");
        let flash: Measured = "flash:latency=0.1ms,channels=8,read=409.6MB/s,write=1MB/s".parse().unwrap();
        let both = Measured::mean(&[one, flash, one]).unwrap();
        assert!(both.disk.is_some() && (both.latency_s - 0.0201 / 3.0).abs() < 1e-9);
    }
}

//! Speeds of the devices: from `volume.toml`, an earlier measurement, or a new one.
//!
//! A measurement writes an object, makes it durable, drops it from the kernel's cache and reads it back: some seconds
//! on a slow device, once in a target's life.

use super::Adapt;
use engine::file::Pool;
use engine::volume::Tiering as Section;
use meta::records;
use meta::state::State;
use object::target::{Handle, Medium, Target};
use policy::tier::cost::{Costs, DeviceCost};
use rustix::io::Errno;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Kind of the speeds' records in the state store.
const RECORDS: &str = "tiering-speed";
/// Bytes of one step of a measurement.
const STEP_BYTES: usize = 1 << 20;
/// Maximum of steps that a measurement writes, and of the time that writing or reading takes.
const STEPS_MAX: u64 = 16;
const SPAN_MAX: Duration = Duration::from_secs(2);

impl Adapt {
    /// The costs of both tiers; waits for measurements. `None` if a tier has no device that can be measured.
    pub(super) fn find_costs(&self, pool: &Pool) -> Option<Costs> {
        let Section { fast, slow, speeds, .. } = &self.settings.tiering;
        let of = |tier: u8| {
            let targets = self.recorder.targets.all();
            let targets: Vec<_> = targets.into_iter().filter(|target| target.tier() == tier).collect();
            let said = speeds.get(usize::from(tier)).copied().flatten();
            let measured = |target| if self.driver.stop.is_set() { None } else { speed(target, &self.state, pool) };
            let cost = said.or_else(|| mean(targets.iter().filter_map(measured)));
            Some((cost?, targets.len() as u32))
        };
        let ((fast, fast_devices), (slow, slow_devices)) = (of(*fast)?, of(*slow)?);
        Some(Costs { fast, slow, fast_devices, slow_devices })
    }
}

fn mean(all: impl Iterator<Item = DeviceCost>) -> Option<DeviceCost> {
    let all: Vec<DeviceCost> = all.collect();
    let of = |part: fn(&DeviceCost) -> f64| all.iter().map(part).sum::<f64>() / all.len() as f64;
    (!all.is_empty()).then(|| DeviceCost {
        read_latency_ns: of(|c| c.read_latency_ns),
        write_latency_ns: of(|c| c.write_latency_ns),
        read_ns_per_byte: of(|c| c.read_ns_per_byte),
        write_ns_per_byte: of(|c| c.write_ns_per_byte),
    })
}

/// Speed of one device: the recorded one, or the result of a new measurement, which is then recorded.
fn speed(target: &Arc<Target>, state: &Arc<dyn State>, pool: &Pool) -> Option<DeviceCost> {
    let remembered = || {
        let [read, write] = records::get::<[f64; 2]>(&**state, RECORDS, target.name()).ok()??;
        Some(DeviceCost::seconds_per_gb(read, write))
    };
    if let Some(cost) = remembered() {
        return Some(cost);
    }
    match measure(target, pool) {
        Ok(cost) => {
            let record = [cost.read_ns_per_byte, cost.write_ns_per_byte];
            if let Err(error) = records::put(&**state, RECORDS, target.name(), &record) {
                tracing::warn!("the speed of target {} is measured again next time: {error}", target.name());
            }
            Some(cost)
        }
        Err(error) => {
            tracing::warn!("target {} cannot be measured: {error}; give its tier a `speed`", target.name());
            None
        }
    }
}

/// Writes an object, drops its pages and reads it back, each step on a worker of the target with its deadline.
fn measure(target: &Target, pool: &Pool) -> Result<DeviceCost, object::target::TargetError> {
    let id = pool.next_object();
    let _making = pool.making.begin(id);
    let handle = target.run(move |medium: &dyn Medium| medium.create(id))?;
    let timed = |step: fn(&dyn Handle, u64) -> Result<(), Errno>| {
        let began = Instant::now();
        let mut steps = 0;
        while steps < STEPS_MAX && began.elapsed() < SPAN_MAX {
            let (handle, at) = (handle.clone(), steps * STEP_BYTES as u64);
            target.run(move |_: &dyn Medium| step(&*handle, at))?;
            steps += 1;
        }
        Ok(began.elapsed().as_nanos() as f64 / (steps * STEP_BYTES as u64) as f64)
    };
    let measured = timed(|handle, at| {
        handle.write_at(at, &noise(at))?;
        handle.sync()
    })
    .and_then(|write| {
        let forgot = handle.clone();
        target.run(move |_: &dyn Medium| {
            let Some(fd) = forgot.fd() else { return Ok(()) };
            rustix::fs::fadvise(fd, 0, None, rustix::fs::Advice::DontNeed)
        })?;
        let read = timed(|handle, at| handle.read_at(at, &mut vec![0; STEP_BYTES]).map(drop))?;
        Ok(DeviceCost::seconds_per_gb(read, write))
    });
    drop(target.run(move |medium: &dyn Medium| medium.remove(id)));
    measured
}

/// Bytes that no layer below can compress.
fn noise(seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut bytes = Vec::with_capacity(STEP_BYTES);
    while bytes.len() < STEP_BYTES {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_le_bytes());
    }
    bytes
}

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
    pub(super) fn find_costs(&self) -> Option<Costs> {
        let Section { fast, slow, speeds, .. } = &self.settings.tiering;
        let of = |tier: u8| {
            let targets = self.recorder.targets.all();
            let targets: Vec<_> = targets.into_iter().filter(|target| target.tier() == tier).collect();
            let said = speeds.get(usize::from(tier)).copied().flatten();
            let speed = |target| speed(target, &self.state, self.files.pool());
            let measured = |target| if self.driver.stop.is_set() { None } else { speed(target) };
            let cost = said.or_else(|| mean(targets.iter().filter_map(measured)));
            Some((cost?, targets.len() as u32))
        };
        let ((fast, fast_devices), (slow, slow_devices)) = (of(*fast)?, of(*slow)?);
        Some(Costs { fast, slow, fast_devices, slow_devices })
    }
}

/// Mean of the devices' speeds.
fn mean(all: impl Iterator<Item = [f64; 2]>) -> Option<DeviceCost> {
    let all: Vec<_> = all.collect();
    let [read, write] = [0, 1].map(|at| all.iter().map(|speed| speed[at]).sum::<f64>() / all.len() as f64);
    (!all.is_empty()).then(|| DeviceCost::seconds_per_gb(read, write))
}

/// Speed of one device: the recorded one, or the result of a new measurement, which is then recorded. Nanoseconds per
/// byte read and per byte written.
fn speed(target: &Arc<Target>, state: &Arc<dyn State>, pool: &Pool) -> Option<[f64; 2]> {
    if let Ok(Some(speed)) = records::get(&**state, RECORDS, target.name()) {
        return Some(speed);
    }
    match measure(target, pool) {
        Ok(speed) => {
            if let Err(error) = records::put(&**state, RECORDS, target.name(), &speed) {
                tracing::warn!("the speed of target {} is measured again next time: {error}", target.name());
            }
            Some(speed)
        }
        Err(error) => {
            tracing::warn!("target {} cannot be measured: {error}; give its tier a `speed`", target.name());
            None
        }
    }
}

/// Writes an object, drops its pages and reads it back, each step on a worker of the target with its deadline.
fn measure(target: &Target, pool: &Pool) -> Result<[f64; 2], object::target::TargetError> {
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
        Ok([read, write])
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

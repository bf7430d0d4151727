//! Periodic work: measures the devices' free space, records the period, and trims.

use super::Burst;
use super::record::Period;
use policy::burst::buffer;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Last runs of the periodic work.
#[derive(Default)]
pub struct Tended {
    /// Expected bytes of a period, as last recorded.
    expected: Option<f64>,
    trimmed: Option<Instant>,
    /// Running processes that trim a device.
    trimming: Vec<Child>,
}

impl Burst {
    /// Does the periodic work, after the loop has advanced the machine's time.
    pub(in crate::adapt) fn tend(&self) {
        self.tend_shared();
        if !self.decides() {
            return;
        }
        let expected = self.admission(|admission| admission.buffer().period().1);
        let (began, trims) = {
            let mut tended = self.tended.lock();
            tended.trimming.retain_mut(|child| self.still_trims(child));
            let trimmed = *tended.trimmed.get_or_insert_with(Instant::now);
            let trims = !self.settings.trim.is_zero() && trimmed.elapsed() >= self.settings.trim;
            if trims {
                tended.trimmed = Some(Instant::now());
            }
            (tended.expected.replace(expected).is_some_and(|before| before != expected), trims)
        };
        if began {
            self.remember_period();
        }
        if trims {
            self.trim();
        }
    }

    /// Measures the free space, which bounds the buffer: other programs may write to its devices, too.
    pub(super) fn look_at_space(&self) {
        if !self.decides() {
            return;
        }
        self.look_at_capacity();
        let free = self.volume.targets().measure_soon(self.fast);
        self.tell_buffer(buffer::Event::Free { bytes: free as f64 });
    }

    /// Reports to the machine whether the capacity tier takes new objects.
    pub(super) fn look_at_capacity(&self) {
        let below = self.volume.targets().all().into_iter().filter(|target| target.tier() == self.settings.capacity);
        let below: Vec<_> = below.map(|target| target.state()).collect();
        let usable = below.iter().any(|state| state.accepts_new_objects());
        let whole = !below.contains(&object::target::State::Failed);
        self.tell_buffer(buffer::Event::Capacity { usable, whole });
    }

    /// Records the bytes written and expected in this period.
    pub(super) fn remember_period(&self) {
        let (dwsf, dwpp) = self.admission(|admission| admission.buffer().period());
        self.tended.lock().expected = Some(dwpp);
        if let Err(error) = (Period { dwsf, dwpp }).put(&*self.state) {
            tracing::warn!("the period of the burst buffer could not be saved: {error}");
        }
    }

    /// Trims the free blocks of the fast tier's devices, in processes of their own.
    fn trim(&self) {
        let config = self.volume.config();
        let of_tier = config.targets.iter().filter(|target| target.tier == self.fast);
        for path in of_tier.filter_map(|target| target.directory()) {
            let mut command = Command::new("fstrim");
            command.arg(path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            match command.spawn() {
                Ok(child) => self.tended.lock().trimming.push(child),
                Err(error) => tracing::warn!("fstrim cannot be run: {error}; nothing is trimmed"),
            }
        }
    }

    /// Whether `fstrim` still runs; counts it once it has succeeded.
    fn still_trims(&self, child: &mut Child) -> bool {
        match child.try_wait() {
            Ok(None) => return true,
            Ok(Some(status)) if status.success() => drop(self.counts.trims.fetch_add(1, Ordering::Relaxed)),
            Ok(Some(status)) => tracing::debug!("fstrim: {status}: the file system or its device cannot"),
            Err(error) => tracing::warn!("the end of fstrim is unknown: {error}"),
        }
        false
    }
}

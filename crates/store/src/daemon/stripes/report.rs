//! What the stripes tell people: `entrepot status` and `entrepot explain`.

use super::{Stripes, devices, shown};
use crate::daemon::Core;
use policy::FileId;
use policy::stripe::advice::Mode;
use serde_json::{Value, json};

impl Stripes {
    /// For `entrepot status`; nothing without sensors.
    pub fn status(&self, core: &Core) -> Option<Value> {
        if !self.section.sensors {
            return None;
        }
        let mut machine = self.machine.lock();
        let (load, writes) = machine.load(self.now());
        let (known, placement) = (machine.len(), machine.placement(None));
        drop(machine);
        let mode = match self.section.mode {
            Mode::Fixed(_) => "fixed",
            Mode::Model => "model",
            Mode::Fuzzy => "fuzzy",
            Mode::ModelFuzzy => "model+fuzzy",
        };
        let (device, count, measured) = devices(core.volume.config());
        let decided = self.decided.lock();
        let decisions = decided.iter().map(|(at_ns, text)| json!({"at_ms": at_ns / 1_000_000, "text": text}));
        Some(json!({
            "mode": mode,
            "requests_per_s": load.rate,
            "request_bytes": load.bytes,
            "writes_share": writes,
            "files": known,
            "files_with_forks": self.forks.count(),
            "new_files": placement.map(|shape| shown(&shape)),
            "device": device.to_string(),
            "device_measured": measured,
            "targets": count,
            "decisions": decisions.collect::<Vec<_>>(),
        }))
    }

    /// For `entrepot explain`.
    pub fn sentences(&self, id: FileId, mirrors: usize) -> Vec<String> {
        let Some(view) = self.machine.lock().view(self.now(), id) else { return Vec::new() };
        let mut told = Vec::new();
        if view.load.rate > 0.0 {
            let mut line = format!(
                "Lately it is asked {:.1} times a second for {:.0} KiB, {:.0} % of it writing",
                view.load.rate,
                view.load.bytes / 1024.0,
                view.writes * 100.0
            );
            if view.response_s.is_finite() {
                line += &format!("; as it lies, {:.1} ms are expected for one", view.response_s * 1e3);
            }
            told.push(line + ".");
        }
        if let Some(pattern) = view.pattern {
            told.push(format!("Its last requests look like this: {pattern}."));
        }
        if self.forks.has(id) {
            let keep = self.forks.keep(id, mirrors);
            told.push(format!(
                "{} of its {mirrors} mirrors are forks: each read takes the one that answers first.",
                mirrors - keep
            ));
        }
        if let Some((at, what, why)) = view.last {
            let ago = self.now().since(at).as_secs_f64();
            told.push(format!("{ago:.0} s ago it {what}: {why}."));
        }
        told
    }
}

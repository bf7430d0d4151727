//! The workload in virtual time.

use crate::workload::Workload;
use crate::{Figures, Policy};
use sim::setup::{LevelSetup, Setup};
use sim::simulate;
use sim::trace::{Accounting, Error, Reader, Record};

/// The emulated array, in the words of both worlds.
pub fn array() -> Setup {
    Setup { disk: "cheetah9lp".into(), disks: 6, raid: Some(5), disk_bus_mb_s: Some(80.0), ..Setup::default() }
}

pub fn run(workload: &Workload, policy: &Policy, blocks: u64) -> Figures {
    let cache = LevelSetup {
        prefetch: policy.prefetch.into(),
        trigger: Some(policy.trigger.into()),
        size: (blocks * workload.streams() as u64).to_string(),
        ..LevelSetup::default()
    };
    // The level that the clients share is the mount's; what a client has for itself holds one request.
    let own = LevelSetup { prefetch: "none".into(), size: "32".into(), ..LevelSetup::default() };
    let setup = Setup {
        levels: vec![own, cache],
        alpha: "0".into(),
        beta: "0".into(),
        closed: !workload.copies,
        think: "33ms".into(),
        paced: workload.copies,
        until: Some(format!("{}s", workload.seconds)),
        client_each: true,
        ..array()
    };
    let records = &workload.records;
    let open = || Ok::<Box<dyn Reader>, Error>(Box::new(Replayed::new(records.clone())));
    let survey = simulate::survey(&setup, &[&open]).expect("a census of generated records");
    let report = simulate::run(&setup, &survey, &[&open]).expect("a simulation").report;
    let level = &report.levels[1];
    let share = |part: u64| part as f64 / level.prefetched.max(1) as f64;
    let request_bytes = |client: usize| {
        let of_client = records.iter().filter(|record| record.client as usize == client);
        let (count, bytes) = of_client.fold((0u64, 0u64), |(n, sum), r| (n + 1, sum + u64::from(r.length)));
        bytes as f64 / count.max(1) as f64
    };
    let seconds = workload.seconds as f64;
    let each = report.clients.iter().enumerate();
    Figures {
        streams_mb_s: each.map(|(n, times)| times.count as f64 * request_bytes(n) / seconds / 1e6).collect(),
        mb_s: report.read_blocks as f64 * 4096.0 / seconds / 1e6,
        response_ms: report.reads.mean_ms,
        hit_ratio: level.hit_ratio,
        late: share(level.prefetch_late),
        wasted: share(level.prefetch_wasted),
        ahead_kib: None,
    }
}

/// Records that are there already, as a trace.
struct Replayed {
    records: std::vec::IntoIter<Record>,
    accounting: Accounting,
}

impl Replayed {
    fn new(records: Vec<Record>) -> Replayed {
        Replayed { records: records.into_iter(), accounting: Accounting::default() }
    }
}

impl Iterator for Replayed {
    type Item = Result<Record, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let record = self.records.next()?;
        self.accounting.lines += 1;
        self.accounting.records += 1;
        Some(Ok(record))
    }
}

impl Reader for Replayed {
    fn accounting(&self) -> &Accounting {
        &self.accounting
    }
}

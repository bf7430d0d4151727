//! Reads of two sizes on a file with two forks, on eight drives in virtual time: with their arms, buffers and
//! schedulers, which the model that plans the forks and chooses among them knows nothing of.

use emulate::device::Device;
use policy::Time;
use policy::stripe::device::Measured;
use policy::stripe::forks::{Chooser, Planner, Queue, Shape};
use policy::stripe::profile::{Class, class_of};
use sim::setup::Setup;
use std::collections::HashMap;

const DRIVES: u64 = 8;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Reads per second, and their bytes.
const MIX: [(f64, u64); 2] = [(200.0, 64 * KIB), (13.0, 512 * KIB)];
const SECONDS: f64 = 60.0;
/// Seconds before the measurement.
const WARM_UP_SECONDS: f64 = 2.0;

/// The same numbers for the same seed.
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }
}

/// Part of a read on one drive: offset within the copy, and length.
struct Part {
    drive: usize,
    offset: u64,
    bytes: u64,
}

/// The parts of a read on a copy with this striping unit that begins on drive `first`.
fn parts(unit: u64, first: u64, offset: u64, bytes: u64) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let mut at = offset;
    while at < offset + bytes {
        let end = ((at / unit + 1) * unit).min(offset + bytes);
        let drive = ((at / unit + first) % DRIVES) as usize;
        match parts.iter_mut().find(|part| part.drive == drive) {
            Some(part) => part.bytes += end - at,
            None => parts.push(Part { drive, offset: at / unit / DRIVES * unit + at % unit, bytes: end - at }),
        }
        at = end;
    }
    parts
}

struct World {
    drives: Vec<Device>,
    queues: Vec<Queue>,
    /// Bytes of each part under way, by drive and read.
    under_way: HashMap<(usize, u64), u64>,
    /// When each read began, how many of its parts are under way, and when the last one ended that did.
    reads: HashMap<u64, (Time, usize, Time)>,
    times: Vec<f64>,
}

impl World {
    fn advance(&mut self, now: Time) {
        for (n, drive) in self.drives.iter_mut().enumerate() {
            drive.advance(now);
            for done in drive.take_done() {
                let bytes = self.under_way.remove(&(n, done.tag)).expect("it was asked for");
                self.queues[n].operations -= 1;
                self.queues[n].bytes -= bytes;
                let (began, left, last) = self.reads.get_mut(&done.tag).expect("it was asked for");
                (*left, *last) = (*left - 1, done.at.max(*last));
                if *left == 0 {
                    if began.as_secs_f64() >= WARM_UP_SECONDS {
                        self.times.push(last.since(*began).as_secs_f64());
                    }
                    self.reads.remove(&done.tag);
                }
            }
        }
    }
}

/// A chooser among copies with these units, under this load.
fn chooser(units: &[u64], drive: Measured) -> Chooser {
    let planner = Planner::new(drive.parameters(DRIVES as u32), 4096);
    let class = |&(rate, bytes): &(f64, u64)| Class { class: class_of(bytes), rate, bytes: bytes as f64 };
    let classes: Vec<Class> = MIX.iter().map(class).collect();
    let shapes: Vec<Shape> = units.iter().map(|&unit_bytes| Shape { devices: DRIVES as u32, unit_bytes }).collect();
    let found = planner.assign(&classes, &shapes, Default::default());
    let stripes: f64 =
        classes.iter().zip(&found.of).map(|(of, &fork)| of.rate * f64::from(shapes[fork].spans(of.bytes))).sum();
    planner.chooser(found.utilisation * DRIVES as f64 / stripes, found.utilisation)
}

/// Mean response time in milliseconds on a file of so many bytes with copies of these units, one behind the other on
/// each drive.
fn mean_ms(bytes: u64, units: &[u64]) -> f64 {
    let storage = || Setup { disk: "cheetah9lp".into(), ..Setup::default() }.storage().expect("a drive");
    let mut world = World {
        drives: (0..DRIVES).map(|_| Device::new(storage(), 128)).collect(),
        queues: vec![Queue::default(); DRIVES as usize],
        under_way: HashMap::new(),
        reads: HashMap::new(),
        times: Vec::new(),
    };
    // As `entrepot-lab bench device` measures such a drive.
    let by = chooser(units, Measured::disk(0.00462, 0.00462, 4.9e6, 4.9e6, 0.000_006));
    let rate: f64 = MIX.iter().map(|of| of.0).sum();
    let (mut random, mut now_s) = (Random(1), 0.0);
    for tag in 0.. {
        now_s += -random.unit().ln() / rate;
        if now_s > SECONDS {
            break;
        }
        let now = Time((now_s * 1e9) as u64);
        world.advance(now);
        let len = if random.unit() * rate < MIX[0].0 { MIX[0].1 } else { MIX[1].1 };
        let offset = (random.unit() * (bytes / len) as f64) as u64 * len;
        let choices = units.iter().enumerate().map(|(fork, &unit)| {
            let parts = parts(unit, 3 * fork as u64, offset, len);
            (by.cost_s(len, parts.iter().map(|part| world.queues[part.drive])), fork as u64, parts)
        });
        let (_, fork, parts) = choices.min_by(|a, b| a.0.total_cmp(&b.0)).expect("a copy");
        world.reads.insert(tag, (now, parts.len(), now));
        for part in parts {
            world.queues[part.drive].operations += 1;
            world.queues[part.drive].bytes += part.bytes;
            world.under_way.insert((part.drive, tag), part.bytes);
            let first = (MIB + fork * bytes / DRIVES + part.offset) / 512;
            world.drives[part.drive].submit(now, tag, &[(first, part.bytes / 512)], false, 0);
        }
    }
    world.times.iter().sum::<f64>() * 1e3 / world.times.len() as f64
}

#[test]
fn two_forks_are_faster_than_the_better_one_unless_the_drives_hold_a_file_in_their_buffers() {
    let gain = |mib: u64| {
        let (wide, narrow) = (32 * KIB, 128 * KIB);
        let alone = [wide, narrow].map(|unit| mean_ms(mib * MIB, &[unit]));
        let both = mean_ms(mib * MIB, &[narrow, wide]);
        println!("{mib} MiB: 32 KiB {:.1} ms, 128 KiB {:.1} ms, both {both:.1} ms", alone[0], alone[1]);
        alone[0].min(alone[1]) / both
    };
    let (small, large) = (gain(16), gain(128));
    assert!(large > 1.15, "{large}");
    assert!(small < large, "2 MiB on each drive, of which its buffer holds 0.8: {small}, {large}");
}

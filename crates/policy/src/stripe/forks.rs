//! Forks: copies of one file with different striping, and the choice among them for a request.
//!
//! ```text
//!   shape    devices = 4, unit = 64 KiB        devices = 4, unit = 256 KiB
//!            [ 0 | 64 | 128 | 192 ] ...        [    0     |    256   |    512   |    768   ] ...
//!   256 KiB  spans 4 devices                   spans 1
//! ```
//! A request of `bytes` bytes spans `bytes / unit` devices, at most all.
//!
//! **Planning** ([`Planner`]). Classes of requests share the devices. Each class is predicted beside the load of the
//! others, and gets the fork with the smallest predicted response time. This changes the load of the others, so the
//! choice is repeated until it is stable (at most `ROUNDS_MAX` times). With several forks, the same bytes lie on
//! different devices, and requests use those with shorter queues. This shortens the wait as in the supermarket model.
//!
//! **Choosing** ([`Chooser`]). Each read takes the fork with the smallest predicted response time at the present
//! queues, plus the delay that it causes for later requests.
//!
//! Source: Simitci & Reed, sections 3 and 4; the reference, sections 9 and 10.2. The wait with choices: M.
//! Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing" (1996). Their combination, and the coupling of
//! classes, are ours.

use super::device::BLOCK_BYTES;
use super::model::{Device, OtherLoad, Parameters, Scaling};
use super::profile::Class;
use crate::layout::{Mirror, Segment};

/// Most repetitions of the choice. A guess: with two forks it is stable after two or three.
const ROUNDS_MAX: usize = 8;
/// Most shapes considered for one file.
const CANDIDATES_MAX: usize = 40;
/// Share of the requests and of the work below which a class is not planned for.
const SHARE_MIN: f64 = 0.02;

/// Striping of one copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape {
    /// Number of devices that it lies on.
    pub devices: u32,
    /// Striping unit, in bytes.
    pub unit_bytes: u64,
}

impl Shape {
    /// Returns the shape of most of a mirror of a file of `bytes` bytes: that of its longest segment within the file.
    pub fn of(mirror: &Mirror, bytes: u64) -> Shape {
        let len = |segment: &&Segment| segment.end.min(bytes.max(1)).saturating_sub(segment.start);
        let longest = mirror.segments.iter().max_by_key(len);
        longest.map_or(Shape { devices: 1, unit_bytes: 4096 }, |segment| Shape {
            devices: segment.objects.len() as u32,
            unit_bytes: segment.stripe_size,
        })
    }

    /// Returns the number of devices that a request spans, if it starts with a unit.
    pub fn spans(&self, bytes: f64) -> u32 {
        let units = (bytes / self.unit_bytes.max(1) as f64).ceil();
        (units as u32).clamp(1, self.devices.max(1))
    }
}

/// Assignment of classes to forks, with the expected result.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// The fork of each class, by index.
    pub of: Vec<usize>,
    /// Mean response time over all requests, in seconds; infinite if the devices cannot bear the load.
    pub mean_s: f64,
    /// Utilisation of the devices by these classes.
    pub utilisation: f64,
}

impl Assignment {
    /// Returns the share by which response times are shorter than with another.
    pub fn gain_over(&self, other: &Assignment) -> f64 {
        match (self.mean_s.is_finite(), other.mean_s.is_finite()) {
            (true, true) => 1.0 - self.mean_s / other.mean_s,
            (true, false) => 1.0,
            (false, true) => -1.0,
            (false, false) => 1.0 - self.utilisation / other.utilisation,
        }
    }
}

/// Predicts the response times of request classes on shapes.
#[derive(Clone, Debug)]
pub struct Planner {
    parameters: Parameters,
    granularity_bytes: u64,
    /// Mean of the slowest positioning, by width.
    slowest: Vec<f64>,
}

impl Planner {
    /// Makes a planner for these devices; rate and request size of the parameters are not used.
    ///
    /// Response times are scaled as in [`Scaling::Positioning`], which is right for queues within a few percent.
    pub fn new(parameters: Parameters, granularity_bytes: u64) -> Planner {
        let parameters = Parameters { scaling: Scaling::Positioning, ..parameters };
        let slowest = (1..=parameters.devices).map(|width| parameters.slowest_positioning(width)).collect();
        Planner { parameters, granularity_bytes: granularity_bytes.max(1), slowest }
    }

    fn at(&self, class: &Class, shape: &Shape) -> (Parameters, u32) {
        let request_blocks = class.bytes / BLOCK_BYTES;
        let devices = shape.devices.clamp(1, self.parameters.devices);
        (Parameters { rate: class.rate, request_blocks, devices, ..self.parameters }, shape.spans(class.bytes))
    }

    /// Returns the predicted mean response time of a class on a shape, beside the other load of the devices. `choices`:
    /// number of forks.
    pub fn response_s(&self, class: &Class, shape: &Shape, beside: OtherLoad, choices: usize) -> f64 {
        let (at, width) = self.at(class, shape);
        let said = at.predict_beside(width, beside, self.slowest.get(width as usize - 1).copied());
        if choices < 2 || !said.request_s.is_finite() {
            return said.request_s;
        }
        let scale = 2.0 * f64::from(width) / (f64::from(width) + 1.0);
        said.request_s - scale * said.wait_s * (1.0 - wait_with(choices, said.utilisation))
    }

    /// Returns the load that a class on a shape adds for others.
    pub fn load(&self, class: &Class, shape: &Shape) -> OtherLoad {
        let (at, width) = self.at(class, shape);
        at.load(width)
    }

    /// Assigns classes to shapes (at least one).
    pub fn assign(&self, classes: &[Class], shapes: &[Shape], beside: OtherLoad) -> Assignment {
        let loads: Vec<Vec<OtherLoad>> =
            classes.iter().map(|class| shapes.iter().map(|shape| self.load(class, shape)).collect()).collect();
        let least = |loads: &Vec<OtherLoad>| {
            let busy = |at: &usize| loads[*at].utilisation;
            (0..shapes.len()).min_by(|a, b| busy(a).total_cmp(&busy(b))).unwrap_or(0)
        };
        let mut of: Vec<usize> = loads.iter().map(least).collect();
        let others = |of: &[usize], but: usize| {
            let all = of.iter().enumerate().filter(|(class, _)| *class != but);
            all.fold(beside, |sum, (class, fork)| sum + loads[class][*fork])
        };
        for _ in 0..ROUNDS_MAX {
            let before = of.clone();
            for (class, load) in classes.iter().zip(&loads).enumerate().map(|(n, (class, load))| ((n, class), load)) {
                let (n, class) = class;
                let around = others(&of, n);
                let response =
                    |fork: usize| (self.response_s(class, &shapes[fork], around, shapes.len()), load[fork].utilisation);
                let best = (0..shapes.len()).min_by(|a, b| {
                    let (a, b) = (response(*a), response(*b));
                    a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
                });
                of[n] = best.unwrap_or(0);
            }
            if of == before {
                break;
            }
        }
        let requests: f64 = classes.iter().map(|class| class.rate).sum();
        let waited: f64 = classes
            .iter()
            .enumerate()
            .map(|(n, class)| class.rate * self.response_s(class, &shapes[of[n]], others(&of, n), shapes.len()))
            .sum();
        let utilisation = of.iter().enumerate().map(|(class, fork)| loads[class][*fork].utilisation).sum();
        Assignment { of, mean_s: if requests > 0.0 { waited / requests } else { 0.0 }, utilisation }
    }

    /// Returns the striping unit with which a request of `bytes` bytes spans `width` devices.
    pub fn unit(&self, bytes: f64, width: u32) -> u64 {
        let unit = (bytes / f64::from(width.max(1))).ceil() as u64;
        unit.div_ceil(self.granularity_bytes).max(1) * self.granularity_bytes
    }

    /// Returns the candidate shapes: every class that counts, split over each width.
    fn candidates(&self, classes: &[Class], widths: &[u32]) -> Vec<Shape> {
        let devices = self.parameters.devices;
        let whole = Shape { devices, unit_bytes: u64::MAX };
        let work = |class: &Class| self.load(class, &whole).utilisation;
        let (requests, all): (f64, f64) =
            (classes.iter().map(|class| class.rate).sum(), classes.iter().map(work).sum());
        let counts = |class: &&Class| class.rate >= requests * SHARE_MIN || work(class) >= all * SHARE_MIN;
        let mut units: Vec<u64> = classes
            .iter()
            .filter(counts)
            .flat_map(|class| widths.iter().map(|&width| self.unit(class.bytes, width)))
            .collect();
        units.sort_unstable();
        units.dedup();
        // If there are too many, neighbouring ones are as good.
        let step = units.len().div_ceil(CANDIDATES_MAX).max(1);
        units.into_iter().step_by(step).map(|unit_bytes| Shape { devices, unit_bytes }).collect()
    }

    /// Returns the shape that, added to the existing ones, makes response times least.
    pub fn best_beside(
        &self,
        classes: &[Class],
        there: &[Shape],
        widths: &[u32],
        beside: OtherLoad,
    ) -> Option<(Shape, Assignment)> {
        let mut best: Option<(Shape, Assignment)> = None;
        for shape in self.candidates(classes, widths).into_iter().rev().filter(|shape| !there.contains(shape)) {
            let shapes: Vec<Shape> = there.iter().copied().chain([shape]).collect();
            let found = self.assign(classes, &shapes, beside);
            if best.as_ref().is_none_or(|(_, least)| found.gain_over(least) > 1e-9) {
                best = Some((shape, found));
            }
        }
        best
    }
}

/// Returns the wait with `d` choices, as a share of that with one. By the supermarket model: `sum of u^((d^i - 1) / (d
/// - 1))` from the second term on, over `u^2 / (1 - u)`.
fn wait_with(d: usize, u: f64) -> f64 {
    let u = u.clamp(1e-6, 0.999);
    let (mut exponent, mut sum) = (1.0, 0.0);
    for _ in 0..32 {
        exponent = exponent * d as f64 + 1.0;
        sum += u.powf(exponent);
    }
    (sum / (u * u / (1.0 - u))).min(1.0)
}

/// Chooses among forks, request by request. See the module.
#[derive(Clone, Debug, PartialEq)]
pub struct Chooser {
    slowest: Vec<f64>,
    positioning_s: f64,
    byte_s: f64,
    overhead_s: f64,
    channels: f64,
    /// Mean service time of an operation on a device, in seconds.
    stripe_s: f64,
    /// `busy / (1 - busy)`: number of arrivals at a device, for each waiting or added operation, before it is idle
    /// again.
    price: f64,
}

/// Pending work of a device: waiting and running operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// Number of operations.
    pub operations: u32,
    /// Bytes that they move.
    pub bytes: u64,
}

impl Planner {
    /// Makes a chooser for devices with a mean operation time of `stripe_s` and this utilisation.
    pub fn chooser(&self, stripe_s: f64, utilisation: f64) -> Chooser {
        let of = &self.parameters;
        let (byte_s, channels) = match of.device {
            Device::Disk { revolution_s, track_blocks, .. } => (revolution_s / track_blocks, 1.0),
            Device::Flash { block_s, channels, .. } => (block_s, channels.max(1.0)),
        };
        let sizeless = Parameters { request_blocks: 0.0, overhead_s: 0.0, ..*of };
        let busy = utilisation.clamp(0.0, 0.95);
        Chooser {
            slowest: self.slowest.clone(),
            positioning_s: sizeless.predict(1).service_s,
            byte_s: (byte_s + of.interface_s) / BLOCK_BYTES,
            overhead_s: of.overhead_s,
            channels,
            stripe_s,
            price: busy / (1.0 - busy),
        }
    }
}

impl Chooser {
    /// Returns the time in seconds until a device with this queue starts a new operation.
    fn wait_s(&self, queue: Queue) -> f64 {
        (f64::from(queue.operations) * self.positioning_s + queue.bytes as f64 * self.byte_s) / self.channels
    }

    /// Returns the cost in seconds of a read of `bytes` bytes from devices with these queues, one for each device that
    /// it spans.
    ///
    /// Work of `w` behind a queue of `u` keeps a device busy for `(u + w) / (1 - busy)` more. Arrivals in the first
    /// part of this time wait `w` longer, those in the second part half of that on average. `busy / stripe_s`
    /// operations arrive in a second.
    pub fn cost_s(&self, bytes: u64, queues: impl Iterator<Item = Queue>) -> f64 {
        let (mut span, mut longest, mut sum) = (0usize, 0.0f64, 0.0);
        for queue in queues {
            let wait = self.wait_s(queue);
            (span, longest, sum) = (span + 1, longest.max(wait), sum + wait);
        }
        let span = span.clamp(1, self.slowest.len());
        let (wide, bytes) = (span as f64, bytes as f64);
        let transfer = bytes * self.byte_s;
        let service = self.slowest[span - 1] + transfer / wide + self.overhead_s * wide;
        let work = (self.positioning_s + self.overhead_s * wide + transfer / wide) / self.channels;
        longest + service + self.price * work * (sum + wide * work / 2.0) / self.stripe_s.max(1e-9)
    }
}

#[cfg(test)]
mod tests;

//! Assignments of the planner of forks, and the fork that a read takes.

use super::*;
use crate::stripe::device::Measured;
use crate::stripe::profile::class_of;

fn class(rate: f64, kib: u64) -> Class {
    Class { class: class_of(kib << 10), rate, bytes: (kib << 10) as f64 }
}

fn planner(devices: u32) -> Planner {
    Planner::new(Measured::disk(0.012, 0.008, 20e6, 20e6, 0.0).parameters(devices), 4096)
}

const WIDTHS: [u32; 4] = [1, 2, 4, 8];

#[test]
fn a_request_spans_what_its_bytes_need() {
    let shape = Shape { devices: 4, unit_bytes: 64 << 10 };
    assert_eq!([1.0, 65536.0, 65537.0, 262_144.0, 1e9].map(|bytes| shape.spans(bytes)), [1, 1, 2, 4, 4]);
}

#[test]
fn one_class_gets_what_the_model_says() {
    for (rate, kib) in [(2.0, 1024), (150.0, 32), (20.0, 512)] {
        let planner = planner(8);
        let at = Parameters { rate, request_blocks: kib as f64 / 4.0, ..planner.parameters };
        let (shape, found) = planner.best_beside(&[class(rate, kib)], &[], &WIDTHS, OtherLoad::default()).unwrap();
        let widths = WIDTHS.map(|width| (at.predict(width).request_s, width));
        let best = widths.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
        assert_eq!(shape.spans((kib << 10) as f64), best.1, "{rate}/s of {kib} KiB");
        assert!((found.mean_s - best.0).abs() < 1e-12);
    }
}

#[test]
fn two_forks_serve_a_mix_better_than_the_best_single_one() {
    let planner = planner(8);
    let mix = [class(140.0, 64), class(20.0, 512)];
    let (single, alone) = planner.best_beside(&mix, &[], &WIDTHS, OtherLoad::default()).unwrap();
    let (second, both) = planner.best_beside(&mix, &[single], &WIDTHS, OtherLoad::default()).unwrap();
    assert!(both.gain_over(&alone) > 0.05, "{single:?} {alone:?}, {second:?} {both:?}");
    assert_ne!(single, second, "a fork that is striped in the same way would lie on the same devices");
}

#[test]
fn waits_with_choices_are_those_of_the_supermarket_model() {
    // Two choices at half load: 0.5^3 + 0.5^7 + 0.5^15 + ... over 0.5.
    assert!((wait_with(2, 0.5) - (0.125 + 0.0078125 + 0.000030517578125) / 0.5).abs() < 1e-6);
    assert!((wait_with(1, 0.5) - 1.0).abs() < 1e-6, "one choice is none");
    assert!(wait_with(3, 0.5) < wait_with(2, 0.5));
}

#[test]
fn a_read_takes_the_shorter_queue_and_the_width_that_its_size_wants() {
    let chooser = planner(8).chooser(0.015, 0.1);
    let cost = |chooser: &Chooser, bytes: u64, span: usize, operations: u32| {
        let queue = Queue { operations, bytes: u64::from(operations) * (64 << 10) };
        chooser.cost_s(bytes, std::iter::repeat_n(queue, span))
    };
    let (narrow, wide) =
        (|bytes, queue| cost(&chooser, bytes, 1, queue), |bytes, queue| cost(&chooser, bytes, 8, queue));
    assert!(narrow(32 << 10, 0) < wide(32 << 10, 0) && wide(1 << 20, 0) < narrow(1 << 20, 0));
    assert!(wide(32 << 10, 0) < narrow(32 << 10, 3) && narrow(1 << 20, 0) < wide(1 << 20, 9));
    let busy = planner(8).chooser(0.015, 0.9);
    assert!(cost(&busy, 256 << 10, 8, 1) > cost(&busy, 256 << 10, 1, 1), "wide work is dear while all are busy");
    // An operation of a megabyte occupies a device longer than three of a page.
    let of = |operations, bytes| narrow_behind(&chooser, Queue { operations, bytes });
    assert!(of(1, 1 << 20) > of(3, 3 * 4096), "{} {}", of(1, 1 << 20), of(3, 3 * 4096));
}

fn narrow_behind(chooser: &Chooser, queue: Queue) -> f64 {
    chooser.cost_s(32 << 10, std::iter::once(queue))
}

#[test]
fn load_beside_makes_the_wide_fork_dear() {
    let planner = planner(8);
    let forks = [Shape { devices: 8, unit_bytes: 256 << 10 }, Shape { devices: 8, unit_bytes: 32 << 10 }];
    let at = |utilisation| {
        let moment_s = utilisation * 0.012;
        planner.assign(&[class(20.0, 256)], &forks, OtherLoad { utilisation, moment_s }).of[0]
    };
    assert_eq!((at(0.0), at(0.7)), (1, 0), "wide while the devices are idle, narrow while they are busy");
}

#[test]
fn too_much_load_is_compared_by_the_work() {
    let planner = planner(2);
    let flood = [class(5000.0, 64)];
    let narrow = planner.assign(&flood, &[Shape { devices: 2, unit_bytes: 65536 }], OtherLoad::default());
    let wide = planner.assign(&flood, &[Shape { devices: 2, unit_bytes: 4096 }], OtherLoad::default());
    assert!(narrow.mean_s.is_infinite() && narrow.gain_over(&wide) > 0.0);
    let (shape, _) = planner.best_beside(&flood, &[], &WIDTHS, OtherLoad::default()).unwrap();
    assert_eq!(shape.spans(65536.0), 1);
}

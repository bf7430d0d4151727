//! Counters of the carriers.

use crate::adapt::{Adapt, Devices, Parts, Settings};
use engine::mover::Mover;
use engine::stage::world::World;
use engine::stats::Metric;
use policy::stripe::forks::Shape;
use policy::stripe::striper::{Cause, Why};
use policy::volume::ownership::Mechanism;
use policy::volume::{Change, Purpose, Reason, Verb};
use policy::{FileId, Time};
use std::fs::File as Plain;
use std::sync::Arc;

#[test]
fn a_change_of_stripes_that_fails_is_counted() {
    let world = World::new();
    let (volume, files) = world.parts();
    let config = volume.config();
    let settings = Settings {
        tiering: config.tiering.clone(),
        replicas: policy::volume::ReplicasConfig::new(0),
        stripes: Some(config.stripes.clone()),
        devices: Devices::of(config),
        segment_bytes: config.layout.segment,
        concurrent: 1,
    };
    let (state, stats) = (volume.state().clone(), volume.stats().clone());
    let mover = Arc::new(Mover::new(files.pool().clone(), state.clone(), None));
    let parts = Parts { files: files.clone(), mover, state, stats: stats.clone(), burst: None };
    let adapt = Adapt::new(settings, None, parts, Box::new(|| Time::ZERO)).expect("a state store");

    let path = config.namespace.join("tree/x");
    let stub = Plain::options().read(true).write(true).create_new(true).open(path).expect("a stub");
    let file = files.get_or_open(stub.into()).expect("a file");
    file.write(0, &[7; 300_000]).expect("well");
    let (there, gone) = (file.id().expect("laid out"), FileId(1 << 40));
    let to = Shape { devices: 1, unit_bytes: 4096 };
    let why = Why { cause: Cause::Faster, rate: 1.0, bytes: 1.0, now_s: 2.0, then_s: 1.0, copy_s: 1.0 };
    let (restripe, fork) =
        (Verb::Restripe { mirror: 7, to }, Verb::AddMirror { purpose: Purpose::Fork, shape: Some(to) });
    let failed = |file, verb, by| {
        let before = stats.get(Metric::StripesFailed);
        adapt.carry(&Change { ticket: 0, file, verb, by, reason: Reason::Stripes(why), pace: None });
        stats.get(Metric::StripesFailed) - before
    };
    assert_eq!(failed(there, restripe, Mechanism::Stripes), 1, "there is no mirror 7");
    assert_eq!(failed(gone, restripe, Mechanism::Stripes), 1, "there is no file");
    assert_eq!(failed(gone, fork, Mechanism::Stripes), 1, "there is no file");
    assert_eq!(failed(there, Verb::Restripe { mirror: 0, to }, Mechanism::Stripes), 0, "it is made");
    assert_eq!(failed(gone, restripe, Mechanism::Tiers), 0, "another mechanism");
}

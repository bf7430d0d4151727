//! The disk models against the service times measured on the real drives. The measurements are not part of the project:
//! the test looks in `$ENTREPOT_DATA` and in `../shared/data`, and is skipped with a message if it finds none.

use sim::disk::{Model, validate};
use std::path::PathBuf;

/// The measurement called `name`, if it is there.
fn measurement(name: &str) -> Option<Vec<validate::Measured>> {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let root = std::env::var_os("ENTREPOT_DATA").map_or(beside, PathBuf::from);
    let path = root.join("disksim-validation/disks").join(format!("{name}.trace.gz"));
    let Ok(text) = validate::read(&path) else {
        eprintln!("skipped: no measurement at {}", path.display());
        return None;
    };
    Some(validate::parse(&text).expect("a measurement"))
}

#[test]
fn simulated_service_times_are_as_near_to_the_measured_ones_as_documented() {
    for (file, model, demerit_ms_max, mean_error_max) in
        [("cheetah9LP", "cheetah9lp", 0.106, 0.01), ("atlas10k", "atlas10k", 0.1, 0.01)]
    {
        let Some(measured) = measurement(file) else { continue };
        let outcome = validate::validate(Model::named(model).unwrap(), Model::named(model), &measured);
        eprintln!("{outcome}");
        assert_eq!(outcome.beyond, 0);
        assert!(outcome.demerit_ns / 1e6 < demerit_ms_max, "{outcome}");
        assert!((outcome.simulated_mean_ns / outcome.measured_mean_ns - 1.0).abs() < mean_error_max, "{outcome}");
    }
}

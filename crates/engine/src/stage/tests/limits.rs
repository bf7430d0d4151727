//! Transfers under a rate limit: all bytes of a transfer count, and no part waits for ever.

use super::*;
use crate::stats::Metric;
use std::time::Instant;

/// Duration of some work in seconds.
fn seconds(work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    began.elapsed().as_secs_f64()
}

/// [S-312]
#[test]
fn a_limit_holds_for_all_connections_and_both_directions_together() {
    let world = World::new();
    let (bytes, rate) = (24 << 20, 32 << 20);
    world.memory.add("mem://h/a", &data(bytes, 1));
    let (none, stop) = (request(&["mem://h/a"], "free"), Stop::default());
    world.stager.paced(None, 1, &stop).transfer(&who(), QUIET, &stop).stage_in(&none).expect("staged");
    assert_eq!(world.stager.volume.stats().get(Metric::StageHeldNs), 0, "without a limit nothing waits");

    let limited = world.stager.paced(Some(rate), 1, &stop);
    let took = seconds(|| {
        drop(limited.transfer(&who(), QUIET, &stop).stage_in(&request(&["mem://h/a"], "a")).expect("staged"))
    });
    let least = (bytes as f64 - rate as f64 / 16.0) / rate as f64;
    assert!(took >= least, "eight connections moved {bytes} bytes in {took} s");
    assert!(world.stager.volume.stats().get(Metric::StageHeldNs) > 0 && world.read("a") == data(bytes, 1));

    // Stage-out reads its copy back: the bytes count twice.
    let limited = world.stager.paced(Some(rate), 1, &stop);
    let took = seconds(|| {
        drop(
            limited
                .transfer(&who(), QUIET, &stop)
                .stage_out(&results("a", "mem://o/a", Compare::Content))
                .expect("out"),
        );
    });
    assert!(took >= 2.0 * bytes as f64 / rate as f64 - 1.0 / 16.0, "sent and read back in {took} s");
    // The files of one request share one limit.
    (0..3).for_each(|n| drop(world.memory.add(&format!("mem://h/d/{n}"), &data(4 << 20, n))));
    let limited = world.stager.paced(Some(rate), 1, &stop);
    let tree = request(&["mem://h/d"], "d");
    let took = seconds(|| {
        drop(limited.transfer(&who(), QUIET, &stop).stage_in_tree(&tree, &Chosen::default()).expect("staged"));
    });
    assert!(took >= (12 - 2) as f64 / 32.0, "three files in {took} s");
}

#[test]
fn a_transfer_that_waits_for_its_limit_is_stopped() {
    let world = World::new();
    world.memory.add("mem://h/a", &data(5 << 20, 1));
    world.memory.add("mem://h/whole", &data(5 << 20, 1)).without_ranges();
    world.stage(&["mem://h/a"], "a").expect("staged");
    let stopped = |work: &(dyn Fn(&Stager, &Stop, Report) -> Result<Staged, StageError> + Sync)| {
        let stop = Stop::default();
        let limited = world.stager.paced(Some(1), 1, &stop);
        std::thread::scope(|scope| {
            let (begun, heard) = std::sync::mpsc::channel();
            let told = stop.clone();
            scope.spawn(move || heard.into_iter().take(1).for_each(|()| told.set()));
            // The first report precedes the first byte, which would take hours.
            let report: Report = &|_| begun.send(()).unwrap_or_default();
            matches!(work(&limited, &stop, report), Err(StageError::Stopped))
        })
    };
    let r#in = |uri: &str, limited: &Stager, stop: &Stop, report: Report| {
        limited.transfer(&who(), report, stop).stage_in(&request(&[uri], "b"))
    };
    assert!(stopped(&|limited, stop, report| r#in("mem://h/a", limited, stop, report)));
    assert!(stopped(&|limited, stop, report| r#in("mem://h/whole", limited, stop, report)));
    assert!(stopped(&|limited, stop, report| {
        limited.transfer(&who(), report, stop).stage_out(&results("a", "mem://o/a", Compare::Content))
    }));
}

#[test]
fn what_holds_a_transfer_is_named_and_nodes_share_the_limit_of_the_volume() {
    struct Three;
    impl Others for Three {
        fn names(&self) -> Vec<String> {
            ["b", "c", "d"].map(String::from).to_vec()
        }
        fn ask(&self, _: &str, _: u32, _: u32, _: &Share, _: &Stop) -> Said {
            Said::Refused
        }
    }
    let world = World::with("limit = \"8MiB/s\"");
    let limit = |limit| world.stager.limit_of(limit).map(|limit| (limit.bytes_s >> 20, limit.by));
    let of = |mib: u64, by: &str| Some((mib, by.to_string()));
    assert_eq!([limit(None), limit(Some(4 << 20))], [of(8, "[stage] limit"), of(4, "--limit")]);
    world.stager.share(Arc::new(Three));
    assert_eq!([limit(None), limit(Some(4 << 20))], [of(2, "[stage] limit"), of(2, "[stage] limit")]);
    assert_eq!(World::new().stager.limit_of(None), None);
    // The volume's limit holds without a limit of the transfer.
    world.memory.add("mem://h/a", &data(1 << 20, 1));
    let stop = Stop::default();
    let paced = world.stager.paced(None, 1, &stop);
    let took =
        seconds(|| drop(paced.transfer(&who(), QUIET, &stop).stage_in(&request(&["mem://h/a"], "a")).expect("staged")));
    assert!(took >= (1.0 - 0.5) / 2.0, "1 MiB at 2 MiB/s in {took} s");
}

//! A host that is cut off amid its renewals: others expel it at once, and when it is back it knows.

use crate::agent::Call;
use crate::hosts::hosts;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::time::Duration;

/// Renewals that are asked for before the cable goes.
const BEATS: usize = 200;

#[test]
fn a_host_that_is_cut_off_amid_its_renewals_is_expelled() {
    let Some(hosts) = hosts() else { return };
    let times = std::env::var("ENTREPOT_CUTS").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    for time in 0..times {
        let (mut agents, dir) = (hosts.agents(), hosts.directory(&format!("cut{time}")));
        let path = |name: &str| format!("{dir}/{name}");
        let flags = (OFlags::CREATE | OFlags::EXCL).bits();
        agents[2].ok(Call::Open { path: path("1.0"), flags, of: "f".into() });
        for beat in 0..BEATS {
            let (from, to) = (path(&format!("1.{beat}")), path(&format!("1.{}", beat + 1)));
            agents[2].begin(&Call::Rename { from, to });
        }
        std::thread::sleep(Duration::from_millis(60 + 37 * time % 100));
        hosts.hosts[2].cut();
        let names = agents[0].names(&dir);
        assert_eq!(names.len(), 1, "one beat is there: {names:?}");
        let expelled = agents[0].call(Call::Rename { from: path(&names[0]), to: path("gone") });
        assert_eq!(agents[1].names(&dir), ["gone"], "{:?}", expelled.result);
        // The first call that has no answer; those after it fail soon.
        let beats: Vec<_> = (0..BEATS).map(|_| agents[2].end()).collect();
        hosts.hosts[2].join();
        let (mut renewed, mut slowest) = (0, Duration::ZERO);
        let mut errors: Vec<Errno> = Vec::new();
        for beat in beats {
            slowest = slowest.max(beat.took);
            match beat.result {
                Ok(_) => renewed += 1,
                Err(errno) if errors.last() != Some(&errno) => errors.push(errno),
                Err(_) => {}
            }
        }
        println!(
            "cut off after {renewed} renewals: expelled within {:?} ({:?}); there the calls ended after {slowest:.1?} with {errors:?}",
            expelled.took, expelled.result
        );
        expelled.ok();
        let last: usize = names[0][2..].parse().expect("a beat");
        assert!(renewed == last || renewed + 1 == last, "what was told is so: {renewed} and {last}");
        let began = std::time::Instant::now();
        agents[2].reaches_all(&dir);
        assert_eq!(agents[2].names(&dir).len(), 25);
        println!("it is connected again {:.1?} after the cable", began.elapsed());
    }
}

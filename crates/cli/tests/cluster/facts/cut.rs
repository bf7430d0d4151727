//! A host that is cut off amid its renewals: others expel it at once, and when it is back it knows.

use crate::agent::Call;
use crate::ceph;
use crate::hosts::hosts;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::time::Duration;

/// Renewals that are asked for before the cable goes.
const BEATS: usize = 200;

/// Beats of the lease of node 1, in order.
fn beats(names: &[String]) -> Vec<usize> {
    let mut found: Vec<_> = names.iter().filter_map(|name| name.strip_prefix("1.")?.parse().ok()).collect();
    found.sort_unstable();
    found
}

#[test]
fn a_host_that_is_cut_off_amid_its_renewals_is_expelled() {
    if ceph::is_wanted() {
        return eprintln!("skipped: CephFS shuts a client out that was cut off, until it mounts again");
    }
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
        let found = beats(&agents[0].names(&dir));
        let last = *found.last().expect("a beat");
        // A distributed file system links the new name before it removes the old one, and the cable may go in between.
        // The later one is the lease (`policy::cluster::lease`).
        assert!(found.len() == 1 || found == [last - 1, last], "one beat, or both of one renewal: {found:?}");
        let expelled = agents[0].call(Call::Rename { from: path(&format!("1.{last}")), to: path("gone") });
        let names = agents[1].names(&dir);
        assert!(names.contains(&"gone".to_owned()), "{names:?}: {:?}", expelled.result);
        assert_eq!(beats(&names), found[..found.len() - 1]);
        // The first call that has no answer; those after it fail soon.
        let renewals: Vec<_> = (0..BEATS).map(|_| agents[2].end()).collect();
        hosts.hosts[2].join();
        let (mut renewed, mut slowest) = (0, Duration::ZERO);
        let mut errors: Vec<Errno> = Vec::new();
        for beat in renewals {
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
        assert!(renewed == last || renewed + 1 == last, "what was told is so: {renewed} and {last}");
        let began = std::time::Instant::now();
        agents[2].reaches_all(&dir);
        assert_eq!(agents[2].names(&dir).len(), 24 + found.len());
        println!("it is connected again {:.1?} after the cable", began.elapsed());
    }
}

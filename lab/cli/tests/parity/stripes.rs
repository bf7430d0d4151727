//! The striper does the same in both worlds: requests as the mount counts them ([`engine::file::Load`]), at the moments
//! of a simulated run, lead to the same actions of the volume's machine, with the same reasons.

use engine::file::{Access, Load};
use policy::Time;
use policy::machine::Machine;
use policy::stripe::advice::Mode;
use policy::stripe::rules;
use policy::volume::{Action, Event, FileEvent, Logged, Verb, Volume};
use sim::stripe::{Drive, Phase, RequestClass, Setup, run_logged};
use sim::volume::Request;

fn setup() -> Setup {
    let mixed = vec![RequestClass { rate: 120.0, bytes: 64 << 10 }, RequestClass { rate: 6.0, bytes: 1 << 20 }];
    let phases =
        vec![Phase::of(2.0, 2 << 20, 60.0), Phase::of(150.0, 32 << 10, 40.0), Phase { asked: mixed, seconds: 60.0 }];
    let parameters = policy::stripe::model::Parameters { devices: 24, ..Default::default() };
    let (interval, copy_bytes) = (Time::from_secs(1), 16 << 20);
    Setup {
        parameters,
        mechanical: None,
        slowness: 1.5,
        far: false,
        phases,
        interval,
        warm_up: Time::ZERO,
        copy_bytes,
        seed: 3,
    }
}

/// Leads a volume's machine through the moments of a log, with what the mount's counters make of the requests.
fn live(setup: &Setup, drive: &Drive, requests: &[Request], moments: &[Logged]) -> Vec<Logged> {
    let mut volume = Volume::new(setup.volume(drive).config, Time::ZERO);
    volume.log.start();
    let (load, mut left) = (Load::default(), requests.iter().peekable());
    for moment in moments {
        let Logged::Event(at, event) = moment else { continue };
        let event = match event {
            Event::File(file, FileEvent::Asked { .. }) => {
                while let Some(&Request { offset, bytes, write, .. }) = left.next_if(|of| of.at < *at) {
                    load.count(Access { write, offset, len: bytes });
                }
                let (counts, recent) = (load.take().unwrap_or_default(), load.recent());
                Event::File(*file, FileEvent::Asked { counts, recent })
            }
            event => event.clone(),
        };
        volume.handle(*at, event);
        volume.drain().for_each(drop);
    }
    volume.log.lines().to_vec()
}

#[test]
fn the_striper_does_the_same_for_the_mount_as_in_the_simulator() {
    for mode in [Mode::Model, Mode::Fuzzy, Mode::ModelFuzzy] {
        let setup = setup();
        let drive = Drive::Adaptive(mode, rules::parse(rules::ADAPTIVE).expect("the built-in rules"), 2);
        let requests = setup.volume(&drive).requests.expect("those of the phases");
        let log = run_logged(&setup, &drive);
        // As text: what is not known is no number, and no such thing equals another.
        let text = |log: &[Logged]| log.iter().map(|line| format!("{line:?}")).collect::<Vec<_>>();
        let (here, there) = (text(&live(&setup, &drive, &requests, &log)), text(&log));
        for (n, (here, there)) in here.iter().zip(&there).enumerate() {
            assert_eq!(here, there, "{mode:?}: line {n}");
        }
        assert_eq!(here.len(), there.len(), "{mode:?}");
        let is_change = |line: &&Logged| match line {
            Logged::Action(_, Action::Change(of)) => matches!(of.verb, Verb::Restripe { .. } | Verb::AddMirror { .. }),
            _ => false,
        };
        assert!(log.iter().filter(is_change).count() >= 1, "{mode:?}: nothing is decided");
        // The comparison would notice: a request less, and it is another load.
        let fewer: Vec<Request> = requests.into_iter().filter(|request| request.bytes <= 1 << 20).collect();
        assert!(text(&live(&setup, &drive, &fewer, &log)) != there, "{mode:?}");
    }
}

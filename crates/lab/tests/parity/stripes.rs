//! The striper does the same in both worlds: requests as the mount counts them ([`store::file::Load`]), at the moments of a simulated run, lead
//! to the same actions, with the same reasons.

use policy::Time;
use policy::machine::Machine;
use policy::pattern::Request;
use policy::stripe::advice::Mode;
use policy::stripe::rules;
use policy::stripe::striper::{Action, Event, Striper};
use sim::stripe::{Asked, Drive, FILE, Kind, Logged, Phase, Setup, config, run_logged};
use store::file::{Access, Load};

fn setup() -> Setup {
    let mixed = vec![Asked { rate: 120.0, bytes: 64 << 10 }, Asked { rate: 6.0, bytes: 1 << 20 }];
    let phases =
        vec![Phase::of(2.0, 2 << 20, 60.0), Phase::of(150.0, 32 << 10, 40.0), Phase { asked: mixed, seconds: 60.0 }];
    let parameters = policy::stripe::model::Parameters { devices: 24, ..Default::default() };
    let (interval, copy_bytes) = (Time::from_secs(1), 16 << 20);
    Setup {
        parameters,
        kind: Kind::Modelled,
        slowness: 1.5,
        far: false,
        block_bytes: 4096.0,
        phases,
        interval,
        warm_up: Time::ZERO,
        copy_bytes,
        seed: 3,
    }
}

/// Leads a striper through the moments of a log, with what the mount's counters make of the requests.
fn live(setup: &Setup, mode: Mode, log: &[Logged]) -> Vec<Action> {
    let rules = rules::parse(rules::ADAPTIVE).expect("the built-in rules");
    let mut striper = Striper::new(config(setup, mode, 2), rules, Time::ZERO);
    let (load, mut did) = (Load::default(), Vec::new());
    for moment in log {
        match moment {
            Logged::Asked(Request { write, offset, len }) => {
                load.count(Access { write: *write, offset: *offset, len: *len });
            }
            Logged::Ended(at, took) => {
                striper.handle(*at, Event::Ended { file: FILE, bytes: setup.copy_bytes, took: *took });
            }
            Logged::Looked(at, forks, served) => {
                striper.handle(*at, setup.served(*served));
                let (forks, bytes) = (forks.clone(), setup.copy_bytes);
                striper.handle(*at, Event::Lies { file: FILE, forks, keep: 1, bytes, movable: true, open: true });
                let counts = load.take().unwrap_or_default();
                striper.handle(*at, Event::Asked { file: FILE, counts, users: 1, recent: load.recent() });
                striper.handle(*at, Event::Look);
                did.extend(striper.drain());
            }
            Logged::Did(_) => {}
        }
    }
    did
}

#[test]
fn the_striper_does_the_same_for_the_mount_as_in_the_simulator() {
    for mode in [Mode::Model, Mode::Fuzzy, Mode::ModelFuzzy] {
        let setup = setup();
        let rules = rules::parse(rules::ADAPTIVE).expect("the built-in rules");
        let (_, log) = run_logged(&setup, &Drive::Adaptive(mode, rules, 2));
        let simulated: Vec<Action> = log
            .iter()
            .filter_map(|moment| match moment {
                Logged::Did(action) => Some(action.clone()),
                _ => None,
            })
            .collect();
        // As text: what is not known is no number, and no such thing equals another.
        let text = |actions: &[Action]| actions.iter().map(|action| format!("{action:?}")).collect::<Vec<_>>();
        let (here, there) = (text(&live(&setup, mode, &log)), text(&simulated));
        for (n, (here, there)) in here.iter().zip(&there).enumerate() {
            assert_eq!(here, there, "{mode:?}: action {n}");
        }
        assert_eq!(here.len(), there.len(), "{mode:?}");
        let changes =
            simulated.iter().filter(|action| matches!(action, Action::Restripe { .. } | Action::AddFork { .. }));
        assert!(changes.count() >= 1, "{mode:?}: nothing is decided");
        // The comparison would notice: a request less, and it is another load.
        let mut fewer = log.clone();
        fewer.retain(|moment| !matches!(moment, Logged::Asked(request) if request.len > 1 << 20));
        assert!(text(&live(&setup, mode, &fewer)) != there, "{mode:?}");
    }
}

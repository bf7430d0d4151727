//! Every problem of the text, with its line, and every default.

use super::*;
use crate::file::MirrorWrites;
use crate::volume::{Io, Passthrough, template};
use std::time::Duration;

const GOOD: &str = "namespace = \"n\"\nstate = \"s\"\n[[target]]\nname = \"a\"\npath = \"/t/a\"\n";

fn parsed(text: &str) -> Config {
    parse(Path::new("/v/volume.toml"), text).unwrap()
}

/// The problems of a text, one per line.
fn problems(text: &str) -> String {
    parse(Path::new("/v/volume.toml"), text).expect_err("it has problems").to_string()
}

/// Appends lines to a good text and expects one problem in the last line.
#[track_caller]
fn expect(lines: &str, place: &str, words: &[&str]) {
    let shown = problems(&format!("{GOOD}{lines}"));
    assert!(shown.starts_with(&format!("/v/volume.toml:{place}: ")), "{shown}");
    assert!(shown.contains("; the volume is not opened. "), "cause, consequence, mend: {shown}");
    assert!(!shown.contains('\n'), "one problem: {shown}");
    for word in words {
        assert!(shown.contains(word), "{word} in {shown}");
    }
}

#[test]
fn defaults() {
    let config = parsed(GOOD);
    assert_eq!(
        (config.name.as_str(), config.namespace.as_path()),
        ("scratch", Path::new("/v/n")),
        "relative to the file"
    );
    assert_eq!(config.targets[0].directory(), Some(Path::new("/t/a")));
    assert_eq!(config.tiers, ["default"]);
    let layout = &config.layout;
    assert_eq!((layout.stripe_size, layout.stripe_count, layout.inline_max), (1 << 20, 4, 64 << 10));
    assert_eq!((layout.single_max, layout.mirrors, layout.mirror_writes), (4 << 20, 1, MirrorWrites::Sync));
    assert_eq!(
        (config.mount.passthrough, config.mount.io, config.mount.allow_other),
        (Passthrough::Auto, Io::Auto, None)
    );
    assert_eq!((config.health.deadline, config.health.auto_restore), (Duration::from_secs(5), None));
    assert_eq!((config.mover.rate, config.recovery.rate, config.jobs.check_before_job), (0, 0, true));
}

#[test]
fn values_as_people_write_them() {
    let config = parsed(&format!(
        "{GOOD}[layout]\nstripe_size = \"64 KiB\"\nsingle_max = 0\nmirror_writes = \"stale\"\n\
         [health]\ndeadline = 0.25\nprobe_interval = \"20ms\"\n[mover]\nrate = \"200MB\"\n[mount]\nallow_other = true\nentry_timeout = 3\n"
    ));
    assert_eq!((config.layout.stripe_size, config.layout.single_max), (65_536, 0));
    assert_eq!(config.layout.mirror_writes, MirrorWrites::Stale);
    assert_eq!(config.health.deadline, Duration::from_millis(250));
    assert_eq!((config.mover.rate, config.mount.allow_other), (200_000_000, Some(true)));
    assert_eq!(config.mount.entry_timeout, Duration::from_secs(3));
}

#[test]
fn tiers_are_numbered_in_the_order_of_the_file() {
    let text = "namespace = \"n\"\nstate = \"s\"\n[tier.zippy]\n[tier.a_slow_one]\n\
                [[target]]\nname = \"a\"\npath = \"a\"\ntier = \"a_slow_one\"\n[[target]]\nname = \"b\"\npath = \"b\"\n";
    let config = parsed(text);
    assert_eq!(config.tiers, ["zippy", "a_slow_one"]);
    assert_eq!(config.targets.iter().map(|t| t.tier).collect::<Vec<_>>(), [1, 0], "no tier is the first");
}

#[test]
fn bad_values_say_where_and_what_is_good() {
    expect("[layout]\nstripe_size = \"5 bananas\"\n", "7:15", &["`stripe_size` is \"5 bananas\"", "4096"]);
    expect("[layout]\nstripe_size = 5000\n", "7:15", &["5000 bytes", "multiple of 4096"]);
    expect("[layout]\nstripe_count = 0\n", "7:16", &["from 1 to 1024"]);
    expect("[layout]\nmirror_writes = \"maybe\"\n", "7:17", &["\"sync\" or \"stale\""]);
    expect("[health]\ndeadline = \"soon\"\n", "7:12", &["a span from"]);
    expect("[mount]\nallow_other = \"yes\"\n", "7:15", &["true or false"]);
    expect("[mount]\nio = \"quick\"\n", "7:6", &["\"auto\" or \"direct\" or \"cached\""]);
    expect("[recovery]\nretries = -1\n", "7:11", &["from 1 to 100"]);
}

#[test]
fn a_cache_is_what_the_simulator_s_words_say() {
    assert_eq!(parsed(GOOD).cache.level, None, "off unless asked for");
    let config = parsed(&format!(
        "{GOOD}[cache]\nsize = \"1GiB\"\nprefetch = \"stream:degree_max=32\"\ntrigger = \"ets:redistribute\"\ncoordinator = \"labels+pfc:file\"\n"
    ));
    let level = config.cache.level.unwrap();
    assert_eq!(level.capacity_blocks, 1 << 18);
    assert_eq!(level.prefetch, policy::words::prefetch("stream:degree_max=32").unwrap());
    assert_eq!(level.trigger, policy::words::trigger("ets:redistribute").unwrap());
    assert_eq!(level.coordination, policy::words::coordination("early+labels+pfc:file").unwrap());
    let sarc = parsed(&format!("{GOOD}[cache]\nsize = \"1GiB\"\nreplacement = \"sarc\"\n")).cache.level.unwrap();
    assert!(matches!(sarc.replacement, policy::cache::Replacement::Sarc(_)));
}

#[test]
fn a_cache_that_cannot_be_is_refused() {
    expect("[cache]\nsize = 4096\n", "7:8", &["4096 bytes", "64KiB"]);
    expect("[cache]\nsize = \"9TiB\"\n", "7:8", &["4TiB"]);
    for gone in ["ra", "linux", "linux-2.6.18", "sarc:degree=16", "amp", "sark"] {
        let found = format!("`prefetch` is \"{gone}\"; the volume is not opened. Mend it: choose none, on-demand");
        expect(&format!("[cache]\nprefetch = \"{gone}\"\n"), "7:12", &[found.as_str()]);
    }
    expect("[cache]\nprefetch = \"stream:threshold=4\"\n", "7:12", &["degree_max"]);
    expect("[cache]\nreplacement = \"fifo\"\n", "7:15", &["choose lru or sarc"]);
    expect("[cache]\ntrigger = \"etz\"\n", "7:11", &["choose native, fixed:BLOCKS, ets or esf"]);
    expect("[cache]\nprefetch = \"none\"\ntrigger = \"ets\"\n", "8:11", &["none has no trigger distance", "Choose"]);
    expect("[cache]\nprefetch = \"stream:degree_max=0\"\n", "7:12", &["cannot prefetch so much", "Set"]);
    expect("[cache]\ncoordinator = \"pfc:bypass,readmore\"\n", "7:15", &["leave both out for both"]);
    expect("[cache]\nreplacement = \"sarc:bottom_fraction=7\"\n", "7:15", &["the bottom of SARC's lists"]);
    expect("[cache]\nprefetchr = \"none\"\n", "7:1", &["Did you mean `prefetch`?"]);
}

#[test]
fn unknown_keys_are_refused_with_a_guess() {
    expect(
        "[layout]\nstripe_sise = 4096\n",
        "7:1",
        &["unknown key `stripe_sise` in `[layout]`", "Did you mean `stripe_size`?"],
    );
    expect(
        "[[target]]\nname = \"b\"\npath = \"b\"\ncolour = \"red\"\n",
        "9:1",
        &["unknown key `colour`", "name, path, tier"],
    );
    expect("[lay]\n", "6:2", &["unknown key `lay`"]);
    expect("[tier.default]\nwidth = 1\n", "7:1", &["unknown key `width` in `[tier.default]`"]);
}

#[test]
fn targets_are_distinct_and_named() {
    expect("[[target]]\nname = \"a\"\npath = \"b\"\n", "6:1", &["two targets are named \"a\"", "line 5"]);
    expect("[[target]]\nname = \"b\"\npath = \"/t/a\"\n", "6:1", &["two targets are in /t/a"]);
    expect("[[target]]\nname = \"b/c\"\npath = \"b\"\n", "7:8", &["\"b/c\" cannot be the name"]);
    expect("[[target]]\nname = \"b\"\n", "6:1", &["`path` is missing in `[[target]]`", "Add `path"]);
    expect("[[target]]\nname = \"\"\npath = \"b\"\n", "7:8", &["not empty"]);
}

#[test]
fn tiers_and_targets_fit() {
    expect(
        "tier = \"x\"\n[tier.y]\n[[target]]\nname = \"b\"\npath = \"b\"\ntier = \"y\"\n",
        "6:8",
        &["tier \"x\" is not declared", "y"],
    );
    let shown = problems(&format!("{GOOD}[tier.fast]\n[tier.slow]\n"));
    assert!(shown.contains("volume.toml:7:7: tier \"slow\" has no target"), "{shown}");
}

#[test]
fn no_target_and_too_many() {
    let none = problems("namespace = \"n\"\nstate = \"s\"\n");
    assert!(none.contains("there is no target; ") && none.contains("[[target]]"), "{none}");
    let many: String = (0..1025).map(|i| format!("[[target]]\nname = \"t{i}\"\npath = \"t{i}\"\n")).collect();
    let many = problems(&format!("namespace = \"n\"\nstate = \"s\"\n{many}"));
    assert!(many.contains(":3:1: there are 1025 targets, and 1024 is the most"), "{many}");
}

#[test]
fn missing_directories_and_broken_toml() {
    let shown = problems("[[target]]\nname = \"a\"\npath = \"a\"\n");
    assert!(shown.contains("`namespace` is missing") && shown.contains("`state` is missing"), "{shown}");
    let shown = problems(&format!("{GOOD}[layout\n"));
    assert!(shown.contains("volume.toml:6:") && shown.contains("no TOML"), "{shown}");
}

#[test]
fn all_problems_are_told_in_the_order_of_the_file() {
    let shown = problems(
        "nmespace = 1\nstate = 5\n[[target]]\nname = \"a\"\npath = \"a\"\n[mover]\nrate = \"x\"\nconcurrent = 0\n",
    );
    let lines: Vec<_> = shown.lines().map(|line| line.split(':').nth(1).unwrap()).collect();
    assert_eq!(lines, ["1", "1", "2", "7", "8"], "{shown}");
}

#[test]
fn the_template_and_its_comments_are_the_defaults() {
    let text = template(Path::new("/data/my volume"));
    let plain = parsed(&text);
    assert_eq!((plain.name.as_str(), plain.targets.len()), ("myvolume", 6));
    assert_eq!(plain.tiers, ["fast", "capacity"]);
    // Every commented key is valid, and its value is the default unless that depends on the machine.
    let assignment =
        |line: &&str| line.starts_with("# ") && line.split_once(" = ").is_some_and(|(key, _)| !key[2..].contains(' '));
    let shown: Vec<&str> = text.lines().filter(assignment).collect();
    assert!(shown.len() >= 20, "{shown:?}");
    let uncommented: String =
        text.lines().map(|line| if assignment(&line) { &line[2..] } else { line }).map(|l| format!("{l}\n")).collect();
    let full = parsed(&uncommented);
    let of_machine = |config: &Config| {
        let mut config = config.clone();
        (config.mount.threads, config.mount.allow_other, config.jobs.cores) = (0, None, 0);
        config.health.auto_restore = None; // the default depends on the state store
        config.jobs.slurm_user.clear(); // whom it names depends on the site
        config.jobs.on_end.clear(); // so does the command: the template has an example
        format!(
            "{:?}{:?}{:?}{:?}{:?}{:?}{:?}{:?}{:?}",
            config.cache,
            config.layout,
            config.mount,
            config.health,
            config.mover,
            config.recovery,
            config.jobs,
            config.replication,
            config.purge
        )
    };
    assert_eq!(of_machine(&plain), of_machine(&full));
}

#[test]
fn a_burst_buffer_is_what_the_file_says() {
    let base = "namespace = \"n\"\nstate = \"s\"\n[tier.fast]\n[tier.slow]\n[[target]]\nname = \"f\"\npath = \"f\"\ntier = \"fast\"\n\
                [[target]]\nname = \"s\"\npath = \"o\"\ntier = \"slow\"\n";
    let none = parsed(base).burst;
    assert!(none.fast.is_none() && none.capacity == 1 && !none.is_limited() && none.admission().full_waits);
    let speeds = "write_max = \"70MB\"\nwrite_min = \"60MB\"\ndemote_max = \"32MB\"\ndemote_min = \"2MB\"\ndemote_idle = \"42MB\"\n";
    let text = format!(
        "{base}[burst]\nfast = \"fast\"\nfull = \"enospc\"\npolicy = \"static:0.8\"\ncheckpoints = [\"c/{{app}}/{{version}}\"]\n{speeds}"
    );
    let burst = parsed(&text).burst;
    assert_eq!((burst.fast, burst.is_limited(), burst.admission().full_waits), (Some(0), true, false));
    assert_eq!(burst.admission().buffer.scheme, policy::burst::buffer::Scheme::Static(0.8));
    assert_eq!(burst.admission().buffer.device.write_min, 60e6);
    assert_eq!(burst.checkpoints[0].matches("c/wave/7").map(|of| of.version), Some("7".into()));
    for wrong in [
        "fast = \"none\"",
        "fast = \"slow\"\ncapacity = \"slow\"",
        "checkpoints = [\"c/{version}\"]",
        "checkpoints = 7",
        "policy = \"static:2\"",
        "write_max = \"1MB\"",
    ] {
        assert!(Config::parse(Path::new("/v.toml"), &format!("{base}[burst]\n{wrong}\n")).is_err(), "{wrong}");
    }
    // All nodes read and demote checkpoints.
    let shared = base.replace("state = \"s\"", "name = \"v\"\nstate = \"redis://h:1/0\"");
    let refused = |path: &str, burst: &str| {
        let text = shared.replace(&format!("path = \"{path}\"\n"), &format!("path = \"{path}\"\nonly_on = [\"h\"]\n"));
        Config::parse(Path::new("/v.toml"), &format!("{text}{burst}")).is_err_and(|p| p.to_string().contains("of all"))
    };
    assert!(["f", "o"].iter().all(|path| refused(path, "[burst]\nfast = \"fast\"\n") && !refused(path, "")));
}

#[test]
fn the_state_is_a_directory_or_a_server_with_a_directory_of_the_node() {
    use crate::volume::sections::StateStore;
    let targets = "[[target]]\nname = \"a\"\npath = \"/t/a\"\n";
    let text = |lines: &str| format!("name = \"scr\"\nnamespace = \"n\"\n{lines}\n{targets}");
    let plain = parsed(&text("state = \"s\""));
    assert_eq!((plain.state.as_path(), plain.state_is_derived, plain.is_shared()), (Path::new("/v/s"), false, false));
    for url in ["redis://h/0", "rediss://h:7/0", "redis+sentinel://a:1,b:2/m/0", "unix:///run/redis.sock"] {
        let one_key = parsed(&text(&format!("state = \"{url}\"")));
        assert!(one_key.is_shared() && one_key.state_is_derived, "{url}");
        assert!(one_key.state.is_absolute() && one_key.state.to_string_lossy().contains("entrepot/scr"), "{one_key:?}");
        let named = parsed(&text(&format!("state = \"{url}\"\nstate_dir = \"own\"")));
        let pair = parsed(&text(&format!("state = \"own\"\nstate_store = \"{url}\"")));
        for config in [named, pair] {
            assert_eq!((config.state.as_path(), config.state_is_derived), (Path::new("/v/own"), false));
            assert_eq!(config.state_store, one_key.state_store);
        }
    }
    let secret = parsed(&text("state = \"rediss://h/0\"\nstate_password_file = \"pw\"\nstate_ca_file = \"/ca\""));
    assert!(matches!(&secret.state_store, StateStore::Redis(_)));
    assert_ne!(secret.state_store, parsed(&text("state = \"rediss://h/0\"")).state_store, "the files belong to it");
    for (lines, cause) in [
        ("state = \"s\"\nstate_dir = \"d\"", "`state` is a directory already"),
        ("state = \"s\"\nstate_password_file = \"p\"", "the state is in no server"),
        ("state = \"redis://h/0\"\nstate_store = \"redis://h/0\"", "`state` names a server already"),
        ("state = \"redis://:p@h/0\"\nstate_password_file = \"p\"", "has a password already"),
        ("state = \"redis://h/0\"\nstate_ca_file = \"p\"", "Write `rediss://`"),
        ("state = \"http://h/0\"", "`state` is \"http://h/0\""),
    ] {
        let shown = problems(&text(lines));
        assert!(shown.contains(cause) && !shown.contains('\n'), "{lines}: {shown}");
    }
    let shown = problems(&text("state = \"redis://h/0\"").replace("\"scr\"", "\"a/b\""));
    assert!(shown.contains("Add `state_dir"), "{shown}");
}

#[test]
fn a_target_may_be_only_on_some_hosts_of_a_volume_that_nodes_share() {
    let text = |state: &str, one: &str, other: &str, more: &str| {
        format!(
            "namespace = \"n\"\nstate = \"{state}\"\nstate_dir = \"s\"\n[[target]]\nname = \"a\"\npath = \"/disk\"\n{one}\n\
             [[target]]\nname = \"b\"\npath = \"/disk\"\n{other}\n{more}"
        )
    };
    let redis = "redis://h/0";
    let (n1, n2) = ("only_on = [\"n1\"]", "only_on = [\"n2\", \"n3\"]\nnear = [\"n4\"]");
    let config = parsed(&text(redis, n1, n2, "[layout]\nprefer = \"local\""));
    let [a, b] = &config.targets[..] else { panic!("two") };
    assert!(a.is_on("n1") && !a.is_on("n2") && b.is_on("n3") && !a.meets(b));
    assert!(b.is_near("n4") && b.is_near("n2") && !b.is_on("n4") && !a.is_near("n4"));
    assert_eq!(config.layout.prefer, crate::volume::sections::Prefer::Local);
    for (state, one, other, cause) in [
        (redis, n1, "", "two targets are in /disk"),
        (redis, n1, "only_on = [\"n2\", \"n1\"]", "two targets are in /disk"),
        (redis, n1, "only_on = []", "Give a list of texts"),
        (redis, n1, "only_on = \"n2\"", "Give a list of texts"),
    ] {
        let shown = problems(&text(state, one, other, ""));
        assert!(shown.contains(cause), "{shown}");
    }
    let shown = problems(&text("s", n1, n2, "").replace("state_dir = \"s\"\n", ""));
    assert!(shown.contains("target \"a\" is `only_on` some hosts") && !shown.contains('\n'), "{shown}");
}

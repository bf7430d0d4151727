//! `entrepot-lab sim` as a user runs it: the census first, the same bytes twice, mistakes named.

#[path = "simulate/devices.rs"]
mod devices;
#[path = "simulate/times.rs"]
mod times;

use std::path::Path;
use std::process::{Command, Output};

fn sim(at: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_entrepot-lab"));
    command.current_dir(at).arg("sim").args(arguments).output().expect("the binary runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_run_shows_its_census_and_is_the_same_twice() {
    let at = tempfile::tempdir().unwrap();
    let arguments =
        ["cache", "--generate", "oltp:scale=0.001", "--l1", "linux", "--l2", "sarc", "--coordinator", "pfc"];
    let first = sim(at.path(), &arguments);
    let said = text(&first.stdout);
    assert!(first.status.success(), "{}", text(&first.stderr));
    for part in ["records", "skipped", "span", "footprint", "response   mean", "L1     linux", "L2     sarc"] {
        assert!(said.contains(part), "{part} is missing in\n{said}");
    }
    assert_eq!(first.stdout, sim(at.path(), &arguments).stdout);
}

#[test]
fn mistakes_are_named_with_what_would_be_right() {
    let at = tempfile::tempdir().unwrap();
    let lunix = sim(at.path(), &["cache", "--generate", "oltp:scale=0.001", "--l1", "lunix"]);
    assert_eq!(lunix.status.code(), Some(2));
    assert!(text(&lunix.stderr).contains("linux-2.6.18"));
    let alone = sim(at.path(), &["cache", "--generate", "oltp:scale=0.001", "--coordinator", "pfc"]);
    assert!(text(&alone.stderr).contains("--l2"));
    let two = sim(at.path(), &["cache", "--generate", "oltp:scale=0.001", "--l1", "none", "--l1-replacement", "sarc"]);
    assert!(two.status.code() == Some(2) && text(&two.stderr).contains("lru"), "{}", text(&two.stderr));
    for (arguments, cause) in [
        (&["--threads", "0"][..], "from 1 to 4096"),
        (&["--disks", "2000", "--raid", "0"], "at most 1024 disks"),
        (&["--timeline", "/nonexistent/x", "--per-stream"], "/nonexistent/x"),
        (&["--l1-size", "many"], "`--help`"),
    ] {
        let refused = sim(at.path(), &[&["cache", "--generate", "oltp:scale=0.001"], arguments].concat());
        let said = text(&refused.stderr);
        assert!(!refused.status.success() && said.contains(cause) && !said.contains("entrepot status"), "{said}");
    }
    let many = sim(at.path(), &["stripe", "run", "--devices", "1000000"]);
    assert!(many.status.code() == Some(2) && text(&many.stderr).contains("at most 4096"), "{}", text(&many.stderr));
    std::fs::write(at.path().join("bad.trace"), "R Hit 1 1 1\n").unwrap();
    let measured = sim(at.path(), &["disk", "validate", "bad.trace", "--model", "atlas10k"]);
    assert_eq!(measured.status.code(), Some(2));
    assert!(text(&measured.stderr).contains("line 1"));
}

#[test]
fn files_of_one_trace_are_merged_when_they_are_converted() {
    let at = tempfile::tempdir().unwrap();
    // blktrace, one file per CPU: a read is queued (action Q) on the one at 1 ms and on the other at 2 and 0.5 ms.
    let event = |time_ns: u64, sector: u64, cpu: u32| {
        let mut bytes = 0x6561_7407u32.to_le_bytes().to_vec();
        bytes.extend(1u32.to_le_bytes());
        [time_ns, sector].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        let action = (1 | 1 << 4) << 16 | 1;
        [4096, action, 7, 8 << 20, cpu, 0].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes
    };
    std::fs::write(at.path().join("sdb.blktrace.0"), event(1_000_000, 8, 0)).unwrap();
    std::fs::write(at.path().join("sdb.blktrace.1"), [event(500_000, 16, 1), event(2_000_000, 24, 1)].concat())
        .unwrap();
    let entrepot = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_entrepot-lab"));
        let done = command.current_dir(at.path()).args(arguments).output().expect("the binary runs");
        assert!(done.status.success(), "{arguments:?}: {}", text(&done.stderr));
        text(&done.stdout)
    };
    let said = entrepot(&["trace", "convert", "sdb.blktrace.0", "sdb.blktrace.1", "sdb.spc", "--to", "spc"]);
    assert!(said.starts_with("3 lines, 3 records read"), "{said}");
    let spc = std::fs::read_to_string(at.path().join("sdb.spc")).unwrap();
    let sectors: Vec<_> = spc.lines().map(|line| line.split(',').nth(1).unwrap()).collect();
    assert_eq!(sectors, ["16", "8", "24"], "{spc}");
    entrepot(&["sim", "cache", "--trace", "sdb.spc", "--l1", "ra"]);
}

#[test]
fn a_malformed_line_is_named_with_its_file() {
    let at = tempfile::tempdir().unwrap();
    std::fs::write(at.path().join("good.spc"), "0,8,4096,R,0.0\n0,16,4096,R,0.1\n").unwrap();
    std::fs::write(at.path().join("bad.spc"), "0,8,4096,R,0.0\n0,x,4096,R,0.1\n").unwrap();
    let entrepot = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_entrepot-lab"));
        command.current_dir(at.path()).args(arguments).output().expect("the binary runs")
    };
    for arguments in [
        &["trace", "stats", "bad.spc"][..],
        &["trace", "stats", "good.spc", "bad.spc"],
        &["trace", "stats", "--sort", "bad.spc"],
        &["trace", "convert", "bad.spc", "out.trace"],
        &["sim", "cache", "--trace", "good.spc", "--trace", "bad.spc", "--l1", "ra"],
        &["sim", "tier", "--trace", "bad.spc"],
    ] {
        let refused = entrepot(arguments);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}: {said}");
        assert_eq!(said.matches("bad.spc: line 2: not a number").count(), 1, "{arguments:?}: {said}");
        assert!(said.contains("--lenient"), "{arguments:?}: {said}");
        assert!(!at.path().join("out.trace").exists());
    }
    let lenient = entrepot(&["sim", "cache", "--trace", "bad.spc", "--lenient", "--l1", "ra"]);
    assert!(text(&lenient.stdout).contains("1 malformed lines"), "{}", text(&lenient.stdout));
}

#[test]
fn a_trace_is_cut_into_the_blocks_that_are_asked_for_and_begins_at_its_earliest_record() {
    let at = tempfile::tempdir().unwrap();
    let lines: String = (0..20).map(|n| format!("{} 8 {} {n}\n", n * 8, n % 3)).collect();
    std::fs::write(at.path().join("t.lis"), lines).unwrap();
    let said = |arguments: &[&str]| {
        let run = sim(at.path(), &[&["cache", "--trace"], arguments].concat());
        assert!(run.status.success(), "{}", text(&run.stderr));
        text(&run.stdout)
    };
    assert!(said(&["t.lis", "--closed", "--block", "512"]).contains("160 blocks of 512 bytes"));
    assert!(said(&["t.lis", "--closed"]).contains("160 blocks of 4096 bytes"));
    // The second record is two seconds earlier than the first.
    std::fs::write(at.path().join("t.spc"), "0,0,4096,R,5.0\n0,64,4096,R,3.0\n0,128,4096,R,6.0\n").unwrap();
    let late = said(&["t.spc"]);
    assert!(late.contains("span       3.000 s") && late.contains("1 records are earlier"), "{late}");
}

#[test]
fn tiers_are_compared_with_the_plain_hybrid_and_the_optimum() {
    let at = tempfile::tempdir().unwrap();
    let zipf = "zipf:footprint=64,requests=4000";
    let run = ["tier", "--generate", zipf, "--fast-size", "25%", "--check", "--threads", "2"];
    let first = sim(at.path(), &run);
    let said = text(&first.stdout);
    assert!(first.status.success(), "{}", text(&first.stderr));
    for part in ["footprint", "speed-up", "round-robin", "lru", "lfu", "ws-ros", "tuned", "optimum"] {
        assert!(said.contains(part), "{part} is missing in\n{said}");
    }
    let alone = [&run[..6], &["--threads", "1"]].concat();
    assert_eq!(first.stdout, sim(at.path(), &alone).stdout, "the same on any number of threads");
    let sweep = ["tier", "--generate", zipf, "--schemes", "ws-ros", "--sweep", "hot=1,3", "--output", "csv"];
    let said = text(&sim(at.path(), &sweep).stdout);
    assert!(said.contains("ws-ros hot=1,") && said.contains("ws-ros hot=3,"), "{said}");
}

#[test]
fn mistakes_about_tiers_are_named() {
    let at = tempfile::tempdir().unwrap();
    for (option, value, right) in [
        ("--schemes", "arc", "ws-ros"),
        ("--fast-speed", "fast", "1000/500"),
        ("--sweep", "colour=red", "busy-share"),
        ("--window", "0s", "longer"),
        ("--stripe", "1000", "stripe"),
        ("--without", "luck", "idle-copies"),
        ("--before", "soon", "6ms"),
        ("--page-cache", "4KiB", "room for 1 MiB"),
        ("--slow-size", "much", "size"),
    ] {
        let run = sim(at.path(), &["tier", "--generate", "scan:requests=10", option, value]);
        assert_eq!(run.status.code(), Some(2), "{option} {value}");
        let said = text(&run.stderr);
        assert!(said.contains(right), "{option} {value}: {said}");
    }
}

#[test]
fn stripe_widths_are_predicted_held_against_queues_and_adapted() {
    let at = tempfile::tempdir().unwrap();
    let model = text(&sim(at.path(), &["stripe", "model"]).stdout);
    assert!(model.contains("optimal width          18") && model.contains("largest stable width   45"), "{model}");
    let validate = ["stripe", "validate", "--requests", "300", "--devices", "8", "--scaling", "positioning"];
    let held = text(&sim(at.path(), &validate).stdout);
    assert!(held.contains("one device wide"), "{held}");
    let run = ["stripe", "run", "--devices", "8", "--phases", "2x1MiB@60s,80x16KiB@60s", "--warm-up", "10s"];
    let said = text(&sim(at.path(), &run).stdout);
    assert!(said.contains("model+fuzzy") && said.contains("against the best"), "{said}");
}

#[test]
fn rule_files_are_shown_checked_and_plotted_and_mistakes_named_with_their_line() {
    let at = tempfile::tempdir().unwrap();
    let rules = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_entrepot-lab"));
        command.current_dir(at.path()).arg("rules").args(arguments).output().expect("the binary runs")
    };
    std::fs::write(at.path().join("ours.rules"), rules(&["show"]).stdout).unwrap();
    let ours = text(&rules(&["check", "ours.rules"]).stdout);
    assert!(ours.contains("21 rules"), "{ours}");
    let shown = rules(&["show", "--base", "paper"]);
    std::fs::write(at.path().join("mine.rules"), &shown.stdout).unwrap();
    let checked = text(&rules(&["check", "mine.rules"]).stdout);
    assert!(checked.contains("17 rules") && checked.contains("RequestWidth is never MEDIUM"), "{checked}");
    assert!(text(&rules(&["plot", "mine.rules"]).stdout).contains("1.00 | 9"));
    let wrong = text(&shown.stdout).replacen("is INFREQUENT then", "is RARE then", 1);
    std::fs::write(at.path().join("wrong.rules"), wrong).unwrap();
    let refused = rules(&["check", "wrong.rules"]);
    let said = text(&refused.stderr);
    assert!(refused.status.code() == Some(2) && said.contains("line ") && said.contains("no term RARE"), "{said}");
    let run = sim(at.path(), &["stripe", "run", "--devices", "8", "--rules", "wrong.rules"]);
    assert_eq!(run.status.code(), Some(2));
}

#[test]
fn a_burst_buffer_is_simulated_under_its_schemes() {
    let at = tempfile::tempdir().unwrap();
    let run = ["burst", "--dwpp", "1.6", "--congestion", "low", "--step", "2s", "--periods", "1", "--check"];
    let said = text(&sim(at.path(), &run).stdout);
    for part in ["datawarp", "maxeff", "maxbw", "static:0.9", "bbos", "predicted", "hits %"] {
        assert!(said.contains(part), "{part} is missing in\n{said}");
    }
    for (option, value, right) in [
        ("--schemes", "fast", "maxeff"),
        ("--congestion", "some", "medium"),
        ("--mtbf", "x", "1min"),
        ("--write", "3", "3.56-3.0"),
    ] {
        let wrong = sim(at.path(), &["burst", option, value]);
        let said = text(&wrong.stderr);
        assert!(wrong.status.code() == Some(2) && said.contains(right), "{option} {value}: {said}");
    }
}

#[test]
fn a_whole_volume_is_simulated_as_its_file_sets_it_up() {
    let at = tempfile::tempdir().unwrap();
    let target =
        |name: &str, tier: &str| format!("[[target]]\nname = \"{name}\"\npath = \"{name}\"\ntier = \"{tier}\"\n");
    let targets = [("f0", "fast"), ("f1", "fast"), ("s0", "slow"), ("s1", "slow"), ("s2", "slow")];
    let targets: String = targets.iter().map(|(name, tier)| target(name, tier)).collect();
    let toml = format!(
        "namespace = \"n\"\nstate = \"s\"\n[tier.fast]\n[tier.slow]\n{targets}[layout]\nsegment = \"8MiB\"\n\
         [burst]\nfast = \"fast\"\ncapacity = \"slow\"\nsize = \"4GB\"\n\
         [tiering]\npolicy = \"tuned\"\nfast = \"fast\"\nslow = \"slow\"\n[stripes]\nmode = \"model\"\n"
    );
    std::fs::write(at.path().join("volume.toml"), toml).unwrap();
    let load = ["--span", "2h", "--jobs", "4", "--input", "256MiB", "--checkpoint", "512MiB", "--checkpoints", "2"];
    let rest = ["--files", "8", "--file-size", "64MiB", "--requests", "500", "--faults", "1", "--check"];
    let run: Vec<&str> = ["volume", "volume.toml"].into_iter().chain(load).chain(rest).collect();
    let first = sim(at.path(), &run);
    let said = text(&first.stdout);
    assert!(first.status.success(), "{}", text(&first.stderr));
    for part in ["checkpoint latency s", "changes by burst", "targets that failed"] {
        assert!(said.contains(part), "{part} is missing in\n{said}");
    }
    assert_eq!(first.stdout, sim(at.path(), &run).stdout);
    let traced: Vec<&str> = run.iter().copied().chain(["--generate", "zipf", "--limit-requests", "200"]).collect();
    assert!(text(&sim(at.path(), &traced).stdout).contains("requests"));
    let missing = sim(at.path(), &["volume", "none.toml"]);
    assert!(missing.status.code() == Some(2) && text(&missing.stderr).contains("none.toml"));
}

#[test]
fn a_volume_with_one_tier_serves_its_files_and_protects_the_input_of_jobs() {
    let at = tempfile::tempdir().unwrap();
    let target = |n: u32| format!("[[target]]\nname = \"t{n}\"\npath = \"t{n}\"\ntier = \"disk\"\n");
    let targets: String = (0..5).map(target).collect();
    let toml = format!(
        "namespace = \"n\"\nstate = \"s\"\n[tier.disk]\n{targets}[layout]\nstripe_count = 2\n\
         [replication]\npolicy = \"all\"\ndelay = \"2s\"\n"
    );
    std::fs::write(at.path().join("volume.toml"), toml).unwrap();
    let load = ["--jobs", "1", "--span", "60s", "--input", "64MiB", "--checkpoints", "0", "--requests", "100"];
    let rest = ["--faults", "1", "--seed", "1", "--check", "--output", "json"];
    let run = sim(at.path(), &["volume", "volume.toml"].into_iter().chain(load).chain(rest).collect::<Vec<_>>());
    let said: serde_json::Value = serde_json::from_slice(&run.stdout).expect("JSON");
    let figures = &said["figures"];
    let number = |of: &serde_json::Value| of.as_f64().expect("a number");
    let (answered, failed) = (number(&figures["requests"]), number(&figures["requests_failed"]));
    assert!(number(&figures["jobs"]) == 1.0 && answered + failed == 100.0 && answered > failed, "{figures}");
    assert_eq!(figures["copied_bytes"]["replicas"], figures["job_times"][0]["input_bytes"]);
    assert!(number(&figures["copy_s"]["replicas"]) > 0.0);
    assert!(number(&figures["faults"][0]["at_s"]) < 60.0, "{figures}");
}

/// A small log, busy enough for a queue, and failure records of four nodes.
fn center_files(at: &Path) {
    let job = |n: u64| format!("{n} {} 0 {} {} -1 -1 -1 9000 -1 1\n", n * 500, 600 + n * 7919 % 7000, 1 + n % 16);
    let log: String = (0..300).map(job).collect();
    let log = format!("; MaxProcs: 40\n{log}301 150000 0 -1 1 -1 -1 1 60 -1 5\n302 150000 0 10 99 -1 -1 1 60 -1 1\n");
    std::fs::write(at.join("log.swf"), log).unwrap();
    let record = |n: u64| {
        let (day, hour) = (1 + n / 4 % 27, 6 * (n % 4));
        let node = n % 4;
        format!("1,c,4,8,2,{node},0,a,b,c,part,1,1,1,0,x,1/{day}/2000 {hour}:00,1/{day}/2000 {}:30,90\n", hour + 1)
    };
    std::fs::write(at.join("f.csv"), "head\n".to_owned() + &(0..60).map(record).collect::<String>()).unwrap();
}

#[test]
fn a_centre_shows_its_census_its_fit_and_what_became_of_its_promises() {
    let at = tempfile::tempdir().unwrap();
    center_files(at.path());
    let centre = ["center", "--jobs", "log.swf", "--failures", "f.csv", "--system", "1", "--set", "io-nodes=4"];
    let one = [&centre[..], &["--recovery", "none", "--replication", "shortcut", "--check"]].concat();
    let first = sim(at.path(), &one);
    let said = text(&first.stdout);
    assert!(first.status.success(), "{}", text(&first.stderr));
    for part in ["records      302", "cancelled 1", "too wide 1", "Weibull", "broken 0", "at risk"] {
        assert!(said.contains(part), "{part} is missing in\n{said}");
    }
    let timeline = sim(at.path(), &[&one[..], &["--timeline", "samples.csv"]].concat());
    assert_eq!(first.stdout, timeline.stdout);
    let samples = std::fs::read_to_string(at.path().join("samples.csv")).unwrap();
    assert!(samples.lines().count() > 290 && samples.starts_with("at_s,waiting,busy,copies,copy_bytes\n"));
    let schedule = |name: &str| {
        let run = sim(at.path(), &[&one[..], &["--output", "json", "--schedule", name]].concat());
        assert!(run.status.success(), "{}", text(&run.stderr));
        (run.stdout, std::fs::read(at.path().join(name)).unwrap())
    };
    let (json, jobs) = schedule("jobs.csv");
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let jobs = String::from_utf8(jobs).unwrap();
    let rows: Vec<Vec<f64>> =
        jobs.lines().skip(1).map(|line| line.split(',').map(|cell| cell.parse().unwrap()).collect()).collect();
    assert!(rows.len() == 300 && jobs.starts_with("job,processors,estimate_s,submit_s,start_s,end_s,wait_s,harmed\n"));
    assert!(rows.iter().all(|row| row[4] - row[3] == row[6] && row[5] > row[4]), "{jobs}");
    let mean = rows.iter().map(|row| row[6]).sum::<f64>() / 300.0;
    assert!((mean - json["report"]["all"]["mean_s"].as_f64().unwrap()).abs() < 1e-6, "{mean}");
    let both = sim(at.path(), &[&one[..], &["--repeats", "2", "--schedule", "jobs.csv"]].concat());
    assert!(both.status.code() == Some(2) && text(&both.stderr).contains("--repeats"), "{}", text(&both.stderr));
    let sweep = ["--sweep", "stripes=1,4", "--sweep", "recovery=none,on-the-fly,ideal", "--repeats", "2"];
    let sweep = [&centre[..], &sweep, &["--output", "csv"]].concat();
    let table = sim(at.path(), &[&sweep[..], &["--threads", "3"]].concat());
    assert_eq!(text(&table.stdout).lines().count(), 7, "{}", text(&table.stderr));
    assert_eq!(table.stdout, sim(at.path(), &[&sweep[..], &["--threads", "1"]].concat()).stdout);
}

#[test]
fn mistakes_about_a_centre_are_named() {
    let at = tempfile::tempdir().unwrap();
    center_files(at.path());
    for (arguments, part) in [
        (vec!["--jobs", "none.swf"], "none.swf"),
        (vec!["--jobs", "f.csv"], "line 1 is no job"),
        (vec!["--jobs", "log.swf", "--recovery", "later"], "on-the-fly"),
        (vec!["--jobs", "log.swf", "--set", "stripe=4"], "stripes"),
        (vec!["--jobs", "log.swf", "--set", "stripes"], "NAME=VALUE"),
        (vec!["--jobs", "log.swf", "--clean", "overrun=forget"], "extend"),
        (vec!["--jobs", "log.swf", "--failures", "f.csv"], "nothing of system 20"),
        (vec!["--jobs", "log.swf", "--failures", "f.csv", "--system", "1"], "I/O nodes"),
    ] {
        let said = sim(at.path(), &[&["center"][..], &arguments].concat());
        assert_eq!(said.status.code(), Some(2), "{arguments:?}");
        assert!(text(&said.stderr).contains(part), "{arguments:?}: {}", text(&said.stderr));
    }
}

#[test]
fn a_cluster_shows_what_its_nodes_ask_and_how_many_there_may_be() {
    let at = tempfile::tempdir().unwrap();
    let arguments = ["cluster", "--nodes", "3,30", "--span", "10s", "--output", "csv"];
    let first = sim(at.path(), &arguments);
    assert!(first.status.success(), "{}", text(&first.stderr));
    assert_eq!(first.stdout, sim(at.path(), &arguments).stdout, "the same run twice");
    let said = text(&first.stdout);
    let mut lines = said.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let names = lines.next().expect("a heading");
    let rows: Vec<_> = lines.collect();
    let figure = |row: usize, name: &str| {
        let column = names.iter().position(|known| *known == name).expect(name);
        rows[row][column].parse::<f64>().unwrap_or_else(|_| panic!("{name}: {:?}", rows[row]))
    };
    assert_eq!((rows.len(), figure(0, "nodes"), figure(1, "nodes")), (2, 3.0, 30.0));
    assert!(figure(1, "renewals") > 8.0 * figure(0, "renewals"), "{said}");
    for row in [0, 1] {
        assert!(figure(row, "takeover_s") < 10.0 && figure(row, "lapses") == 0.0, "{said}");
    }
    assert_eq!(figure(0, "lease_nodes"), figure(1, "lease_nodes"), "it does not depend on the nodes");
    let shown = sim(at.path(), &["cluster", "--nodes", "3", "--span", "5s"]);
    assert!(text(&shown.stdout).contains("nodes whose leases the namespace serves"), "{}", text(&shown.stdout));
    let few = sim(at.path(), &["cluster", "--nodes", "3", "--gone", "5"]);
    assert_eq!(few.status.code(), Some(2));
    assert!(text(&few.stderr).contains("--gone"), "{}", text(&few.stderr));
}

#[test]
fn miss_ratios_are_drawn_as_they_are_printed() {
    let at = tempfile::tempdir().unwrap();
    let common = ["replacement", "--generate", "zipf:requests=2000", "--policy", "lru,sieve"];
    let curve = sim(at.path(), &[&common[..], &["--curve", "--plot", "curve.svg"]].concat());
    assert!(curve.status.success(), "{}", text(&curve.stderr));
    let drawn = std::fs::read_to_string(at.path().join("curve.svg")).unwrap();
    assert!(drawn.starts_with("<svg") && drawn.matches("<polyline").count() == 4, "{drawn}");
    let bars = sim(at.path(), &[&common[..], &["--size", "10,20", "--plot", "bars.svg"]].concat());
    assert!(bars.status.success(), "{}", text(&bars.stderr));
    let drawn = std::fs::read_to_string(at.path().join("bars.svg")).unwrap();
    assert_eq!(drawn.matches("class=\"bar").count(), 6, "{drawn}");
    for (path, code) in [("curve.png", 2), ("/nonexistent/curve.svg", 5)] {
        let refused = sim(at.path(), &[&common[..], &["--plot", path]].concat());
        assert_eq!(refused.status.code(), Some(code), "{}", text(&refused.stderr));
        assert!(refused.stdout.is_empty());
    }
}

#[test]
fn hits_and_misses_of_each_policy_add_up_to_the_accesses() {
    let at = tempfile::tempdir().unwrap();
    let run = ["replacement", "--generate", "oltp:scale=0.001", "--size", "1,5%,200%", "--output", "json"];
    let shown: serde_json::Value = serde_json::from_slice(&sim(at.path(), &run).stdout).unwrap();
    let number = |of: &serde_json::Value| of.as_u64().unwrap();
    let (accesses, points) = (number(&shown["accesses"]), shown["points"].as_array().unwrap());
    assert_eq!((number(&shown["bytes"]), points.len()), (accesses * 4096, 11 * 3));
    for point in points {
        let [hits, misses] = ["hits", "misses"].map(|of| number(&point["accounts"][of]));
        assert_eq!(hits + misses, accesses, "{point}");
        assert!((misses as f64 / accesses as f64 - point["miss_ratio"].as_f64().unwrap()).abs() < 1e-12, "{point}");
    }
}

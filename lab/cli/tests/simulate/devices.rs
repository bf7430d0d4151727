//! Devices as files, and the log of requests.

use super::{sim, text};

#[test]
fn a_built_in_device_from_a_file_gives_the_same_figures_and_an_array_may_be_in_it() {
    let at = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(at.path().join(name), text).unwrap();
    write("mine.toml", include_str!("../../../sim/devices/cheetah9lp.toml"));
    write("array.toml", "device = \"cheetah9lp\"\narray = { raid = 5, disks = 5, stripe_unit = \"64KiB\" }\n");
    write("wrong.toml", "device = \"cheetah9lp\"\nspeed = 3\n");
    let run = |disk: &[&str]| {
        let common = ["cache", "--generate", "oltp:scale=0.001", "--l1", "ra", "--l1-size", "5%", "--output", "csv"];
        sim(at.path(), &[&common, disk].concat())
    };
    let built_in = run(&[]);
    assert!(built_in.status.success(), "{}", text(&built_in.stderr));
    assert_eq!(run(&["--disk", "mine.toml"]).stdout, built_in.stdout);
    let words = run(&["--disks", "5", "--raid", "5"]);
    assert_eq!(run(&["--disk", "array.toml"]).stdout, words.stdout);
    assert_ne!(words.stdout, built_in.stdout);
    for (disk, part) in [("wrong.toml", "unknown field"), ("none.toml", "No such file"), ("floppy", "NAME.toml")] {
        let refused = run(&["--disk", disk]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(text(&refused.stderr).contains(part), "{}", text(&refused.stderr));
    }
    let stripes = ["stripe", "run", "--disk", "mine.toml", "--devices", "4", "--phases", "5x64KiB@40s"];
    let stripes = sim(at.path(), &[&stripes[..], &["--modes", "fixed:1"]].concat());
    assert!(stripes.status.success(), "{}", text(&stripes.stderr));
}

#[test]
fn the_log_has_every_request_and_their_mean_is_the_reports() {
    let at = tempfile::tempdir().unwrap();
    let run = ["cache", "--generate", "oltp:scale=0.001", "--l1", "ra", "--l1-size", "5%", "--output", "json"];
    let run = sim(at.path(), &[&run[..], &["--log", "log.csv"]].concat());
    assert!(run.status.success(), "{}", text(&run.stderr));
    let reads = &serde_json::from_slice::<serde_json::Value>(&run.stdout).unwrap()["report"]["reads"];
    let log = std::fs::read_to_string(at.path().join("log.csv")).unwrap();
    assert!(log.starts_with("time_s,client,stream,file,first_block,blocks,op,response_ms\n"), "{}", &log[..200]);
    let of_reads = log.lines().filter_map(|line| line.split_once(",read,")?.1.parse::<f64>().ok());
    let of_reads: Vec<f64> = of_reads.collect();
    assert_eq!(of_reads.len() as u64, reads["count"].as_u64().unwrap());
    let mean = of_reads.iter().sum::<f64>() / of_reads.len() as f64;
    assert!((mean - reads["mean_ms"].as_f64().unwrap()).abs() < 1e-4, "{mean} and {reads}");
    let untimed = ["cache", "--generate", "oltp:scale=0.001", "--l1", "none", "--disk", "none", "--log", "log.csv"];
    assert_eq!(sim(at.path(), &untimed).status.code(), Some(2));
}

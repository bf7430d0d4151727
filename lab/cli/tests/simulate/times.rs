//! Traces without times in every command, and a whole volume that comes to rest.

use super::{sim, text};
use std::path::Path;
use std::process::Command;

/// Fast and slow targets with every mechanism on. Under four jobs a demotion is given up whose next step is days away.
const VOLUME: &str = r#"
name = "lab"
namespace = "namespace"
state = "state"
[tier.nvme]
[tier.disk]
speed = "150/140"
latency = "8ms"
[layout]
segment = "32MiB"
stripe_size = "1MiB"
stripe_count = 2
[burst]
fast = "nvme"
capacity = "disk"
size = "300GB"
[tiering]
policy = "tuned"
fast = "nvme"
slow = "disk"
share_percent = 40
[stripes]
mode = "model"
tier = "disk"
forks = 2
[replication]
policy = "shortcut"
"#;

fn volume_file(at: &Path) {
    let target = |n: usize| {
        let tier = if n < 3 { "nvme" } else { "disk" };
        format!("[[target]]\nname = \"t{n}\"\npath = \"t{n}\"\ntier = \"{tier}\"\n")
    };
    std::fs::write(at.join("volume.toml"), VOLUME.to_owned() + &(0..9).map(target).collect::<String>()).unwrap();
}

#[test]
fn a_volume_comes_to_rest_and_counts_every_request() {
    let at = tempfile::tempdir().unwrap();
    volume_file(at.path());
    for (load, requests, fails) in [
        (["--jobs", "4", "--span", "1h", "--requests", "0"], 0, false),
        (["--jobs", "1", "--span", "10min", "--requests", "400"], 400, true),
    ] {
        let faults: &[&str] = if fails { &["--faults", "4"] } else { &[] };
        let given = ["volume", "volume.toml", "--output", "json", "--seed", "3"];
        let run = sim(at.path(), &[&given, &load[..], faults].concat());
        assert!(run.status.success(), "{}", text(&run.stderr));
        let said: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
        let count = |name: &str| said["figures"][name].as_u64().unwrap();
        assert_eq!(count("requests") + count("requests_failed"), requests, "{said}");
        assert_eq!(count("requests_failed") > 0, fails, "{said}");
        let sum = |list: &str, name: &str| {
            said["figures"][list].as_array().unwrap().iter().map(|of| of[name].as_f64().unwrap()).sum::<f64>()
        };
        let in_hours = ["requests", "checkpoints"].map(|name| sum("hours", name) as u64);
        assert_eq!(in_hours, [count("requests"), count("checkpoints")], "{said}");
        let copied = said["figures"]["copied_bytes"].as_object().unwrap().values().map(|of| of.as_u64().unwrap());
        assert_eq!(sum("hours", "copied_bytes") as u64, copied.sum::<u64>(), "{said}");
        let mean_s = sum("job_times", "checkpoints_s") / count("checkpoints") as f64;
        assert!(fails || (mean_s / said["figures"]["checkpoint_s"].as_f64().unwrap() - 1.0).abs() < 1e-6, "{said}");
        let of = |name: &str| {
            let targets = said["figures"]["targets"].as_array().unwrap();
            targets.iter().map(|target| target[name].as_f64().unwrap()).collect::<Vec<_>>()
        };
        let busy = of("busy");
        assert!(busy.iter().all(|busy| (0.0..=1.0).contains(busy)) && busy.iter().sum::<f64>() > 0.0, "{said}");
        assert!(of("written_bytes").iter().sum::<f64>() > 1e9 && said["volume"].is_string(), "{said}");
    }
}

#[test]
fn a_trace_without_times_stays_one_in_every_format_and_command() {
    let at = tempfile::tempdir().unwrap();
    volume_file(at.path());
    std::fs::write(at.path().join("a.lis"), "10 4 0 0\n90 2 0 1\n11 1 0 2\n").unwrap();
    std::fs::write(at.path().join("same.spc"), "0,8,4096,r,1.5\n0,16,4096,r,1.5\n").unwrap();
    let convert = |from: &str, to: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_entrepot-lab"));
        command.current_dir(at.path()).args(["trace", "convert", from, to]).output().expect("the binary runs")
    };
    assert!(convert("a.lis", "a.trace").status.success());
    let before = std::fs::read(at.path().join("a.lis")).unwrap();
    let onto_itself = convert("a.lis", "./a.lis");
    assert_eq!((onto_itself.status.code(), std::fs::read(at.path().join("a.lis")).unwrap()), (Some(2), before));
    for trace in ["a.lis", "a.trace", "same.spc"] {
        for command in
            [&["cache", "--l1", "none"][..], &["tier", "--open", "--fast-size", "50%"], &["volume", "volume.toml"]]
        {
            let refused = sim(at.path(), &[command, &["--trace", trace]].concat());
            let said = text(&refused.stderr);
            assert!(refused.status.code() == Some(2) && said.contains("no times of its requests"), "{trace}: {said}");
        }
        let closed = sim(at.path(), &["cache", "--closed", "--l1", "none", "--l1-size", "10", "--trace", trace]);
        assert!(closed.status.success(), "{}", text(&closed.stderr));
    }
}

/// A trace without times is not replayed as if all of it came at once.
#[test]
fn a_trace_without_times_needs_a_closed_loop() {
    let at = tempfile::tempdir().unwrap();
    let numbers: String = (0..50).map(|n| format!("{}\n", n * 7 % 30)).collect();
    std::fs::write(at.path().join("t.lirs"), numbers).unwrap();
    std::fs::write(
        at.path().join("t.iolog"),
        "fio version 2 iolog\n/a add\n/a open\n/a read 0 4096\n/a read 4096 4096\n",
    )
    .unwrap();
    for trace in ["t.lirs", "t.iolog"] {
        let open = sim(at.path(), &["cache", "--trace", trace]);
        let said = text(&open.stderr);
        assert_eq!(open.status.code(), Some(2), "{said}");
        assert!(said.contains("--closed") && said.contains("nothing was simulated"), "{said}");
        for instead in [&["--closed"][..], &["--paced"], &["--disk", "none"]] {
            let done = sim(at.path(), &[&["cache", "--trace", trace], instead].concat());
            assert!(done.status.success(), "{instead:?}: {}", text(&done.stderr));
        }
        let tiers = sim(at.path(), &["tier", "--trace", trace, "--open"]);
        assert!(tiers.status.code() == Some(2) && text(&tiers.stderr).contains("--open"), "{}", text(&tiers.stderr));
    }
    // Times that are all alike are shown, and are no times for a replay.
    std::fs::write(at.path().join("t.spc"), "0,0,4096,R,5.0\n0,64,4096,R,5.0\n").unwrap();
    assert_eq!(sim(at.path(), &["cache", "--trace", "t.spc"]).status.code(), Some(2));
    let stats = Command::new(env!("CARGO_BIN_EXE_entrepot-lab"))
        .current_dir(at.path())
        .args(["trace", "stats", "t.spc"])
        .output();
    let stats = text(&stats.unwrap().stdout);
    assert!(stats.contains("all at 5.000 s") && !stats.contains("no times"), "{stats}");
}

//! A volume that stripes its files as wide as their load allows.

use crate::real::{Volume, noise, out, until};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;

/// Disks that take 10 ms to find anything and read 20 MB/s, so that the model wants large reads wide.
fn adaptive(toml: String, mode: &str, more: &str) -> String {
    let measured = "device = \"disk:seek=12ms,revolution=8ms,read=20MB/s,write=20MB/s,overhead=0.1ms\"\ntier = ";
    let toml = toml.replace("\ntier = ", &format!("\n{measured}"));
    let toml = toml.replacen("[mount]", "[mount]\nio = \"direct\"", 1);
    let section = format!("[stripes]\nmode = \"{mode}\"\nwindow = \"1s\"\ninterval = \"100ms\"\n{more}");
    toml.replacen("[stripes]", &section, 1)
}

/// Between two reads: some forty a second, which keeps these disks busy, and eight, which leaves them idle.
const BUSY: Duration = Duration::from_millis(25);
const CALM: Duration = Duration::from_millis(125);

/// Reads, with that pause between two, until `enough` returns true; every byte must be as it was written.
fn read_until(
    volume: &Volume,
    data: &[u8],
    (sizes, pause): (&[usize], Duration),
    what: &str,
    enough: impl Fn() -> bool,
) {
    let until = Instant::now() + Duration::from_secs(30);
    let mut buffer = vec![0; MIB];
    let open = || std::fs::File::open(volume.at.join("file")).expect("open");
    let mut file = open();
    for n in 0.. {
        if n % 20 == 0 {
            // The kernel may still have had the file open for writing, and then keeps the reads of a handle in its page
            // cache.
            file = open();
        }
        let size = sizes[n % sizes.len()];
        let at = n * 7 % (data.len() / size) * size;
        file.read_exact_at(&mut buffer[..size], at as u64).expect("read");
        assert!(buffer[..size] == data[at..at + size], "other bytes at {at}");
        std::thread::sleep(pause);
        if n % 20 == 19 && enough() {
            return;
        }
        assert!(
            Instant::now() < until,
            "never {what}: {}\n{}",
            out(&volume.run(&["status"])),
            out(&volume.run(&["explain", "file"]))
        );
    }
}

/// [S-130]
#[test]
fn large_reads_make_a_file_wide_while_it_is_read() {
    // One segment from the start: what grows in several may have got stripes for its own writing half way.
    let whole = |toml: String| toml.replacen("[layout]", "[layout]\nsingle_max = 0", 1);
    let Some(volume) = Volume::up_with(|toml| whole(adaptive(toml, "model", ""))) else { return };
    let data = noise(8 * MIB);
    let path = volume.at.join("file");
    std::fs::write(&path, &data).expect("write");
    let path = path.to_str().expect("UTF-8");
    let layout = || -> serde_json::Value {
        serde_json::from_str(&out(&volume.run(&["layout", path, "--output", "json"]))).expect("JSON")
    };
    // On idle disks, more of them at once are faster; a busy set of disks is a near thing. While the write is in the
    // window, the file may be striped for it first, and for the reads once they are alone in the window.
    let unit = || layout()["mirrors"][0]["segments"][0]["stripe_size"].as_u64().expect("a size");
    let explained = || out(&volume.run(&["explain", path]));
    let for_reads = || unit() < MIB as u64 && explained().contains("Recent load:");
    read_until(&volume, &data, (&[MIB], CALM), "striped for large reads", for_reads);
    assert!(std::fs::read(path).expect("read") == data);
    let text = explained();
    assert!(text.contains("striped again"), "{text}");
    assert!(text.contains("the model expects shorter response times at") && text.contains("Recent load:"), "{text}");
    let status = out(&volume.run(&["status"]));
    assert!(status.contains("stripes  model:") && status.contains("new files get stripes of"), "{status}");
    assert_eq!(layout()["mirrors"].as_array().map(Vec::len), Some(1));
    let numbers = out(&volume.run(&["stats", "--prometheus"]));
    let restriped = numbers.lines().find_map(|line| line.strip_prefix("entrepot_stripes_restriped_total{"));
    assert!(restriped.is_some_and(|n| !n.ends_with(" 0")), "{numbers}");
    // An explicit layout request is kept under any load.
    let asked = volume.at.join("asked");
    std::fs::create_dir(&asked).expect("mkdir");
    volume.ok(&["layout", "set", asked.to_str().expect("UTF-8"), "stripe_count=2", "stripe_size=2MiB"]);
    std::fs::write(asked.join("own"), &data).expect("write");
    let own = out(&volume.run(&["explain", asked.join("own").to_str().expect("UTF-8")]));
    assert!(own.contains("in stripes of 2.0 MiB over 2 objects"), "{own}");
    volume.until_nothing_is_left();
    volume.ok(&["down"]);
}

/// [S-131]
#[test]
fn forks_are_read_by_size_written_with_the_rest_and_remembered() {
    let Some(volume) =
        Volume::up_with(|toml| adaptive(toml, "model", "forks = 2\nfork_space_percent = 1\nmargin_percent = 1\n"))
    else {
        return;
    };
    let mut data = noise(8 * MIB);
    let path = volume.at.join("file");
    std::fs::write(&path, &data).expect("write");
    let mirrors = |volume: &Volume| {
        let text = out(&volume.run(&["layout", path.to_str().expect("UTF-8"), "--output", "json"]));
        let layout: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        layout["mirrors"].as_array().map_or(0, Vec::len)
    };
    // Far more than these disks could bear: whatever shortens the queues is wished for.
    read_until(&volume, &data, (&[64 << 10, MIB], BUSY), "forked", || mirrors(&volume) == 2);
    let explained = out(&volume.run(&["explain", path.to_str().expect("UTF-8")]));
    assert!(explained.contains("1 of its 2 mirrors are forks"), "{explained}");
    let file = std::fs::File::options().write(true).open(&path).expect("open");
    let patch = noise(100_000);
    file.write_all_at(&patch, 3_000_000).expect("write");
    data[3_000_000..3_100_000].copy_from_slice(&patch);
    drop(file);
    read_until(&volume, &data, (&[64 << 10, MIB], BUSY), "read", || true);
    volume.until_nothing_is_left();
    volume.ok(&["down"]);
    volume.up_again();
    let status = out(&volume.run(&["status"]));
    assert!(status.contains("1 with forks"), "{status}");
    assert!(std::fs::read(&path).expect("read") == data);
    volume.ok(&["down"]);
}

/// [S-132]
#[test]
fn tiers_decide_where_and_stripes_how_wide() {
    let Some(volume) = Volume::up_with(|toml| {
        let toml = adaptive(toml, "model", "forks = 2\nfork_space_percent = 1\n");
        let toml = toml.replacen("[layout]", "[layout]\nsingle_max = 0\nsegment = \"1MiB\"", 1);
        let toml = toml.replacen("[tier.fast]", "[tier.fast]\nspeed = \"400/400\"", 1);
        let toml = toml.replacen("[tier.capacity]", "[tier.capacity]\nspeed = \"20/20\"\nlatency = \"10ms\"", 1);
        toml.replacen("[tiering]", "[tiering]\npolicy = \"lfu\"\n", 1)
    }) else {
        return;
    };
    let data = noise(8 * MIB);
    let path = volume.at.join("file");
    std::fs::write(&path, &data).expect("write");
    let status = || out(&volume.run(&["status"]));
    let segments = |name: &str| {
        let layout = volume.json(&["layout", name]);
        assert_eq!(layout["mirrors"].as_array().map(Vec::len), Some(1), "no fork: {layout}");
        layout["mirrors"][0]["segments"].as_array().expect("segments").clone()
    };
    let units =
        |name: &str| segments(name).iter().map(|s| s["stripe_size"].as_u64().expect("a size")).collect::<Vec<_>>();
    let before = units("file");
    // The load suggests another layout; files in segments on tiers are never restriped.
    read_until(&volume, &data, (&[MIB], BUSY), "wished for", || status().contains("new files get stripes of"));
    read_until(&volume, &data, (&[MIB], BUSY), "read for a while", || true);
    let numbers = out(&volume.run(&["stats", "--prometheus"]));
    assert_eq!(volume.counted("stripes_restriped"), 0, "{numbers}");
    assert_eq!(units("file"), before);
    // New files get the width that the load suggests, in segments that tiering can move.
    let next = volume.at.join("next");
    until("what comes lies wider", || {
        read_until(&volume, &data, (&[MIB], BUSY), "read for a while", || true);
        drop(std::fs::remove_file(&next));
        std::fs::write(&next, &data).expect("write");
        units("next")[0] < MIB as u64
    });
    assert!(units("next").len() >= 8, "{:?}", units("next"));
    let ends: Vec<_> = segments("next").iter().map(|segment| segment["end"].clone()).collect();
    assert!(ends.iter().all(serde_json::Value::is_u64), "{ends:?}");
    assert!(std::fs::read(&next).expect("read") == data && std::fs::read(&path).expect("read") == data);
    let explained = out(&volume.run(&["explain", path.to_str().expect("UTF-8")]));
    assert!(explained.contains("Its last requests look like this: "), "{explained}");
    volume.until_nothing_is_left();
    volume.ok(&["down"]);
}

#[test]
fn rules_that_cannot_be_used_stop_the_start() {
    let dir = tempfile::tempdir().expect("temp dir");
    let run = |words: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_entrepot"));
        command.args(words).env_remove("ENTREPOT_VOLUME").current_dir(dir.path()).output().expect("it runs")
    };
    assert!(run(&["init", "vol"]).status.success());
    let file = dir.path().join("vol/volume.toml");
    let toml = std::fs::read_to_string(&file).expect("volume.toml");
    std::fs::create_dir(dir.path().join("mnt")).expect("mkdir");
    std::fs::write(dir.path().join("vol/bad.rules"), "if Rate is HIGH then Width is LOW\n").expect("write");
    for (words, said) in [
        ("mode = \"fuzzy\"\nrules = \"bad.rules\"\n", "bad.rules, line 1"),
        ("mode = \"fuzzy\"\nrules = \"none.rules\"\n", "none.rules"),
        ("mode = \"model\"\nsensors = false\n", "without sensors"),
        ("mode = \"modle\"\n", "model+fuzzy"),
        ("widths = \"0,1\"\n", "1,2,4,8"),
        ("tier = \"nowhere\"\n", "fast, capacity"),
        ("weights = \"bad.rules\"\n", "bad.rules: line 1"),
        ("classifier = \"oracle\"\n", "rules-of-thumb"),
    ] {
        std::fs::write(&file, toml.replacen("[stripes]", &format!("[stripes]\n{words}"), 1)).expect("write");
        let refused = run(&["up", "vol/volume.toml", "--at", "mnt"]);
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{words}: {text}");
        assert!(text.contains(said) && text.contains("next: "), "{words}: {text}");
    }
}

//! The classifier on DXT records of IO500's phases, whose patterns are known by their names. Skipped where the data are not there.

use flate2::read::GzDecoder;
use policy::pattern::features::WINDOW;
use policy::pattern::network::{BUILT_IN, Network};
use policy::pattern::rules::RulesOfThumb;
use policy::pattern::{Label, Mix, Order, Request, Sizes};
use sim::patterns::accuracy;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

/// The folder of the lists, in `$ENTREPOT_DATA` or beside the repository.
fn lists() -> Vec<PathBuf> {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let dir = std::env::var_os("ENTREPOT_DATA").map_or(beside, PathBuf::from).join("darshan-logs/io500-trace-ds");
    let Ok(found) = std::fs::read_dir(&dir) else {
        println!("skipped: {} is not there", dir.display());
        return Vec::new();
    };
    let mut lists: Vec<_> = found.filter_map(|entry| Some(entry.ok()?.path())).collect();
    lists.sort();
    lists
}

/// Requests of each rank and direction, in their order: `index,file_id,file_name,api,rank,operation,segment,offset,size,...`.
fn streams(path: &Path) -> BTreeMap<(String, String, bool), Vec<Request>> {
    let mut streams: BTreeMap<_, Vec<Request>> = BTreeMap::new();
    let file = BufReader::new(GzDecoder::new(File::open(path).expect("a list")));
    for line in file.lines().skip(1) {
        let line = line.expect("text");
        let words: Vec<&str> = line.split(',').collect();
        let (write, offset, len) =
            (words[5] == "write", words[7].parse().expect("offset"), words[8].parse().expect("size"));
        let key = (words[1].to_owned(), format!("{} {}", words[3], words[4]), write);
        streams.entry(key).or_default().push(Request { write, offset, len });
    }
    streams
}

#[test]
fn io500_phases_are_called_by_their_names() {
    let network = Network::parse(BUILT_IN).expect("the built-in weights");
    let mut windows = Vec::new();
    for path in lists() {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let order = if name.starts_with("ior-rnd") { Order::Random } else { Order::Sequential };
        for ((_, _, write), requests) in streams(&path) {
            let mix = if write { Mix::WriteOnly } else { Mix::ReadOnly };
            let label = Label { mix, order, sizes: Sizes::Uniform };
            windows.extend(requests.chunks(WINDOW).map(|window| (window.to_vec(), label)));
        }
    }
    if windows.is_empty() {
        return;
    }
    let (trained, rules) =
        (accuracy(&network, windows.iter().cloned()), accuracy(&RulesOfThumb, windows.iter().cloned()));
    println!("network {trained:?}\nrules of thumb {rules:?}");
    assert!(trained.windows > 500 && trained.all > 0.9 && rules.all > 0.9, "{trained:?} {rules:?}");
}

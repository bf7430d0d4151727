//! Merged files: reads of several files in turns, before and after `entrepot layout merge`, and of one of them alone.

use super::rig::Rig;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

/// Files that are read together.
const NAMES: [&str; 4] = ["u", "v", "w", "x"];
/// Bytes of one turn.
const TURN: u64 = 64 << 10;

/// Bytes of each file.
const FILE_BYTES: u64 = 16 << 20;

/// Reads the files in turns from their beginning for so many seconds; gives bytes per second.
fn in_turns(paths: &[impl AsRef<Path>], seconds: f64) -> f64 {
    let files: Vec<File> = paths.iter().map(|path| File::open(path).expect("a file of the volume")).collect();
    // On a page's border: else the kernel makes two requests of one.
    let mut memory = vec![0; TURN as usize + 4096];
    let from = memory.as_ptr().align_offset(4096);
    let buffer = &mut memory[from..from + TURN as usize];
    let (began, mut bytes) = (Instant::now(), 0);
    for turn in (0..FILE_BYTES / TURN).cycle() {
        for file in &files {
            file.read_exact_at(buffer, turn * TURN).expect("bytes of the volume");
            bytes += TURN;
        }
        if began.elapsed().as_secs_f64() >= seconds {
            break;
        }
    }
    bytes as f64 / began.elapsed().as_secs_f64()
}

/// Before and after, together and alone.
pub fn measure(rig: &Rig, seconds: f64) {
    rig.up("");
    NAMES.iter().for_each(|name| rig.make(name, Some(TURN), FILE_BYTES));
    let paths: Vec<_> = NAMES.iter().map(|name| rig.file(name)).collect();
    let both = || [in_turns(&paths, seconds), in_turns(&paths[..1], seconds)].map(|bytes| bytes / 1e6);
    let apart = both();
    rig.merge(&NAMES, TURN);
    let merged = both();
    rig.down();
    println!(
        "\n{} files of {} MiB, read {} KiB of each in turn by one reader: MB/s",
        NAMES.len(),
        FILE_BYTES >> 20,
        TURN >> 10
    );
    println!("            together   one alone");
    println!("apart       {:>8.2}   {:>9.2}", apart[0], apart[1]);
    println!("merged      {:>8.2}   {:>9.2}", merged[0], merged[1]);
    println!("merged is {:.2} times as fast together, {:.2} times alone", merged[0] / apart[0], merged[1] / apart[1]);
}

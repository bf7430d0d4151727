//! The laboratory's command line by itself: help, completions, manual pages, and what wrong input is answered.

#[path = "../../../crates/cli/tests/command_line/words.rs"]
mod words;

use words::{CLOSED, Words};

const WORDS: Words = Words {
    binary: env!("CARGO_BIN_EXE_entrepot-lab"),
    commands: &[
        &[],
        &["bench"],
        &["bench", "device"],
        &["patterns"],
        &["patterns", "train"],
        &["patterns", "eval"],
        &["plot"],
        &["rules"],
        &["rules", "show"],
        &["rules", "check"],
        &["rules", "plot"],
        &["trace"],
        &["trace", "stats"],
        &["trace", "convert"],
        &["trace", "generate"],
        &["tune"],
        &["reproduce"],
        &["sim"],
        &["sim", "cache"],
        &["sim", "disk"],
        &["sim", "disk", "validate"],
        &["sim", "disk", "models"],
        &["sim", "replacement"],
        &["sim", "burst"],
        &["sim", "center"],
        &["sim", "cluster"],
        &["sim", "connections"],
        &["sim", "recovery"],
        &["sim", "stripe"],
        &["sim", "stripe", "model"],
        &["sim", "stripe", "validate"],
        &["sim", "stripe", "clients"],
        &["sim", "stripe", "run"],
        &["sim", "tier"],
        &["sim", "volume"],
        &["emulate-disk"],
        &["completions"],
        &["man"],
    ],
};

#[test]
fn every_command_has_help_with_an_example() {
    WORDS.every_command_has_help_with_an_example();
}

#[test]
fn no_command_is_missing_from_this_test() {
    WORDS.no_command_is_missing();
}

#[test]
fn the_reference_has_every_command() {
    WORDS.the_reference_has_every_command();
}

#[test]
fn exit_codes_are_documented() {
    WORDS.exit_codes_are_documented();
}

#[test]
fn completions_and_manual_pages_are_complete() {
    WORDS.completions_and_manual_pages_are_complete(&["emulate-disk", "coordinator"]);
}

#[test]
fn the_same_cause_has_the_same_exit_code_in_all_commands() {
    for missing in [
        &["bench", "device", "/nonexistent/x", "--size", "16MiB", "--time", "100ms"][..],
        &["rules", "check", "/nonexistent/x"],
        &["plot", "/nonexistent/x", "--of", "ms"],
        &["trace", "stats", "/nonexistent/x"],
        &["sim", "cache", "--trace", "/nonexistent/x"],
        &["bench", "device", "--volume", "/nonexistent/x"],
    ] {
        WORDS.refused(missing, 5, "/nonexistent/x");
    }
    WORDS.denied(&[&["man", CLOSED], &["rules", "check", CLOSED], &["trace", "stats", CLOSED]]);
}

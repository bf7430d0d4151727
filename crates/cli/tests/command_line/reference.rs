//! Pages of docs/reference that the programs write: each is held against what they say now.

use std::path::Path;

/// Compares a page with what it must be, or writes it where `make reference` asks for that.
pub fn held(page: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(page);
    if std::env::var_os("ENTREPOT_WRITE_REFERENCE").is_some() {
        return std::fs::write(&path, text).expect("the page is written");
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = there.lines().zip(text.lines()).find(|(old, new)| old != new);
    assert!(there == text, "docs/reference/{page} is stale: run `make reference`; first difference: {differs:?}");
}

//! Rate limit of a staging, in the words after `--limit`: the same in the command line and in job scripts.

use policy::units;

/// Lowest limit: a lower rate keeps a connection open for longer than its source may tolerate (a guess).
const BYTES_S_MIN: u64 = 64 << 10;

/// Parses a limit as bytes per second.
pub fn of(text: &str) -> Result<u64, String> {
    match units::rate(text) {
        None => Err("give bytes per second, such as 100MiB/s".into()),
        Some(rate) if rate < BYTES_S_MIN => Err("give at least 64KiB/s, or leave --limit out".into()),
        Some(rate) => Ok(rate),
    }
}

/// The limit among the words of a command, if any; the error describes its wrong form.
pub fn among(argv: &[String]) -> Result<Option<u64>, String> {
    let mut words = argv.iter();
    while let Some(word) = words.next() {
        let value = match word.strip_prefix("--limit=") {
            Some(value) => Some(value),
            None if word == "--limit" => words.next().map(String::as_str),
            None => continue,
        };
        return value.map_or_else(|| Err("a rate belongs behind it, such as 100MiB/s".into()), of).map(Some);
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_read_and_what_is_none_is_refused() {
        let among = |line: &str| among(&line.split(' ').map(String::from).collect::<Vec<_>>());
        assert_eq!(among("entrepot stage in u p"), Ok(None));
        assert_eq!(among("entrepot stage in --limit 1MiB/s u p"), Ok(Some(1 << 20)));
        assert_eq!(among("entrepot stage out --limit=2MB p u"), Ok(Some(2_000_000)));
        for wrong in ["entrepot stage in u p --limit", "entrepot stage in --limit fast u p", "x --limit 1KiB/s"] {
            assert!(among(wrong).is_err(), "{wrong}");
        }
    }
}

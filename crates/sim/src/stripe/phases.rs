//! A load that changes: phases with a rate and a size of requests.

/// Requests of one kind for some time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phase {
    /// Requests per second, at random times.
    pub rate: f64,
    /// Bytes of a request.
    pub bytes: u64,
    /// How long, in seconds.
    pub seconds: f64,
}

/// Phases in words: `100x64KiB@300s,1x4MiB@300s`: rate, size, length.
pub fn parse_phases(text: &str) -> Result<Vec<Phase>, String> {
    text.split(',').map(|one| parse(one.trim())).collect()
}

fn parse(text: &str) -> Result<Phase, String> {
    let wrong = || format!("{text} is no phase: give rate x size @ length, like 100x64KiB@300s");
    let (rate, rest) = text.split_once('x').ok_or_else(wrong)?;
    let (bytes, seconds) = rest.split_once('@').ok_or_else(wrong)?;
    let rate = rate.trim().parse::<f64>().ok().filter(|rate| rate.is_finite() && *rate > 0.0).ok_or_else(wrong)?;
    let bytes = crate::setup::size_bytes("size", bytes.trim()).map_err(|_| wrong())?;
    let seconds = crate::setup::duration("length", seconds.trim()).map_err(|_| wrong())?.as_secs_f64();
    if seconds <= 0.0 || rate * seconds > 1e8 {
        return Err(wrong());
    }
    Ok(Phase { rate, bytes, seconds })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_are_read_and_mistakes_named() {
        let two = parse_phases("100x64KiB@300s, 1x4MiB@1s").unwrap();
        assert_eq!(two[0], Phase { rate: 100.0, bytes: 65536, seconds: 300.0 });
        assert_eq!((two.len(), two[1].bytes), (2, 4 << 20));
        for wrong in ["", "100", "100x64KiB", "0x64KiB@1s", "1x64KiB@0s", "axb@c"] {
            assert!(parse_phases(wrong).is_err(), "{wrong}");
        }
    }
}

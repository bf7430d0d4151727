//! A changing load: phases with rates and sizes of requests.

/// Requests of one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RequestClass {
    /// Requests per second, at random times.
    pub rate: f64,
    /// Bytes of a request.
    pub bytes: u64,
}

/// Requests of one or several sizes for some time.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// Concurrent kinds of requests; not empty.
    pub asked: Vec<RequestClass>,
    /// Length of the phase in seconds.
    pub seconds: f64,
}

impl Phase {
    /// Creates a phase with requests of one size.
    pub fn of(rate: f64, bytes: u64, seconds: f64) -> Phase {
        Phase { asked: vec![RequestClass { rate, bytes }], seconds }
    }

    /// Returns the requests per second of all sizes.
    pub fn rate(&self) -> f64 {
        self.asked.iter().map(|asked| asked.rate).sum()
    }
}

/// Parses phases: `100x64KiB@300s,1x4MiB@300s` are rate, size, length; `100x64KiB+1x4MiB@300s` is both at once.
pub fn parse_phases(text: &str) -> Result<Vec<Phase>, String> {
    text.split(',').map(|one| parse(one.trim())).collect()
}

fn parse(text: &str) -> Result<Phase, String> {
    let wrong =
        || format!("{text} is no phase: give rate x size @ length, like 100x64KiB@300s or 100x64KiB+1x4MiB@300s");
    let (asked, seconds) = text.rsplit_once('@').ok_or_else(wrong)?;
    let one = |text: &str| {
        let (rate, bytes) = text.split_once('x')?;
        let rate = rate.trim().parse::<f64>().ok().filter(|rate| rate.is_finite() && *rate > 0.0)?;
        let bytes = crate::setup::size_bytes("size", bytes.trim()).ok().filter(|bytes| *bytes > 0)?;
        Some(RequestClass { rate, bytes })
    };
    let asked: Vec<RequestClass> = asked.split('+').map(one).collect::<Option<_>>().ok_or_else(wrong)?;
    let seconds = crate::setup::duration("length", seconds.trim()).map_err(|_| wrong())?.as_secs_f64();
    let phase = Phase { asked, seconds };
    if seconds <= 0.0 || phase.rate() * seconds > 1e8 {
        return Err(wrong());
    }
    Ok(phase)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_are_read_and_mistakes_named() {
        let two = parse_phases("100x64KiB@300s, 1x4MiB@1s").unwrap();
        assert_eq!(two[0], Phase::of(100.0, 65536, 300.0));
        assert_eq!((two.len(), two[1].asked[0].bytes), (2, 4 << 20));
        let mixed = parse_phases("100x64KiB+2x1MiB@10s").unwrap();
        assert_eq!((mixed[0].asked.len(), mixed[0].rate()), (2, 102.0));
        for wrong in ["", "100", "100x64KiB", "0x64KiB@1s", "1x64KiB@0s", "axb@c", "1x64KiB+@1s"] {
            assert!(parse_phases(wrong).is_err(), "{wrong}");
        }
    }
}

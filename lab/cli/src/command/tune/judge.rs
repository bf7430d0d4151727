//! Judgement of a setting: its gain over the present one on reads that did not choose it, with an interval.
//!
//! The reads are divided into windows by time. The same reads with both settings make a pair. The interval of 95 % comes
//! from windows drawn with replacement (Efron's bootstrap).

use serde::Serialize;
use sim::generate::Rng;

/// Windows; a load that changes makes them differ. A guess.
const WINDOWS: usize = 20;
/// Least reads in a window. A guess.
const WINDOW_READS_MIN: usize = 10;
/// Least reads of a recording: the first half chooses, the second judges.
pub const READS_MIN: usize = 2 * WINDOWS * WINDOW_READS_MIN;
const DRAWS: usize = 2000;
/// Largest factor between the recorded and the simulated mean of today's setting. A guess.
const FACTOR_MAX: f64 = 1.5;

/// Mean times of reads, in milliseconds, and the gain as a share of today's time.
#[derive(Clone, Debug, Serialize)]
pub struct Judgement {
    pub recorded_ms: f64,
    pub simulated_ms: f64,
    pub predicted_ms: f64,
    pub gain: f64,
    pub gain_low: f64,
    pub gain_high: f64,
    /// Reason to keep today's setting; `None` if the gain is certain.
    pub keep: Option<String>,
}

/// One read: recorded, simulated with today's setting, simulated with the other one.
pub type Read = (f64, f64, f64);

/// Compares two settings on at least [`WINDOWS`] reads in order of time. The gain must exceed `margin`.
pub fn judge(reads: &[Read], margin: f64, seed: u64) -> Judgement {
    let sums = |reads: &[Read]| reads.iter().fold((0.0, 0.0, 0.0), |s, r| (s.0 + r.0, s.1 + r.1, s.2 + r.2));
    let (recorded, today, other) = sums(reads);
    // The part of today's time that the simulator does not explain cannot be saved.
    let gain_of = |(recorded, today, other): Read| (today - other) / f64::max(recorded, today).max(f64::MIN_POSITIVE);
    let gain = gain_of((recorded, today, other));
    let windows: Vec<Read> =
        (0..WINDOWS).map(|n| sums(&reads[n * reads.len() / WINDOWS..(n + 1) * reads.len() / WINDOWS])).collect();
    let mut rng = Rng::new(seed, 1);
    let mut gains: Vec<f64> = (0..DRAWS)
        .map(|_| gain_of(sums(&(0..WINDOWS).map(|_| windows[rng.below(WINDOWS as u64) as usize]).collect::<Vec<_>>())))
        .collect();
    gains.sort_by(f64::total_cmp);
    let (gain_low, gain_high) = (gains[DRAWS / 40], gains[DRAWS - 1 - DRAWS / 40]);
    let mean = |sum: f64| sum / reads.len() as f64;
    let off = f64::max(recorded / today, today / recorded);
    let keep = if !off.is_finite() || off > FACTOR_MAX {
        Some(format!(
            "the simulator gives {:.3} ms for a read today, and the recording has {:.3} ms",
            mean(today),
            mean(recorded)
        ))
    } else if gain_low <= margin {
        Some(format!("a gain of more than {:.0} % is not certain", margin * 100.0))
    } else {
        None
    };
    let recorded_ms = mean(recorded);
    let predicted_ms = recorded_ms * (1.0 - gain);
    Judgement { recorded_ms, simulated_ms: mean(today), predicted_ms, gain, gain_low, gain_high, keep }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_equal_gain_in_all_windows_is_certain() {
        let judged = judge(&[(4.4, 4.0, 1.0); 400], 0.05, 1);
        assert!(judged.keep.is_none(), "{judged:?}");
        // 3 of 4.4 ms are saved; 0.4 ms are not explained, and stay.
        assert!((judged.gain - 3.0 / 4.4).abs() < 1e-9 && (judged.predicted_ms - 1.4).abs() < 1e-9, "{judged:?}");
        assert!((judged.gain_low - judged.gain).abs() < 1e-9 && (judged.gain_high - judged.gain).abs() < 1e-9);
    }

    #[test]
    fn a_gain_in_few_windows_or_of_a_wrong_model_is_not() {
        let reads: Vec<Read> = (0..400).map(|n| (4.0, 4.0, if n < 40 { 1.0 } else { 4.1 })).collect();
        let judged = judge(&reads, 0.0, 1);
        assert!(judged.gain > 0.0 && judged.gain_low < 0.0 && judged.gain_high > judged.gain, "{judged:?}");
        assert!(judged.keep.is_some_and(|why| why.contains("not certain")));
        for recorded in [1.0, 9.0] {
            let judged = judge(&[(recorded, 4.0, 1.0); 400], 0.05, 1);
            assert!(judged.keep.is_some_and(|why| why.contains("simulator")));
        }
        assert!(judge(&[(4.0, 0.0, 0.0); 400], 0.0, 1).keep.is_some(), "nothing to gain");
    }
}

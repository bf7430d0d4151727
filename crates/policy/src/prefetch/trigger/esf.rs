//! ESF: trigger distances of a cycle part by rate and a safety part by deviation (section 2, rule 4).
//!
//! `T_i = R_i * t + sigma_i / sum(sigma_j) * (T_total - sum(R_j * t))`, `t` being the measured time of a prefetch.
//! Without room for a safety stock it is ETS; without any deviation the safety part goes by rate.

use super::ets::ets;

/// Returns the distances for these rates and their standard deviations; `fetch_secs` is the time of one prefetch.
pub fn esf(
    rates: &[f64],
    sigmas: &[f64],
    fetch_secs: f64,
    total: f64,
    bounds: (f64, f64),
    redistribute: bool,
) -> Vec<f64> {
    let sum: f64 = rates.iter().sum();
    let room = total - sum * fetch_secs;
    let deviation: f64 = sigmas.iter().sum();
    if room <= 0.0 || sum <= 0.0 || deviation <= 0.0 {
        // Then the whole distance goes by rate, the cycle part and the safety part.
        return ets(rates, total, bounds, redistribute);
    }
    let wanted = rates.iter().zip(sigmas).map(|(rate, sigma)| rate * fetch_secs + room * sigma / deviation);
    if redistribute {
        let wanted: Vec<f64> = wanted.collect();
        return ets(&wanted, total, bounds, true);
    }
    wanted.map(|distance| distance.clamp(bounds.0, bounds.1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: (f64, f64) = (4.0, 48.0);

    fn close(distances: &[f64], expected: &[f64]) {
        for (distance, expected) in distances.iter().zip(expected) {
            assert!((distance - expected).abs() < 1e-3, "{distances:?} instead of {expected:?}");
        }
    }

    #[test]
    fn the_irregular_stream_gets_the_safety_stock() {
        let sigmas = [1000f64.sqrt(), 3000.0];
        close(&esf(&[1000.0, 1000.0], &sigmas, 0.006, 48.0, BOUNDS, false), &[6.376, 41.624]);
    }

    #[test]
    fn deviation_in_proportion_to_rate_is_ets() {
        close(&esf(&[1000.0, 3000.0], &[100.0, 300.0], 0.006, 48.0, BOUNDS, false), &[12.0, 36.0]);
    }

    #[test]
    fn overload_leaves_no_room_for_safety() {
        close(&esf(&[6000.0, 6000.0], &[100.0, 300.0], 0.006, 48.0, BOUNDS, false), &[24.0, 24.0]);
    }

    #[test]
    fn without_deviation_the_safety_part_goes_by_rate() {
        close(&esf(&[1000.0, 3000.0], &[0.0, 0.0], 0.006, 48.0, BOUNDS, false), &[12.0, 36.0]);
    }
}

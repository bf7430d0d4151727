//! Parses any prefetcher, as in `sarc:threshold=6,degree=8`.

use super::Prefetch;
use policy::words::{Parser, number};

/// Parses a prefetcher: names as in [`Prefetch::ALL`], parameters by the names of its fields.
pub fn prefetch(text: &str) -> Result<Prefetch, String> {
    let parser = Parser::new(text);
    let mut chosen: Prefetch = parser.name.parse()?;
    for &(key, value) in &parser.parameters {
        let unknown = |known| Err(parser.unknown(key, known));
        match (&mut chosen, key) {
            (Prefetch::Live(live), _) => policy::words::set_prefetch(live, &parser, key, value)?,
            (Prefetch::LinuxSimple { min, .. } | Prefetch::Linux2618 { min, .. }, "min") => {
                *min = number(key, value)?;
            }
            (Prefetch::LinuxSimple { max, .. } | Prefetch::Linux2618 { max, .. }, "max") => {
                *max = number(key, value)?;
            }
            (Prefetch::LinuxSimple { incl_demand, .. }, "incl_demand") => *incl_demand = true,
            (Prefetch::LinuxSimple { .. }, _) => return unknown("min, max, incl_demand"),
            (Prefetch::Linux2618 { .. }, _) => return unknown("min, max"),
            (Prefetch::Ra { degree } | Prefetch::Sarc { degree, .. }, "degree") => {
                *degree = number(key, value)?;
            }
            (Prefetch::Ra { .. }, _) => return unknown("degree"),
            (Prefetch::Sarc { distance, .. }, "distance") => *distance = number(key, value)?,
            (Prefetch::Sarc { threshold, .. }, "threshold") => *threshold = number(key, value)?,
            (Prefetch::Sarc { .. }, _) => return unknown("degree, distance, threshold"),
            (Prefetch::Amp { apt, .. }, "apt") => *apt = number(key, value)?,
            (Prefetch::Amp { degree_max, .. }, "degree_max") => *degree_max = number(key, value)?,
            (Prefetch::Amp { run, .. }, "run") => *run = number(key, value)?,
            (Prefetch::Amp { .. }, _) => return unknown("apt, degree_max, run"),
        }
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::prefetch as live;

    #[test]
    fn names_and_parameters_become_algorithms() {
        assert_eq!(prefetch("sarc:threshold=6").unwrap(), Prefetch::Sarc { degree: 8, distance: 4, threshold: 6 });
        assert_eq!(prefetch("ra").unwrap(), Prefetch::Ra { degree: 4 });
        assert_eq!(
            prefetch("stream:distance=9").unwrap(),
            live::Prefetch::Stream { degree_max: 48, distance: 9 }.into()
        );
    }

    #[test]
    fn an_error_names_the_valid_choices() {
        assert!(prefetch("sark").unwrap_err().contains("sarc"));
        assert!(prefetch("ra:threshold=4").unwrap_err().contains("degree"));
    }
}

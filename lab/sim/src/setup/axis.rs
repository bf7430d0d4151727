//! Changing one setting of a setup by name, for grids and comparisons.

use super::{LevelSetup, Settable, Setup, SetupError, coordination, prefetch, trigger};

impl LevelSetup {
    /// Creates a level with this prefetcher and size, and defaults for the rest.
    pub fn new(prefetch: &str, size: &str) -> LevelSetup {
        LevelSetup { prefetch: prefetch.into(), size: size.into(), ..LevelSetup::default() }
    }

    /// Parses a level: a prefetcher, then `size=`, `replacement=`, `trigger=`, `coordinator=`, separated by blanks.
    pub fn parse(text: &str) -> Result<LevelSetup, SetupError> {
        let mut words = text.split_whitespace();
        let mut level = LevelSetup::new(words.next().unwrap_or("none"), "100%");
        for word in words {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            match key {
                "size" => level.size = value.into(),
                "replacement" => level.replacement = Some(value.into()),
                "trigger" => level.trigger = Some(value.into()),
                "coordinator" => level.coordinator = Some(value.into()),
                _ => {
                    let why = "after the prefetcher come size=, replacement=, trigger= or coordinator=";
                    return Err(SetupError::new("level", text, why));
                }
            }
        }
        Ok(level)
    }
}

impl Setup {
    /// Names of all axes.
    pub const AXES: [&'static str; 19] = [
        "pair",
        "l1",
        "l2",
        "l1_size",
        "l2_size",
        "l1_trigger",
        "l2_trigger",
        "trigger",
        "coordinator",
        "disk",
        "scheduler",
        "alpha",
        "beta",
        "think",
        "speed",
        "writes",
        "in_flight",
        "block",
        "limit_requests",
    ];

    /// Returns axis and value for a bare name (a coordinator, a trigger, or a prefetcher for all levels) or for
    /// `AXIS=VALUE`.
    pub fn axis_of(name: &str) -> Result<(String, String), SetupError> {
        if let Some((axis, value)) = name.split_once('=')
            && Setup::AXES.contains(&axis)
        {
            return Ok((axis.into(), value.into()));
        }
        let axis = if coordination(name).is_ok() {
            "coordinator"
        } else if trigger(name).is_ok() {
            "trigger"
        } else {
            prefetch(name).map_err(|why| {
                SetupError::new("policy", name, format!("it is no coordinator and no trigger, and {why}"))
            })?;
            "pair"
        };
        Ok((axis.into(), name.into()))
    }

    fn level(&mut self, at: usize) -> Result<&mut LevelSetup, SetupError> {
        let levels = self.levels.len();
        self.levels.get_mut(at).ok_or_else(|| {
            let why = format!("there are {levels} levels; set `pair` or give the base as many levels as are varied");
            SetupError::new("level", (at + 1).to_string(), why)
        })
    }
}

impl Settable for Setup {
    /// Sets `axis` to `value`. `pair` is the prefetcher of all levels, `trigger` that of the first level,
    /// `coordinator` that of all levels below the first.
    fn set(&mut self, axis: &str, value: &str) -> Result<(), SetupError> {
        let not_a_number = || SetupError::new("number", value, format!("{axis} needs a number"));
        match axis {
            "pair" => {
                if self.levels.is_empty() {
                    self.levels = vec![LevelSetup::new(value, "5%"), LevelSetup::new(value, "200%")];
                }
                self.levels.iter_mut().for_each(|level| level.prefetch = value.into());
            }
            "l1" => self.level(0)?.prefetch = value.into(),
            "l2" => self.level(1)?.prefetch = value.into(),
            "l1_size" => self.level(0)?.size = value.into(),
            "l2_size" => self.level(1)?.size = value.into(),
            "l1_trigger" | "trigger" => self.level(0)?.trigger = Some(value.into()),
            "l2_trigger" => self.level(1)?.trigger = Some(value.into()),
            "coordinator" => {
                self.level(1)?;
                self.levels[1..].iter_mut().for_each(|level| level.coordinator = Some(value.into()));
            }
            "disk" => self.disk = value.into(),
            "scheduler" => self.scheduler = value.into(),
            "alpha" => self.alpha = value.into(),
            "beta" => self.beta = value.into(),
            "think" => self.think = value.into(),
            "speed" => self.speed = value.parse().map_err(|_| not_a_number())?,
            "writes" => self.writes = value.into(),
            "in_flight" => self.in_flight = value.into(),
            "block" => self.block = value.into(),
            "limit_requests" => self.limit_requests = Some(value.parse().map_err(|_| not_a_number())?),
            _ => {
                let why = format!("choose one of {}", Setup::AXES.join(", "));
                return Err(SetupError::new("axis", axis, why));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_change_one_thing() {
        let mut setup = Setup::default();
        assert!(setup.set("l2", "amp").unwrap_err().why.contains("0 levels"));
        for axis in Setup::AXES {
            let value = match axis {
                "speed" | "limit_requests" => "2",
                "pair" | "l1" | "l2" => "amp",
                _ => "5ms",
            };
            setup.set(axis, value).unwrap();
        }
        assert_eq!(setup.levels[0].coordinator, None);
        assert_eq!(setup.levels[1].coordinator.as_deref(), Some("5ms"));
        assert!(setup.set("colour", "red").is_err());
    }

    #[test]
    fn bare_names_find_their_axis() {
        let axis = |name| Setup::axis_of(name).unwrap().0;
        assert_eq!(
            [axis("pfc"), axis("labels+pfc"), axis("ets"), axis("amp")],
            ["coordinator", "coordinator", "trigger", "pair"]
        );
        assert_eq!(Setup::axis_of("l2=sarc:threshold=6").unwrap(), ("l2".into(), "sarc:threshold=6".into()));
        assert_eq!(axis("sarc:threshold=6"), "pair");
        assert!(Setup::axis_of("stuff").is_err());
    }

    #[test]
    fn a_level_in_words() {
        let level = LevelSetup::parse("amp:apt=8 size=64MiB coordinator=pfc+labels").unwrap();
        assert_eq!((level.prefetch.as_str(), level.size.as_str()), ("amp:apt=8", "64MiB"));
        assert_eq!(level.coordinator.as_deref(), Some("pfc+labels"));
        assert!(LevelSetup::parse("amp colour=red").is_err());
    }
}

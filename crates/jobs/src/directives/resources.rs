//! Resource lines: `#ENTREPOT`, and those `#SBATCH` and `#PBS` options that apply to one machine: cores, time, name.

use super::mail;
use super::words::{Refusal, Result};
use crate::request::Mail;

/// Resources that a script requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// Name of the job.
    pub name: Option<String>,
    /// Tasks, or cores where they are requested directly.
    pub n_tasks: Option<u32>,
    /// Cores of each task.
    pub cores_per_task: Option<u32>,
    /// Longest run in seconds.
    pub walltime_s: Option<u64>,
    /// Events of which the owner gets mail.
    pub mail: Option<Mail>,
}

impl Resources {
    /// Total of cores, or nothing if no directive gives any.
    pub fn cores(&self) -> Option<u32> {
        match (self.n_tasks, self.cores_per_task) {
            (None, None) => None,
            (tasks, each) => Some(tasks.unwrap_or(1).saturating_mul(each.unwrap_or(1))),
        }
    }

    /// These values; missing ones are taken from `other`.
    pub fn or(self, other: Resources) -> Resources {
        let says_cores = self.cores().is_some();
        Resources {
            name: self.name.or(other.name),
            n_tasks: if says_cores { self.n_tasks } else { other.n_tasks },
            cores_per_task: if says_cores { self.cores_per_task } else { other.cores_per_task },
            walltime_s: self.walltime_s.or(other.walltime_s),
            mail: self.mail.or(other.mail),
        }
    }

    /// Reads options in Slurm's form, which is also that of `#ENTREPOT`. Returns the options that have no effect here.
    pub fn read_slurm(&mut self, words: &[String]) -> Result<Vec<String>> {
        let mut foreign = Vec::new();
        let mut words = words.iter().peekable();
        while let Some(word) = words.next() {
            let (option, attached) = take_apart(word);
            let mut value = || {
                let value = attached.map(str::to_owned).or_else(|| words.next().cloned());
                value.ok_or_else(|| Refusal::new(format!("{option} has no value"), format!("write {option} VALUE")))
            };
            match option {
                "-n" | "--ntasks" | "--cores" => self.n_tasks = Some(count(option, &value()?)?),
                "-c" | "--cpus-per-task" => self.cores_per_task = Some(count(option, &value()?)?),
                "-t" | "--time" => self.walltime_s = slurm_time(&value()?)?,
                "--mail-type" => foreign.extend(mail::types(&value()?, self.mail.get_or_insert_default())),
                "--mail-user" => self.mail.get_or_insert_default().to = Some(mail::address(&value()?)?),
                "-J" | "--job-name" => self.name = Some(value()?),
                _ => {
                    foreign.push(word.clone());
                    while words.peek().is_some_and(|next| !next.starts_with('-')) {
                        words.next();
                    }
                }
            }
        }
        Ok(foreign)
    }

    /// Reads options in PBS's form. Returns the options that have no effect here.
    pub fn read_pbs(&mut self, words: &[String]) -> Result<Vec<String>> {
        let mut foreign = Vec::new();
        let mut words = words.iter().peekable();
        while let Some(word) = words.next() {
            let (option, attached) = take_apart(word);
            let mut value = attached.unwrap_or_default().to_string();
            while words.peek().is_some_and(|next| !next.starts_with('-')) {
                value += words.next().expect("was peeked");
            }
            match option {
                "-N" => self.name = Some(value),
                "-l" => {
                    for item in value.split(',').filter(|item| !item.is_empty()) {
                        if !self.read_pbs_resource(item)? {
                            foreign.push(format!("-l {item}"));
                        }
                    }
                }
                _ => foreign.push(word.clone()),
            }
        }
        Ok(foreign)
    }

    fn read_pbs_resource(&mut self, item: &str) -> Result<bool> {
        let (key, value) = item.split_once('=').unwrap_or((item, ""));
        match key {
            "walltime" => self.walltime_s = Some(pbs_time(value)?),
            "ncpus" | "procs" => self.n_tasks = Some(count(key, value)?),
            // `nodes=2:ppn=4+1:ppn=2`, `select=1:ncpus=4`: chunks, each with a count and the resources of one.
            "nodes" | "select" => {
                let mut sum = 0u32;
                for chunk in value.split('+') {
                    let mut fields = chunk.split(':');
                    let mut cores = count(key, fields.next().unwrap_or_default())?;
                    for field in fields {
                        if let Some(("ppn" | "ncpus", each)) = field.split_once('=') {
                            cores = cores.saturating_mul(count(field, each)?);
                        }
                    }
                    sum = sum.saturating_add(cores);
                }
                self.n_tasks = Some(sum);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// `--long=value`, `-xvalue`, or the option alone.
fn take_apart(word: &str) -> (&str, Option<&str>) {
    if word.starts_with("--") {
        return word.split_once('=').map_or((word, None), |(option, value)| (option, Some(value)));
    }
    match word.char_indices().nth(2) {
        Some((at, _)) if word.starts_with('-') => (&word[..at], Some(&word[at..])),
        _ => (word, None),
    }
}

fn count(option: &str, value: &str) -> Result<u32> {
    let count = value.parse().ok().filter(|n| (1..=1_000_000).contains(n));
    count.ok_or_else(|| Refusal::new(format!("{option} is {value:?}"), "write a whole number from 1"))
}

fn bad_time(value: &str) -> Refusal {
    Refusal::new(
        format!("{value:?} is no time"),
        "write minutes, MM:SS, HH:MM:SS, D-HH:MM:SS, or a number with s, m, h or d (PBS: seconds, MM:SS or HH:MM:SS)",
    )
}

fn numbers(value: &str) -> Option<Vec<u64>> {
    let numbers: Option<Vec<u64>> = value.split(':').map(|n| n.parse::<u32>().ok().map(u64::from)).collect();
    numbers.filter(|list| list.len() <= 3)
}

fn positive(seconds: Option<u64>, value: &str) -> Result<u64> {
    seconds.filter(|s| *s > 0).ok_or_else(|| bad_time(value))
}

/// A time in Slurm's form, or with our units; `None` for "no limit".
fn slurm_time(value: &str) -> Result<Option<u64>> {
    if matches!(value.to_ascii_uppercase().as_str(), "0" | "UNLIMITED" | "INFINITE") {
        return Ok(None);
    }
    let with_unit = [('s', 1), ('m', 60), ('h', 3600), ('d', 86_400)]
        .into_iter()
        .find_map(|(unit, factor)| value.strip_suffix(unit)?.parse::<u32>().ok().map(|n| u64::from(n) * factor));
    let seconds = with_unit.or_else(|| {
        let (days, clock) = match value.split_once('-') {
            Some((days, clock)) => (Some(days.parse::<u32>().ok()?), clock),
            None => (None, value),
        };
        Some(match (days, numbers(clock)?.as_slice()) {
            (Some(d), [h]) => u64::from(d) * 86_400 + h * 3600,
            (Some(d), [h, m]) => u64::from(d) * 86_400 + h * 3600 + m * 60,
            (Some(d), [h, m, s]) => u64::from(d) * 86_400 + h * 3600 + m * 60 + s,
            (None, [m]) => m * 60,
            (None, [m, s]) => m * 60 + s,
            (None, [h, m, s]) => h * 3600 + m * 60 + s,
            _ => return None,
        })
    });
    positive(seconds, value).map(Some)
}

/// A time in PBS's form.
fn pbs_time(value: &str) -> Result<u64> {
    let seconds = numbers(value).map(|list| list.iter().fold(0, |sum, n| sum * 60 + n));
    positive(seconds, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(String::from).collect()
    }

    fn slurm(line: &str) -> Resources {
        let mut read = Resources::default();
        assert_eq!(read.read_slurm(&words(line)).unwrap(), Vec::<String>::new(), "{line}");
        read
    }

    fn pbs(line: &str) -> Resources {
        let mut read = Resources::default();
        assert_eq!(read.read_pbs(&words(line)).unwrap(), Vec::<String>::new(), "{line}");
        read
    }

    #[test]
    fn slurm_options_in_all_their_forms() {
        assert_eq!(slurm("-n 4 -c2").cores(), Some(8));
        assert_eq!(slurm("--ntasks=3").cores(), Some(3));
        assert_eq!(slurm("--cpus-per-task 5").cores(), Some(5));
        assert_eq!(slurm("-J x --time=1-02:03:04").walltime_s, Some(93_784));
        assert_eq!(slurm("--job-name=x").name.as_deref(), Some("x"));
        for (time, seconds) in [
            ("10", 600),
            ("10:30", 630),
            ("1:00:00", 3600),
            ("2-3", 183_600),
            ("2-3:01", 183_660),
            ("90s", 90),
            ("2h", 7200),
        ] {
            assert_eq!(slurm(&format!("-t {time}")).walltime_s, Some(seconds), "{time}");
        }
        assert_eq!(slurm("-t UNLIMITED").walltime_s, None);
    }

    #[test]
    fn pbs_options_in_all_their_forms() {
        assert_eq!(pbs("-l nodes=2:ppn=4,walltime=12:00"), {
            Resources { n_tasks: Some(8), walltime_s: Some(720), ..Resources::default() }
        });
        assert_eq!(pbs("-l nodes=128, walltime=1:00:00").cores(), Some(128));
        assert_eq!(pbs("-l select=1:ncpus=4:mem=1gb+2:ncpus=3").cores(), Some(10));
        assert_eq!(pbs("-l ncpus=3 -N job").name.as_deref(), Some("job"));
        assert_eq!(pbs("-l walltime=90").walltime_s, Some(90));
    }

    #[test]
    fn foreign_options_are_given_back_with_their_values_skipped() {
        let mut read = Resources::default();
        assert_eq!(read.read_slurm(&words("--mem 4G -p fast -n 2")).unwrap(), ["--mem", "-p"]);
        assert_eq!(read.cores(), Some(2));
        assert_eq!(read.read_pbs(&words("-q long -l mem=4gb")).unwrap(), ["-q", "-l mem=4gb"]);
    }

    #[test]
    fn nonsense_is_refused() {
        for line in ["-n 0", "-n -1", "-n x", "-n 99999999999", "-t 1:2:3:4", "-t soon", "-t 1-", "-n", "-t :", "-t é"]
        {
            assert!(Resources::default().read_slurm(&words(line)).is_err(), "{line}");
        }
        for line in ["-l nodes=x", "-l walltime=0", "-l walltime=", "-l select=1:ncpus=0"] {
            assert!(Resources::default().read_pbs(&words(line)).is_err(), "{line}");
        }
    }
}

//! The plan of a job: its dependent parts, made from its script.

pub mod paths;
mod run_words;
mod text;

pub use run_words::run_words;
pub use text::render;

use crate::directives::{self, Directive, RETRIES_MAX, Resources, Says};
use crate::limit;
use crate::request::{Command, Complaint, Mail, NamedSource, Overrides, Part, PartKind, Plan, Queue, Script};

/// Recognises the sources in the words of an ordinary command (`scp`, `curl`, ...). Implemented by the crate `source`.
pub type Recognise<'a> = &'a (dyn Fn(&[String]) -> Vec<NamedSource> + Send + Sync);

/// Limits of the machine.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Cores of the machine; a job that requests more is refused.
    pub cores: u32,
    /// Longest run of a part that names none, in seconds.
    pub walltime_default_s: u64,
    /// Whether a script may request an array of jobs: allowed where a scheduler splits it itself.
    pub arrays: bool,
}

impl Limits {
    /// All cores of this machine, and a day for parts that request no time.
    pub fn of_machine() -> Limits {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        Limits { cores, walltime_default_s: 24 * 3600, arrays: false }
    }
}

/// Plans a script. `file_name` is the name of a job that names itself nowhere else.
pub fn plan(
    script: &[u8],
    file_name: &str,
    overrides: &Overrides,
    limits: Limits,
    recognise: Recognise<'_>,
) -> Result<Plan, Vec<Complaint>> {
    match draft(script, file_name, overrides, limits, recognise) {
        (plan, complaints) if complaints.is_empty() => Ok(plan),
        (_, complaints) => Err(complaints),
    }
}

/// The plan as far as the script is valid, and all complaints. A caller can add further errors and report all at once.
pub fn draft(
    script: &[u8],
    file_name: &str,
    overrides: &Overrides,
    limits: Limits,
    recognise: Recognise<'_>,
) -> (Plan, Vec<Complaint>) {
    let (head, complaints) = directives::read(script);
    let mut draft = Draft { warnings: head.warnings, complaints, ..Draft::default() };
    for directive in head.directives {
        draft.take(directive);
    }
    for (line, option) in head.arrays.into_iter().filter(|_| !limits.arrays) {
        let cause = format!("{option} asks for an array of jobs, and this would be one job");
        let mend = "remove it, and submit the script once for each: TASK=1 entrepot job submit SCRIPT; it finds $TASK";
        draft.complain(line, cause, mend.into());
    }
    let cores = overrides.cores.or(head.resources.cores()).unwrap_or(1);
    if cores == 0 || cores > limits.cores {
        draft.complain(
            0,
            format!("the job asks for {cores} cores and this machine lends {}", limits.cores),
            format!("ask for 1 to {}: #ENTREPOT -n CORES, or the option --cores", limits.cores),
        );
    }
    if overrides.walltime_s == Some(0) {
        draft.complain(0, "a time limit of 0 leaves no time to run".into(), "give a longer --time".into());
    }
    if let Some(retries) = overrides.retries {
        if retries > RETRIES_MAX {
            let cause = format!("{retries} retries are more than {RETRIES_MAX}");
            draft.complain(0, cause, format!("give --retry 0 to {RETRIES_MAX}"));
        }
        draft.stage_in.retries = retries;
        draft.stage_out.retries = retries;
    }
    let walltime_s = overrides.walltime_s.or(head.resources.walltime_s).unwrap_or(limits.walltime_default_s);
    let compute = Part {
        kind: PartKind::Compute,
        queue: Queue::Batch,
        after: None,
        cores,
        walltime_s,
        retries: 0,
        commands: vec![Command { line: 0, argv: head.interpreter, sources: Vec::new() }],
        parameters: Vec::new(),
    };
    let name = overrides.name.as_deref().or(head.resources.name.as_deref()).unwrap_or(file_name);
    let plan = Plan {
        name: display_name(name),
        parts: chain(draft.stage_in, compute, draft.stage_out, limits, recognise),
        checkpoints: head.checkpoints,
        datawarp: head.datawarp,
        mail: mail(&head.own_resources, &head.resources),
        compute_script: Script::from(head.compute_script),
        warnings: draft.warnings,
    };
    (plan, draft.complaints)
}

/// Events of which the owner gets mail, and whether only lines request it that a scheduler reads as well.
fn mail(own: &Resources, all: &Resources) -> Option<Mail> {
    let mail = all.mail.clone().filter(|mail| !mail.is_none())?;
    Some(Mail { theirs: own.mail.is_none(), ..mail })
}

/// A name that is safe to print: no control characters, not empty, not long.
fn display_name(name: &str) -> String {
    let name: String = name.chars().filter(|c| !c.is_control()).take(64).collect();
    if name.trim().is_empty() { "job".into() } else { name }
}

/// Combined directives of one kind.
#[derive(Default)]
struct Staging {
    retries: u32,
    walltime_s: Option<u64>,
    parameters: Vec<Vec<String>>,
    commands: Vec<(u32, Vec<String>)>,
}

#[derive(Default)]
struct Draft {
    stage_in: Staging,
    stage_out: Staging,
    warnings: Vec<Complaint>,
    complaints: Vec<Complaint>,
}

impl Draft {
    fn complain(&mut self, line: u32, cause: String, mend: String) {
        self.complaints.push(Complaint { line, cause, mend });
    }

    fn take(&mut self, directive: Directive) {
        let line = directive.line;
        let staging = if directive.kind == PartKind::StageIn { &mut self.stage_in } else { &mut self.stage_out };
        match directive.says {
            Says::Retry(retries) => staging.retries = retries,
            Says::Command(argv) => {
                staging.commands.push((line, argv.clone()));
                let ours = argv.first().is_some_and(|program| program == "entrepot");
                if let Err(mend) = limit::among(&argv)
                    && ours
                {
                    self.complain(line, "the rate of --limit is not valid".into(), mend);
                }
                if ours && argv.iter().any(|word| word == "--dry-run") {
                    let cause = "--dry-run moves nothing, and the job would go on as if it had".into();
                    self.complain(line, cause, "leave it out; try the command by hand".into());
                }
            }
            Says::Parameters(words) => {
                let mut read = Resources::default();
                let is_pbs = words.iter().any(|w| w.starts_with("-l"));
                let foreign = if is_pbs { read.read_pbs(&words) } else { read.read_slurm(&words) };
                staging.walltime_s = read.walltime_s.or(staging.walltime_s);
                staging.parameters.push(words);
                match foreign {
                    Ok(foreign) => self.warnings.extend(foreign.into_iter().map(|option| Complaint {
                        line,
                        cause: format!("{option} has no effect here"),
                        mend: "of a data job only the time limit counts: -t TIME".into(),
                    })),
                    Err(refusal) => self.complain(line, refusal.cause, refusal.mend),
                }
            }
        }
    }
}

/// The parts in order, each after the one before. A data part without commands is left out.
///
/// So a failed stage-in keeps the script from running, and results go home only from a script that succeeded.
fn chain(
    stage_in: Staging,
    mut compute: Part,
    stage_out: Staging,
    limits: Limits,
    recognise: Recognise<'_>,
) -> Vec<Part> {
    let mut parts = Vec::new();
    if !stage_in.commands.is_empty() {
        compute.after = Some(PartKind::StageIn);
        parts.push(staging_part(PartKind::StageIn, stage_in, None, limits, Some(recognise)));
    }
    parts.push(compute);
    if !stage_out.commands.is_empty() {
        parts.push(staging_part(PartKind::StageOut, stage_out, Some(PartKind::Compute), limits, None));
    }
    parts
}

fn staging_part(
    kind: PartKind,
    staging: Staging,
    after: Option<PartKind>,
    limits: Limits,
    recognise: Option<Recognise<'_>>,
) -> Part {
    let commands = staging.commands.into_iter().map(|(line, argv)| {
        // `entrepot stage` records its sources itself.
        let foreign = recognise.filter(|_| argv.first().is_some_and(|program| program != "entrepot"));
        let sources = foreign.map_or_else(Vec::new, |recognise| recognise(&argv));
        Command { line, argv, sources }
    });
    Part {
        kind,
        queue: Queue::Dataxfer,
        after,
        cores: 0,
        walltime_s: staging.walltime_s.unwrap_or(limits.walltime_default_s),
        retries: staging.retries,
        commands: commands.collect(),
        parameters: staging.parameters,
    }
}

#[cfg(test)]
mod tests;

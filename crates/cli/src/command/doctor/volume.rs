//! Reads a `volume.toml`, and derives further subjects from it.

use super::finding::{CheckResult, Finding, Role, Subject};
use super::machine::program;
use engine::volume::{Config, Problems, QueueName, StateStore};
use node::control::{Client, socket_of};
use std::path::Path;

/// Requests the path of the volume's file from the daemon.
pub fn of_daemon(socket: &Path) -> CheckResult {
    let status = super::around::status(socket);
    if let Some(file) = status.as_ref().ok().and_then(|status| status.file.clone()) {
        return CheckResult { further: vec![Subject::Volume { file }], ..CheckResult::default() };
    }
    let why = "the settings of the volume are unknown, so only the machine was checked";
    let finding = match Client::connect(socket).err().or(status.err()) {
        Some(problem) => Finding::failure("daemon", problem.cause)
            .so(why)
            .next("name the volume's file: entrepot doctor VOLUME.TOML"),
        None => Finding::warning("daemon", "it returns the path of the volume's file to its operator only")
            .so(why)
            .next("ask the operator of the volume"),
    };
    vec![finding].into()
}

pub fn look(file: &Path) -> CheckResult {
    let config = match Config::read(file) {
        Ok(config) => config,
        Err(problems) => return refused(&problems).into(),
    };
    let mut findings =
        vec![Finding::ok("volume.toml", format!("{}, volume \"{}\", is valid", file.display(), config.name))];
    findings.extend(programs(&config));
    let host = object::host::name();
    let socket = socket_of(&config.state);
    let directory = |name: String, role, path: &Path| Subject::Directory { name, role, path: path.into() };
    let mut further = vec![
        Subject::Refusals { file: file.into() },
        directory("namespace".into(), Role::Namespace, &config.namespace),
        directory("state directory".into(), Role::State, &config.state),
    ];
    let here = config.targets.iter().filter(|target| target.is_on(&host));
    further.extend(
        here.filter_map(|target| Some(directory(format!("target {}", target.name), Role::Target, target.directory()?))),
    );
    if config.state_store != StateStore::Embedded {
        further.push(Subject::Server { file: file.into() });
        let targets = config.targets.iter().filter_map(|target| target.directory());
        let directories = std::iter::once(&*config.namespace).chain(targets).map(Path::to_path_buf).collect();
        further.push(Subject::Shared { directories });
    }
    let secrets = [("token_file", &config.endpoint.token_file), ("certificate_key", &config.endpoint.certificate_key)];
    further.extend(
        secrets.into_iter().filter_map(|(key, path)| Some(Subject::Secret { key: key.into(), path: path.clone()? })),
    );
    further.extend(config.endpoint.listen.map(|listen| Subject::Endpoint {
        listen,
        has_token: config.endpoint.token_file.is_some(),
        has_certificate: config.endpoint.certificate.is_some(),
        socket: socket.clone(),
    }));
    further.push(Subject::Daemon { socket });
    CheckResult { findings, further, device: None }
}

/// Problems for which `up` would refuse the volume.
pub fn refusals(file: &Path) -> Vec<Finding> {
    match Config::load(file) {
        Ok(_) => vec![Finding::ok("volume.toml", "`up` would refuse none of its directories")],
        Err(problems) => refused(&problems),
    }
}

fn refused(Problems(problems): &Problems) -> Vec<Finding> {
    let finding = |p: &engine::volume::Problem| {
        let place = p.place.as_ref().map(|(file, line, column)| format!("{}:{line}:{column}: ", file.display()));
        Finding::failure("volume.toml", place.unwrap_or_default() + &p.cause).so(&p.consequence).next(p.mend.clone())
    };
    problems.iter().map(finding).collect()
}

/// Checks the programs that the volume calls.
fn programs(config: &Config) -> Vec<Finding> {
    let mut wanted = Vec::new();
    for target in &config.targets {
        let Some(connections) = target.connections() else { continue };
        let name = match connections.kind.as_str() {
            "glusterfs" => "glusterfs".to_owned(),
            "sshfs" | "fuse.sshfs" => "sshfs".into(),
            "bind" => "mount".into(),
            kind => format!("mount.{kind}"),
        };
        wanted.push((name, format!("target {}", target.name)));
    }
    match config.replication.queue {
        QueueName::Local => {}
        QueueName::Slurm => wanted.push(("squeue".into(), "[replication] queue".into())),
        QueueName::Pbs => wanted.push(("qstat".into(), "[replication] queue".into())),
    }
    if !config.jobs.slurm_user.is_empty() {
        wanted.push(("squeue".into(), "[jobs] slurm_user".into()));
    }
    wanted.dedup();
    let finding = |(name, who): (String, String)| match program(&name) {
        Some(path) => Finding::ok(&who, format!("`{name}` is {}", path.display())),
        None => Finding::failure(&who, format!("there is no `{name}` in PATH or /sbin"))
            .so("the volume calls it, and these calls fail without it")
            .next(format!("install the package that has `{name}`")),
    };
    wanted.into_iter().map(finding).collect()
}

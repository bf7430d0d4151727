//! A process on a host that does the calls which a test asks for, one after the other or at a given instant: this
//! program once more.

use crate::bench::work::{Work, seconds};
use crate::hosts::{Host, USER};
use crate::locks;
use crate::real::until;
use crate::saves;
use crate::space::Lines;
use crate::writers::{Orders, work};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, XattrFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, Write};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

const MARK: &str = "ENTREPOT_CLUSTER_AGENT";
/// Timeout of a call.
const CALL: Duration = Duration::from_secs(60);

/// A call; `of` is the name that an open file was given.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Call {
    /// Opens for reading and writing, with more flags.
    Open {
        path: String,
        flags: u32,
        of: String,
    },
    Close {
        of: String,
    },
    SetAttribute {
        of: String,
        name: String,
        value: String,
        create: bool,
    },
    GetAttribute {
        of: String,
        name: String,
    },
    ListAttributes {
        of: String,
    },
    RemoveAttribute {
        of: String,
        name: String,
    },
    /// Writes one byte value so many times; at the end of a file that was opened so, without a place.
    Write {
        of: String,
        offset: Option<u64>,
        byte: u8,
        len: usize,
    },
    /// The bytes, as runs of a value and how often it comes.
    Read {
        of: String,
        offset: u64,
        len: usize,
    },
    Truncate {
        of: String,
        size: u64,
    },
    Sync {
        of: String,
    },
    /// Size by an open file.
    SizeOf {
        of: String,
    },
    /// Size by name.
    Size {
        path: String,
    },
    Rename {
        from: String,
        to: String,
    },
    Link {
        from: String,
        to: String,
    },
    Unlink {
        path: String,
    },
    List {
        path: String,
    },
    /// An exclusive lock of the whole file, without waiting.
    Flock {
        of: String,
    },
    /// A lock of a user, asked for in one of the ways there are.
    Lock(locks::Lock),
    /// A number in a file, made larger by one so many times, each time under a lock.
    Count {
        path: String,
        times: u64,
        by: locks::By,
    },
    /// Records of a file that others write, too.
    Records(Orders),
    /// Versions of a file, written one after the other.
    Save(saves::Orders),
    /// Reads of one file, again and again.
    Load(saves::Orders),
    /// A part of a benchmark; gives its seconds.
    Work(Work),
    /// A lock of a range that belongs to the open file, without waiting.
    LockRange {
        of: String,
        exclusive: bool,
        start: i64,
        len: i64,
    },
}

/// Result of a call, and its duration.
#[derive(Debug)]
pub struct Answer {
    pub result: Result<Value, Errno>,
    pub took: Duration,
}

impl Answer {
    /// The result, which must not be an error.
    #[track_caller]
    pub fn ok(self) -> Value {
        self.result.unwrap_or_else(|errno| panic!("{errno}"))
    }
}

/// A process on a host that runs calls.
pub struct Agent<'a> {
    host: &'a Host,
    process: Child,
    input: Option<ChildStdin>,
    lines: Lines,
    pid: u32,
}

fn now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl<'a> Agent<'a> {
    /// One with root's rights, for what is not a volume's mount.
    pub fn start(host: &'a Host) -> Agent<'a> {
        Agent::run(host, host.process(&std::env::current_exe().expect("this program")))
    }

    /// An agent of the ordinary user [`USER`].
    pub fn of_user(host: &'a Host) -> Agent<'a> {
        let mut command = host.process(Path::new("setpriv"));
        let user = USER.to_string();
        command.args(["--reuid", &user, "--regid", &user, "--clear-groups"]);
        command.arg(std::env::current_exe().expect("this program"));
        Agent::run(host, command)
    }

    fn run(host: &'a Host, mut command: Command) -> Agent<'a> {
        command.args(["--exact", "agent::program", "--nocapture"]).env(MARK, "1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("nsenter");
        let (input, lines) = (process.stdin.take(), Lines::of(process.stdout.take().expect("piped")));
        let mut agent = Agent { host, process, input, lines, pid: 0 };
        agent.pid = agent.line()["pid"].as_u64().expect("a number") as u32;
        agent
    }

    fn line(&self) -> Value {
        loop {
            let line = self.lines.next(CALL);
            let line = line.unwrap_or_else(|| panic!("host {}: a call did not end", self.host.number));
            // The test runner prints lines, too.
            if line.starts_with('{') {
                return serde_json::from_str(&line).expect("JSON");
            }
        }
    }

    fn send(&mut self, at: u64, call: &Call) {
        let line = json!({"at": at, "call": call}).to_string();
        writeln!(self.input.as_mut().expect("open"), "{line}").expect("the agent reads");
    }

    fn answer(&self) -> Answer {
        let line = self.line();
        let result = match line["errno"].as_i64() {
            Some(errno) => Err(Errno::from_raw_os_error(errno as i32)),
            None => Ok(line["gave"].clone()),
        };
        Answer { result, took: Duration::from_nanos(line["took"].as_u64().expect("a number")) }
    }

    pub fn call(&mut self, call: Call) -> Answer {
        self.begin(&call);
        self.end()
    }

    /// Asks for a call after those that were asked for, and does not wait.
    pub fn begin(&mut self, call: &Call) {
        self.send(0, call);
    }

    /// Waits for the first call that was asked for and has no answer yet.
    pub fn end(&self) -> Answer {
        self.answer()
    }

    /// A call that must succeed.
    #[track_caller]
    pub fn ok(&mut self, call: Call) -> Value {
        let shown = format!("{call:?}");
        self.call(call).result.unwrap_or_else(|errno| panic!("host {}: {shown}: {errno}", self.host.number))
    }

    /// Opens a file under a name, made if it is not there.
    #[track_caller]
    pub fn open(&mut self, path: &str, of: &str) {
        self.ok(Call::Open { path: path.into(), flags: OFlags::CREATE.bits(), of: of.into() });
    }

    #[track_caller]
    pub fn names(&mut self, path: &str) -> Vec<String> {
        serde_json::from_value(self.ok(Call::List { path: path.into() })).expect("names")
    }

    /// Waits until a host that was cut off reaches each brick: a directory is listed without the names of one that is
    /// away.
    pub fn reaches_all(&mut self, dir: &str) {
        let mut make = |n: usize| {
            let path = format!("{dir}/made{n}");
            self.call(Call::Open { path, flags: OFlags::CREATE.bits(), of: "made".into() }).result.is_ok()
        };
        until("it is connected again", || (0..24).all(&mut make));
    }
}

/// Calls of all agents at the same instant, but for what each is to come later.
pub fn race(agents: &mut [Agent<'_>], calls: &[(usize, Call, Duration)]) -> Vec<Answer> {
    let start = now() + 1_500_000;
    for (n, call, later) in calls {
        agents[*n].send(start + later.as_nanos() as u64, call);
    }
    calls.iter().map(|(n, _, _)| agents[*n].answer()).collect()
}

impl Drop for Agent<'_> {
    fn drop(&mut self) {
        drop(self.input.take());
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(2) && !matches!(self.process.try_wait(), Ok(Some(_))) {
            std::thread::sleep(Duration::from_millis(1));
        }
        if !matches!(self.process.try_wait(), Ok(Some(_))) {
            drop(self.host.run("kill", &["-9", &self.pid.to_string()]));
            drop(self.process.kill());
            drop(self.process.wait());
        }
    }
}

/// The program of an agent; in a normal run of the tests it returns at once.
#[test]
fn program() {
    if std::env::var_os(MARK).is_none() {
        return;
    }
    println!("\n{}", json!({"pid": std::process::id()}));
    let mut files = HashMap::new();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let mut line: Value = serde_json::from_str(&line).expect("JSON");
        let call = serde_json::from_value(line["call"].take()).expect("a call");
        let wait = line["at"].as_u64().expect("a number").saturating_sub(now());
        std::thread::sleep(Duration::from_nanos(wait));
        let began = Instant::now();
        let result = carry(call, &mut files);
        let took = began.elapsed().as_nanos() as u64;
        let answer = match result {
            Ok(gave) => json!({"took": took, "gave": gave}),
            Err(errno) => json!({"took": took, "errno": errno.raw_os_error()}),
        };
        println!("{answer}");
    }
}

fn carry(call: Call, files: &mut HashMap<String, File>) -> Result<Value, Errno> {
    match call {
        Call::Open { path, flags, of } => {
            let flags = OFlags::RDWR | OFlags::from_bits_retain(flags);
            let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?;
            files.insert(of, file.into());
        }
        // The error of the close is of interest.
        Call::Close { of } => {
            let file = files.remove(&of).expect("open").into_raw_fd();
            // SAFETY: the descriptor was open and has no other owner.
            if unsafe { libc::close(file) } != 0 {
                return Err(last());
            }
        }
        Call::SetAttribute { of, name, value, create } => {
            let flags = if create { XattrFlags::CREATE } else { XattrFlags::empty() };
            rustix::fs::fsetxattr(&files[&of], name, value.as_bytes(), flags)?;
        }
        Call::GetAttribute { of, name } => {
            let mut value = vec![0; 4096];
            let len = rustix::fs::fgetxattr(&files[&of], name, &mut value)?;
            return Ok(String::from_utf8_lossy(&value[..len]).into());
        }
        Call::ListAttributes { of } => {
            let mut names = vec![0; 65536];
            let len = rustix::fs::flistxattr(&files[&of], &mut names)?;
            let names = names[..len].split(|byte| *byte == 0).map(String::from_utf8_lossy);
            return Ok(names.filter(|name| name.starts_with("user.")).collect());
        }
        Call::Truncate { of, size } => rustix::fs::ftruncate(&files[&of], size)?,
        Call::RemoveAttribute { of, name } => rustix::fs::fremovexattr(&files[&of], name)?,
        Call::Write { of, offset, byte, len } => {
            let bytes = vec![byte; len];
            let n = match offset {
                Some(offset) => rustix::io::pwrite(&files[&of], &bytes, offset)?,
                None => rustix::io::write(&files[&of], &bytes)?,
            };
            return Ok(n.into());
        }
        Call::Read { of, offset, len } => return Ok(json!(runs(&files[&of], offset, len)?)),
        Call::Sync { of } => rustix::fs::fsync(&files[&of])?,
        Call::SizeOf { of } => return Ok(object::host::fstat(&files[&of])?.st_size.into()),
        Call::Size { path } => return Ok(rustix::fs::stat(path)?.st_size.into()),
        Call::Rename { from, to } => rustix::fs::rename(from, to)?,
        Call::Link { from, to } => rustix::fs::linkat(rustix::fs::CWD, from, rustix::fs::CWD, to, AtFlags::empty())?,
        Call::Unlink { path } => rustix::fs::unlink(path)?,
        Call::List { path } => {
            let dir = rustix::fs::Dir::new(rustix::fs::open(path, OFlags::DIRECTORY, Mode::empty())?)?;
            let names = dir.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
            let mut names = names.collect::<Result<Vec<String>, Errno>>()?;
            names.retain(|name| name != "." && name != "..");
            names.sort();
            return Ok(names.into());
        }
        Call::Flock { of } => rustix::fs::flock(&files[&of], FlockOperation::NonBlockingLockExclusive)?,
        Call::Lock(lock) => return lock.ask(&files[&lock.of]),
        Call::Count { path, times, by } => locks::count(&path, times, by)?,
        Call::Records(orders) => return Ok(json!(work(&orders)?)),
        Call::Save(orders) => return Ok(json!(saves::write(&orders)?)),
        Call::Load(orders) => return Ok(json!(saves::read(&orders)?)),
        Call::Work(work) => return Ok(json!(seconds(&work)?)),
        Call::LockRange { of, exclusive, start, len } => lock_range(&files[&of], exclusive, start, len)?,
    }
    Ok(Value::Null)
}

/// Reads until the end of the file: runs of equal bytes.
fn runs(file: &File, offset: u64, len: usize) -> Result<Vec<(u8, usize)>, Errno> {
    let mut bytes = vec![0; len];
    let mut end = 0;
    while end < len {
        match rustix::io::pread(file, &mut bytes[end..], offset + end as u64)? {
            0 => break,
            n => end += n,
        }
    }
    Ok(bytes[..end].chunk_by(|a, b| a == b).map(|run| (run[0], run.len())).collect())
}

fn lock_range(file: &File, exclusive: bool, start: i64, len: i64) -> Result<(), Errno> {
    let kind = if exclusive { libc::F_WRLCK } else { libc::F_UNLCK };
    // SAFETY: zero is a value of each field.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    (lock.l_type, lock.l_whence, lock.l_start, lock.l_len) = (kind as i16, libc::SEEK_SET as i16, start, len);
    // SAFETY: the file is open, the lock is there until the call returns.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &lock) } != 0 {
        return Err(last());
    }
    Ok(())
}

pub fn last() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).expect("an errno")
}

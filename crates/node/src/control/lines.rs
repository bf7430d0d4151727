//! Incoming requests: lines, each with one deadline, and memory for long lines as far as available.

use super::{Problem, exit};
use object::admission::{Admission, Held};
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Size below which a request needs no admission. Nearly all requests are far smaller; scripts, manifests and
/// environments may be larger.
const SMALL_BYTES: usize = 64 << 10;

/// Maximum of values in one request: each takes far more memory than bytes of text.
const PARTS_MAX: usize = 1 << 18;

/// Limits of a line.
#[derive(Clone, Copy, Debug)]
pub struct LineLimits {
    /// Longest span without a request.
    pub idle: Duration,
    /// Longest span from the first byte of a request to its last.
    pub line: Duration,
    /// Maximum length of a request.
    pub bytes_max: u64,
}

/// Reads the lines of one connection.
pub struct Lines<'a> {
    stream: &'a UnixStream,
    limits: LineLimits,
    /// Memory for long requests.
    bodies: &'a Arc<Admission>,
    uid: u32,
    ahead: Vec<u8>,
}

/// A received request, and the memory that it takes.
pub struct Line {
    pub bytes: Vec<u8>,
    _held: Option<Held>,
}

/// Reason why there is no further line.
pub enum End {
    /// The client hung up, or was too slow.
    Gone(io::Error),
    /// The request is refused: the client receives the reason, and the connection ends.
    Refused(Problem),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> End {
        End::Gone(error)
    }
}

impl<'a> Lines<'a> {
    pub fn new(stream: &'a UnixStream, limits: LineLimits, bodies: &'a Arc<Admission>, uid: u32) -> Lines<'a> {
        Lines { stream, limits, bodies, uid, ahead: Vec::new() }
    }

    /// The next line without its end; `None` when the client hung up between two lines.
    pub fn next(&mut self) -> Result<Option<Line>, End> {
        let mut line = std::mem::take(&mut self.ahead);
        let mut held = None;
        let mut until = Instant::now() + if line.is_empty() { self.limits.idle } else { self.limits.line };
        let mut searched = 0;
        let mut chunk = [0; 16 << 10];
        loop {
            if let Some(at) = line[searched..].iter().position(|b| *b == b'\n') {
                self.ahead = line.split_off(searched + at + 1);
                line.pop();
                return Ok(Some(Line { bytes: line, _held: held }));
            }
            searched = line.len();
            self.admit(line.len() + chunk.len(), &mut held)?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::Error::from(io::ErrorKind::TimedOut).into());
            }
            self.stream.set_read_timeout(Some(left))?;
            let n = match self.stream.read(&mut chunk) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            if n == 0 {
                return if line.is_empty() {
                    Ok(None)
                } else {
                    Err(io::Error::from(io::ErrorKind::UnexpectedEof).into())
                };
            }
            if line.is_empty() {
                until = Instant::now() + self.limits.line;
            }
            line.extend_from_slice(&chunk[..n]);
        }
    }

    /// Admits a request of `bytes` bytes; its memory counts from then on.
    fn admit(&self, bytes: usize, held: &mut Option<Held>) -> Result<(), End> {
        let bytes_max = self.limits.bytes_max;
        if bytes <= SMALL_BYTES {
            return Ok(());
        }
        if bytes as u64 > bytes_max + (SMALL_BYTES as u64) {
            let problem = Problem::wrong(format!("the request is longer than {bytes_max} bytes"));
            return Err(End::Refused(problem.try_this("ask for less at once")));
        }
        // Admission in steps, so that not every read needs one.
        let wanted = bytes.next_multiple_of(SMALL_BYTES) as u64;
        let admitted = match held {
            Some(held) => held.resize(wanted),
            None => self.bodies.take(self.uid, wanted).map(|taken| *held = Some(taken)),
        };
        admitted.map_err(|_| {
            let cause = "the daemon's limit of long requests, or that of one user, is reached";
            End::Refused(Problem::new(exit::BUSY, cause).try_this("try again later"))
        })
    }
}

/// Whether a request has at most `PARTS_MAX` values.
pub fn is_of_few_parts(line: &[u8]) -> bool {
    let (mut parts, mut quoted, mut escaped) = (0, false, false);
    for b in line {
        match b {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' | b'[' | b'{' if !quoted => parts += 1,
            _ => {}
        }
    }
    parts <= PARTS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn limits(bytes_max: u64) -> LineLimits {
        LineLimits { idle: Duration::from_secs(60), line: Duration::from_secs(60), bytes_max }
    }

    #[test]
    fn lines_come_one_by_one_and_a_torn_one_is_none() {
        let (mut client, server) = UnixStream::pair().unwrap();
        let bodies = Admission::new(0, 0);
        client.write_all(b"one\n\ntwo\nthr").unwrap();
        drop(client);
        let mut lines = Lines::new(&server, limits(100), &bodies, 1);
        for expected in ["one", "", "two"] {
            let line = lines.next().ok().flatten().map(|line| line.bytes);
            assert_eq!(line.as_deref(), Some(expected.as_bytes()));
        }
        assert!(matches!(lines.next(), Err(End::Gone(e)) if e.kind() == io::ErrorKind::UnexpectedEof));
    }

    /// [S-172]
    #[test]
    fn long_lines_share_the_memory_for_them() {
        let own = rustix::process::geteuid().as_raw();
        let bodies = Admission::new(4 << 20, 1 << 20);
        let send = |uid: u32, bytes: usize| {
            let (mut client, server) = UnixStream::pair().unwrap();
            let bodies = bodies.clone();
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    // The write fails when the server refuses the request.
                    let _ = client.write_all(&vec![b'x'; bytes]).and_then(|()| client.write_all(b"\n"));
                });
                let line = Lines::new(&server, limits(2 << 20), &bodies, uid).next();
                drop(server);
                line
            })
        };
        let refused = |line: Result<Option<Line>, End>| match line {
            Err(End::Refused(problem)) => problem.exit_code,
            Err(End::Gone(error)) => panic!("{error}"),
            Ok(_) => panic!("it was taken"),
        };
        let first = send(own + 1, 1 << 20).ok().flatten().expect("half of what others leave");
        assert_eq!(first.bytes.len(), 1 << 20);
        assert_eq!(refused(send(own + 1, 1 << 20)), exit::BUSY, "one user does not get all");
        assert!(send(own + 1, 1000).is_ok(), "small ones always pass");
        let other = send(own + 2, 700 << 10).ok().flatten().expect("another user still gets some");
        let operator = send(own, 2 << 20).ok().flatten().expect("the operator's part is kept");
        drop((first, other, operator));
        assert_eq!(bodies.used(), 0);
        assert_eq!(refused(send(own, 3 << 20)), exit::WRONG_INPUT, "longer than any may be");
    }

    #[test]
    fn parts_are_counted_outside_of_strings() {
        assert!(is_of_few_parts(br#"{"a":",,,[[[{{{\",","b":[1,2]}"#));
        assert!(is_of_few_parts(format!("[\"{}\"]", ",".repeat(PARTS_MAX * 2)).as_bytes()));
        assert!(!is_of_few_parts(format!("[{}0]", "0,".repeat(PARTS_MAX)).as_bytes()));
        assert!(!is_of_few_parts("[".repeat(PARTS_MAX + 1).as_bytes()));
    }
}

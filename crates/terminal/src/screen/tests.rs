//! A screen on a pseudoterminal: it is restored at the end, and before a panic message.

use super::*;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// Both ends of a pseudoterminal: the user's and the program's.
fn terminal() -> (File, OwnedFd) {
    let people = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&people).unwrap();
    unlockpt(&people).unwrap();
    let name = ptsname(&people, Vec::new()).unwrap();
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY;
    let programs = rustix::fs::open(name, flags, rustix::fs::Mode::empty()).unwrap();
    (people.into(), programs)
}

fn modes(terminal: &OwnedFd) -> (LocalModes, InputModes, u8) {
    let told = tcgetattr(terminal).unwrap();
    (told.local_modes, told.input_modes, told.special_codes[SpecialCodeIndex::VSUSP])
}

/// Returns the output up to the restoration of the terminal.
fn written(people: &mut File) -> String {
    let mut text = String::new();
    while !text.ends_with(GIVE_BACK) {
        let mut chunk = [0; 4096];
        let n = people.read(&mut chunk).unwrap();
        text.push_str(std::str::from_utf8(&chunk[..n]).unwrap());
    }
    text
}

/// A single test, since a process has one screen at a time.
/// [S-284]
#[test]
fn the_terminal_is_taken_and_given_back_as_it_was_also_before_a_panic_speaks() {
    let (mut people, programs) = terminal();
    let as_it_was = modes(&programs);
    let take = || Screen::on(programs.try_clone().unwrap(), programs.try_clone().unwrap()).unwrap();
    let mut screen = take();
    assert_ne!(modes(&programs), as_it_was);
    assert_eq!(screen.size(), SIZE, "it says nothing of its size");
    let size = Winsize { ws_row: 3, ws_col: 10, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&programs, size).unwrap();
    assert_eq!(screen.size(), Size { columns: 10, rows: 3 });
    let soon = || Instant::now() + Duration::from_secs(60);
    people.write_all(b"\x1b[Bx").unwrap();
    assert_eq!(screen.wait(soon()).unwrap(), Happened::Key(Key::Down));
    assert_eq!(screen.wait(soon()).unwrap(), Happened::Key(Key::Char('x')), "no need to press Enter");
    assert_eq!(screen.wait(Instant::now()).unwrap(), Happened::Nothing);
    signal_hook::low_level::raise(SIGWINCH).unwrap();
    assert_eq!(screen.wait(soon()).unwrap(), Happened::Resized);
    let line = Line { text: "hello".into(), is_strong: false };
    screen.draw(&[line]).unwrap();
    drop(screen);
    assert_eq!(modes(&programs), as_it_was);
    let shown = written(&mut people);
    assert!(shown.starts_with(TAKE) && shown.contains("hello"), "{shown:?}");
    assert!(!shown.contains('x'), "what is typed is not echoed: {shown:?}");

    let screen = take();
    let panicked = std::panic::catch_unwind(|| panic!("on purpose"));
    assert!(panicked.is_err());
    assert_eq!(modes(&programs), as_it_was, "though the screen is not dropped yet");
    assert!(!written(&mut people).contains("on purpose"), "what it says goes where it went before");
    drop(screen);

    let mut screen = take();
    drop(people);
    drop(programs);
    assert!(screen.wait(soon()).is_err(), "a terminal that is gone is the end");
}

#[test]
fn lines_are_cut_at_the_last_column_and_row() {
    let line = |text: &str, is_strong| Line { text: text.into(), is_strong };
    let size = Size { columns: 4, rows: 2 };
    let drawn = drawn(&[line("ab", true), line("abcdef", false), line("never", false)], size);
    assert_eq!(drawn, "\x1b[H\x1b[7mab  \x1b[0m\r\n\x1b[2Kabcd");
    assert_eq!(super::drawn(&[line("x", false)], size), "\x1b[H\x1b[2Kx\r\n\x1b[J");
}

#[test]
fn wide_characters_take_two_columns() {
    assert_eq!([cut("数据abc", 5), cut("数据", 3), cut("é́x", 1)], ["数据a", "数", "é́"]);
}

//! The path from the daemon's reports to the screen, and the effects of keys.

use super::board::{Board, Next, Sort, View};
use super::frame::{lines, text};
use super::moment::Moment;
use endpoint::{Job, Staging};
use engine::stats::{TargetCounts, UserCounts};
use node::control::{FileCounts, Top};
use terminal::screen::{Key, Size};

const MI_B: u64 = 1 << 20;

fn user(uid: u32, ops: u64, written_bytes: u64, total_ns: u64) -> UserCounts {
    UserCounts { uid: Some(uid), ops, written_bytes, total_ns, ..UserCounts::default() }
}

fn file(path: &str, inode: u64, ops: u64, read_bytes: u64) -> FileCounts {
    let (path, layout) = (Some(path.to_owned()), "1 target".to_owned());
    FileCounts {
        path,
        inode,
        uid: 4_000_000_001,
        size: 5 * MI_B,
        layout,
        handles: 2,
        ops,
        read_bytes,
        ..FileCounts::default()
    }
}

fn moment(uptime_s: u64, users: Vec<UserCounts>, files: Vec<FileCounts>) -> Moment {
    let target = TargetCounts {
        name: "fast0".into(),
        state: "ok".into(),
        total_bytes: 200,
        free_bytes: 50,
        ops: 9,
        timed: vec![4, 0, 2],
        timed_ns: 12_000_000,
        ..TargetCounts::default()
    };
    let top = Top {
        uptime_ns: uptime_s * 1_000_000_000,
        volume: "scratch".into(),
        host: "n1".into(),
        nodes: 1,
        everybody: true,
        all: users.iter().fold(UserCounts::default(), |all, user| UserCounts {
            ops: all.ops + user.ops,
            written_bytes: all.written_bytes + user.written_bytes,
            total_ns: all.total_ns + user.total_ns,
            ..all
        }),
        users,
        open_files: files.len() as u64,
        files,
        all_files: true,
        tiers: vec!["fast".into()],
        targets: vec![target],
        ..Top::default()
    };
    Moment { top, ..Moment::default() }
}

fn names(board: &Board) -> Vec<String> {
    let all = text(board);
    let last = |line: &str| line.split_whitespace().last().unwrap_or_default().to_owned();
    let first = |line: &str| line.split_whitespace().next().unwrap_or_default().to_owned();
    all.lines().skip(4).map(if board.view == View::Files { last } else { first }).collect()
}

/// Numbers that no machine has users for, so that no name stands in their place.
const A: u32 = 4_000_000_001;
const B: u32 = 4_000_000_002;

/// [S-283]
#[test]
fn totals_first_and_then_what_came_in_between() {
    let mut board = Board::new(View::Users, Sort::Bytes, moment(100, vec![user(A, 10, 4 * MI_B, 50_000)], vec![]));
    assert_eq!(
        text(&board),
        "volume scratch on n1, up 1 min 40 s, 1970-01-01T00:00:00Z\n\
         all users: 0 B read, 4.0 MiB written, 10 ops of 5 us; 0 files open\n\
         users since the daemon started, by bytes\n\
         user        read  written  ops  latency\n\
         4000000001   0 B  4.0 MiB   10     5 us\n"
    );
    board.now_is(moment(102, vec![user(A, 11, 5 * MI_B, 2_050_000), user(B, 400, 8 * MI_B, 400_000)], vec![]));
    assert_eq!(
        text(&board).lines().skip(1).collect::<Vec<_>>(),
        [
            "all users: 0 B/s read, 4.5 MiB/s written, 200 ops/s of 5 us; 0 files open",
            "users in the last 2.0 s, by bytes",
            "user        read/s  written/s  ops/s  latency",
            "4000000002     0 B    4.0 MiB    200     1 us",
            "4000000001     0 B    512 KiB    0.5     2 ms",
        ]
    );
    // A restarted daemon counts from zero.
    board.now_is(moment(1, vec![user(A, 1, 7, 1)], vec![]));
    assert!(text(&board).contains("since the daemon started"), "{}", text(&board));
}

/// [S-283]
#[test]
fn files_that_are_opened_again_or_were_left_out_show_no_rate_that_never_was() {
    let mut board =
        Board::new(View::Files, Sort::Bytes, moment(10, vec![], vec![file("a", 1, 5, 5000), file("b", 2, 5, 9000)]));
    board.now_is(moment(11, vec![], vec![file("a", 1, 1, 100), file("b", 2, 6, 9050), file("c", 3, 2, 70)]));
    let shown = |board: &Board| text(board).lines().skip(4).map(|l| l[..7].trim().to_owned()).collect::<Vec<_>>();
    assert_eq!(names(&board), ["a", "c", "b"]);
    assert_eq!(shown(&board), ["100 B", "70 B", "50 B"], "of one that was closed and opened: what came since");
    let mut some = moment(12, vec![], vec![file("a", 1, 1, 100)]);
    some.top.all_files = false;
    board.now_is(some);
    board.now_is(moment(13, vec![], vec![file("a", 1, 1, 103), file("d", 4, 900, 900 * MI_B)]));
    assert_eq!(
        (names(&board), shown(&board)),
        (vec!["a".to_owned(), "d".into()], vec!["3 B".to_owned(), "0 B".into()])
    );
}

#[test]
fn each_view_is_sorted_by_what_it_has() {
    let users = vec![user(A, 9, 100, 9_000), user(B, 2, 50, 200_000_000)];
    let mut board = Board::new(View::Users, Sort::Bytes, moment(5, users, vec![file("f", 1, 1, 1)]));
    let [a, b] = [A, B].map(|uid| uid.to_string());
    let press = |board: &mut Board, key: char| board.press(Key::Char(key), 10);
    assert_eq!((names(&board), board.sort.name()), (vec![a.clone(), b.clone()], "bytes"));
    assert_eq!(press(&mut board, 'r'), Next::Goes);
    assert_eq!(names(&board), [b.clone(), a.clone()]);
    press(&mut board, 'r');
    press(&mut board, 's');
    assert_eq!((names(&board), board.sort.name()), (vec![a.clone(), b.clone()], "operations"));
    press(&mut board, 's');
    assert_eq!((names(&board), board.sort.name()), (vec![b.clone(), a.clone()], "latency"));
    press(&mut board, 's');
    assert_eq!((names(&board), board.sort.name()), (vec![a, b], "name"));
    assert_eq!(press(&mut board, '4'), Next::Goes);
    assert!(text(&board).ends_with("fast0   fast  ok     75 %   0 B      0 B    9     2 ms\n"), "{}", text(&board));
    press(&mut board, 's');
    press(&mut board, 's');
    assert_eq!(press(&mut board, '2'), Next::Asks, "jobs are asked for when they are to be shown");
    assert_eq!(board.sort.name(), "bytes", "jobs have no operations");
    assert_eq!(board.press(Key::Tab, 10), Next::Goes);
    assert_eq!((board.view.name(), names(&board)), ("files", vec!["f".to_owned()]));
    assert_eq!(press(&mut board, 'q'), Next::Ends);
}

#[test]
fn a_job_shows_how_fast_its_data_come_from_the_second_look_on() {
    let job = |staged| Job {
        id: 7,
        user: "ann".into(),
        state: "staging-in".into(),
        name: "run".into(),
        detail: "two\nlines".into(),
        staging: Some(Staging { done_bytes: staged, total_bytes: 10 * MI_B, left_s: Some(61) }),
        ..Job::default()
    };
    let of_slurm = Job { id: 7, scheduler: Some("Slurm".into()), state: "running".into(), ..Job::default() };
    let with = |uptime_s, staged| Moment {
        jobs: Some(vec![of_slurm.clone(), job(staged)]),
        ..moment(uptime_s, vec![], vec![])
    };
    let mut board = Board::new(View::Jobs, Sort::Bytes, with(10, 2 * MI_B));
    board.now_is(moment(11, vec![], vec![]));
    board.now_is(with(12, 3 * MI_B));
    assert!(
        text(&board)
            .contains("7          ann   staging-in        0 B  3.0 MiB  10.0 MiB  1 min 1 s  run   two lines\n"),
        "{}",
        text(&board)
    );
    board.now_is(with(14, 7 * MI_B));
    assert_eq!(names(&board), ["7", "7"]);
    assert!(text(&board).lines().nth(4).is_some_and(|line| line.contains("2.0 MiB  7.0 MiB")), "{}", text(&board));
}

#[test]
fn a_screen_is_filled_to_its_last_row_and_the_rest_is_a_key_away() {
    let files = (0..30).map(|n| file(&format!("f{n:02}"), n, 1, 1)).collect();
    let mut board = Board::new(View::Files, Sort::Name, moment(5, vec![], files));
    let size = Size { columns: 80, rows: 12 };
    let shown = |board: &Board| {
        let lines = lines(board, size);
        assert_eq!(lines.len(), 12);
        assert_eq!(lines.iter().filter(|line| line.is_strong).count(), 1);
        let first = lines[4].text.split_whitespace().last().unwrap_or_default().to_owned();
        (first, lines[11].text.clone())
    };
    let (first, last) = shown(&board);
    assert!(first == "f00" && last.starts_with("1-7 of 30   1 users"), "{first} {last}");
    board.press(Key::PageDown, 7);
    board.press(Key::Down, 7);
    assert_eq!(shown(&board).0, "f08");
    for _ in 0..9 {
        board.press(Key::PageDown, 7);
    }
    assert_eq!(shown(&board).0, "f23", "no further than the last");
    board.press(Key::PageUp, 7);
    assert_eq!(shown(&board).0, "f16", "and back at once");
    board.note = Some("the daemon is gone".into());
    assert!(shown(&board).1.ends_with("   the daemon is gone"));
    assert_eq!(lines(&board, Size { columns: 3, rows: 1 }).len(), 5, "however small; the screen cuts it");
}

#[test]
fn a_narrow_screen_keeps_the_end_of_a_path() {
    let path = format!("{}/result.dat", "a_long_directory".repeat(5));
    let board = Board::new(View::Files, Sort::Bytes, moment(5, vec![], vec![file(&path, 1, 1, 1)]));
    let row = lines(&board, Size { columns: 80, rows: 12 })[4].text.clone();
    assert!(row.ends_with("/result.dat") && row.contains('…') && row.chars().count() <= 80, "{row}");
    assert!(text(&board).contains(&path), "a file gets all of it");
}

/// [S-284]
#[test]
fn names_do_not_steer_the_terminal() {
    let mut board =
        Board::new(View::Files, Sort::Bytes, moment(5, vec![], vec![file("a\u{1b}[2J\u{202e}\n", 1, 1, 1)]));
    board.note = Some("gone\u{1b}c".into());
    let size = Size { columns: 200, rows: 8 };
    let all: String = lines(&board, size).into_iter().map(|line| line.text + "\n").collect();
    let steers = |c: char| c != '\n' && c.is_control() || c == '\u{202e}';
    assert!(!all.contains(steers) && all.contains(r"a\u{1b}[2J\u{202e}\n") && all.contains(r"gone\u{1b}c"), "{all}");
}

/// [S-282]
#[test]
fn it_says_whose_numbers_these_are_and_which_node_counted() {
    let mut seen = moment(5, vec![user(A, 1, 1, 1)], vec![file("f", 1, 1, 1)]);
    (seen.top.nodes, seen.top.everybody) = (3, false);
    let mut board = Board::new(View::Users, Sort::Bytes, seen);
    let line = |board: &Board, at| text(board).lines().nth(at).map(str::to_owned).unwrap_or_default();
    assert!(line(&board, 0).starts_with("volume scratch as node n1 sees it, 1 of 3 nodes, up 5 s"), "{}", text(&board));
    assert_eq!(line(&board, 2), "users (yours only) since the daemon started, by bytes");
    board.press(Key::Char('3'), 10);
    assert_eq!(line(&board, 2), "files (yours only) since they were opened, by bytes");
    board.press(Key::Char('4'), 10);
    assert_eq!(line(&board, 2), "targets since the daemon started, by bytes", "these are everybody's");
}

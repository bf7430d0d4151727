//! The dashboard in a real browser: a hundred targets, ten thousand jobs, a phone, the keyboard, a screen reader, a
//! daemon that goes away.

use super::browser::Browser;
use super::*;

/// Opens a page of that daemon, and types the token.
fn shown(daemon: Daemon, page: &str) -> Option<(Browser, Served)> {
    let mut browser = Browser::start()?;
    let served = serve(daemon, |dir, config| config.token_file = Some(file(dir, "token", TOKEN)));
    browser.open(&format!("http://{}{page}", served.at));
    browser.until("document.activeElement.id === 'token'");
    browser.type_in(TOKEN);
    browser.press("Enter");
    Some((browser, served))
}

/// Checks that the page requested nothing but its daemon's files, and that the browser reported no error.
fn in_order(browser: &Browser, served: &Served) {
    let own = format!("http://{}/", served.at);
    let elsewhere: Vec<_> = browser.asked.iter().filter(|url| !url.starts_with(&own) && *url != "data:,").collect();
    assert!(elsewhere.is_empty() && !browser.asked.is_empty(), "{elsewhere:?}");
    assert!(browser.complaints.is_empty(), "{:?}", browser.complaints);
}

fn rates_are_drawn(browser: &mut Browser) {
    let rates = browser.text("rates").replace('\n', " ");
    assert!(
        rates.contains("read") && rates.contains("1.0 MiB/s") && rates.contains("at most 2.0 MiB/s in 20 s"),
        "{rates}"
    );
    assert_eq!(browser.value("document.querySelectorAll('#rates svg').length"), 3);
    let line = browser.value("document.querySelector('#rates path').getAttribute('d')");
    assert_eq!(line, "M880 1H890L890 50H900");
}

/// [S-229] [S-230] [S-231] [S-425]
#[test]
fn a_hundred_targets_and_ten_thousand_jobs_are_shown_to_who_types_the_token() {
    let Some(mut browser) = Browser::start() else { return };
    let daemon = Arc::new(Daemon { targets: 100, jobs: 10_000, ..Daemon::default() });
    let served = serve_shared(daemon.clone(), |dir, config| config.token_file = Some(file(dir, "token", TOKEN)));
    browser.open(&format!("http://{}/", served.at));
    browser.until("document.activeElement.id === 'token'");
    assert_eq!(browser.value("document.getElementById('main').hidden"), true);
    browser.type_in("not-the-token-not-the-token");
    browser.press("Enter");
    browser.until("document.getElementById('access-why').textContent.startsWith('That is not the token')");
    browser.value("document.getElementById('token').focus()");
    browser.type_in(TOKEN);
    browser.press("Enter");
    browser.until("document.getElementById('job-rows').rows.length === 100");
    assert_eq!(browser.value("document.getElementById('target-rows').rows.length"), 100);
    let first = browser.value("document.getElementById('target-rows').rows[0].innerText");
    assert!(first.as_str().is_some_and(|text| text.contains("t099") && text.contains("failed")), "{first}");
    assert_eq!(browser.text("state"), "target t099 is failed");
    assert_eq!(browser.text("jobs-count"), "1 to 100 of 10,000 jobs");
    assert_eq!(browser.text("job-states"), "9,890 queued, 100 running, 10 staging-in");
    rates_are_drawn(&mut browser);
    // Markup in a name is not executed.
    assert!(browser.text("move-rows").contains("secret/<img src=x onerror=alert(1)>"));
    assert_eq!(browser.value("document.images.length"), 0);
    assert!(browser.text("move-rows").contains("1.0 MiB of 4.0 MiB, 3 s left"));
    assert!(browser.text("event-rows").contains("it gave errors"));
    browser.until("document.getElementById('space-rows').rows.length === 3");
    let takes = browser.text("space-rows");
    assert!(takes.starts_with("ann") && takes.contains("2.0 TiB") && takes.contains("20 others"), "{takes}");
    let text = browser.text("space-text");
    assert!(text.starts_with("As it was ") && text.ends_with("1 name could not be read."), "{text}");
    let page = |browser: &mut Browser| browser.value("document.getElementById('job-rows').rows[0].dataset.key");
    let before = page(&mut browser);
    browser.value("document.getElementById('later').click()");
    browser.until("document.getElementById('jobs-count').textContent.startsWith('101 to 200')");
    assert_ne!(page(&mut browser), before);
    browser.value("document.getElementById('find-job').focus()");
    browser.type_in("staging user7");
    browser.until("document.getElementById('job-rows').rows.length === 10");
    assert_eq!(
        browser.value("document.querySelectorAll('#job-rows [role=progressbar][aria-valuenow=\"25\"]').length"),
        10
    );
    browser.value("document.getElementById('find-target').focus()");
    browser.type_in("t04");
    browser.until("document.getElementById('target-rows').rows.length === 10");
    // The page keeps polling; an unchanged row stays the same element, so that a user keeps the place.
    browser.value("globalThis.kept = document.getElementById('target-rows').rows[0]");
    let looks = daemon.glances.load(Ordering::Relaxed);
    while daemon.glances.load(Ordering::Relaxed) < looks + 2 {
        browser.value("1");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(browser.value("kept === document.getElementById('target-rows').rows[0]"), true);
    // A hidden page sends no requests: a query that ends starts no other.
    browser.value("globalThis.real = setTimeout; globalThis.timers = []; globalThis.setTimeout = (_, ms) => { timers.push(ms); return 0; };");
    let turn = |browser: &mut Browser, hidden: bool| {
        let set = format!("Object.defineProperty(document, 'hidden', {{ value: {hidden}, configurable: true }})");
        browser.value(&format!("{set}; document.dispatchEvent(new Event('visibilitychange'))"));
    };
    turn(&mut browser, false);
    browser.until("timers.includes(2000)");
    turn(&mut browser, true);
    let begun = browser.value("timers.length").as_u64().expect("a number");
    browser.value("document.getElementById('find-job').focus(); document.getElementById('find-job').select()");
    browser.type_in("user8");
    browser.until("document.getElementById('jobs-count').textContent.includes('of 200 that match')");
    browser.until("document.getElementById('job-rows').rows[0].innerText.includes('user8')");
    assert_eq!(browser.value("timers.length"), begun);
    turn(&mut browser, false);
    browser.until(&format!("timers.length > {begun}"));
    browser.value("globalThis.setTimeout = real; document.dispatchEvent(new Event('visibilitychange'))");
    in_order(&browser, &served);
    // The last data stay, and are marked as old.
    drop(served);
    browser.until("document.getElementById('state').textContent === 'does not answer'");
    assert!(browser.text("about").starts_with("as it was at "), "{}", browser.text("about"));
    assert_eq!(browser.value("document.getElementById('target-rows').rows.length"), 10);
}

#[test]
fn it_fits_a_phone_light_and_dark_and_speaks_to_keyboard_and_screen_reader() {
    let daemon = Daemon { targets: 100, jobs: 10_000, ..Daemon::default() };
    let Some((mut browser, served)) = shown(daemon, "/") else { return };
    browser.until("document.getElementById('job-rows').rows.length === 100");
    assert_eq!(browser.value("document.activeElement.id"), "main", "who typed the token goes on with the content");
    let (mut grounds, mut lines) = (Vec::new(), Vec::new());
    for scheme in ["light", "dark"] {
        for width in [390, 820, 1440] {
            browser.look(width, scheme);
            browser.until(&format!("innerWidth === {width}"));
            let root = "document.documentElement";
            assert_eq!(browser.value(&format!("{root}.scrollWidth <= {root}.clientWidth")), true, "{width} {scheme}");
        }
        grounds.push(browser.value("getComputedStyle(document.body).backgroundColor"));
        lines.push(browser.value("getComputedStyle(document.querySelector('#rates path')).stroke"));
    }
    assert!(grounds[0] != grounds[1] && lines[0] != lines[1], "{grounds:?} {lines:?}");
    // The keyboard: the first stop leads past the links, to the content.
    browser.open(&format!("http://{}/", served.at));
    browser.until("document.getElementById('job-rows').rows.length === 100");
    browser.press("Tab");
    assert_eq!(browser.value("document.activeElement.className"), "skip");
    browser.press("Enter");
    browser.until("document.activeElement.id === 'main'");
    browser.press("Tab");
    assert_eq!(browser.value("document.activeElement.id"), "find-target");
    assert_ne!(browser.value("getComputedStyle(document.activeElement).outlineStyle"), "none", "the focus is seen");
    // The screen reader: every control and every value has a name, and the page has a reading order.
    let all = browser.read_out();
    let named =
        ["link", "button", "searchbox", "combobox", "meter", "progressbar", "table", "heading", "navigation", "region"];
    let mute: Vec<_> = all.iter().filter(|(role, name)| named.contains(&role.as_str()) && name.is_empty()).collect();
    assert!(mute.is_empty(), "{mute:?}");
    let count = |of: &str| all.iter().filter(|(role, _)| role == of).count();
    assert!(count("meter") >= 101 && count("table") >= 4 && count("heading") >= 6, "{} meters", count("meter"));
    assert_eq!([count("main"), count("banner"), count("navigation"), count("status")], [1; 4]);
    let has = |role: &str, name: &str| all.iter().any(|(r, n)| r == role && n == name);
    assert!(has("meter", "Fill of t042") && has("progressbar", "Data of job 7") && has("rowheader", "t042 fast"));
    in_order(&browser, &served);
}

#[test]
fn the_page_of_a_file_draws_it_and_says_what_is_wrong() {
    let Some((mut browser, served)) = shown(Daemon::default(), "/file#run%201%2Fout.h5") else { return };
    browser.until("document.querySelectorAll('.stripe').length === 4");
    assert_eq!(browser.text("name"), "run 1/out.h5");
    assert!(browser.text("layout").contains("Mirror 0: in sync, 1 segment"), "{}", browser.text("layout"));
    assert!(browser.text("layout").contains("0 B to 9.0 MiB, 4 stripes of 1.0 MiB"), "{}", browser.text("layout"));
    assert!(browser.text("layout").contains("12 reads, 3 writes lately, fast tier"), "{}", browser.text("layout"));
    assert_eq!(browser.text("legend"), "t000\nt001\nt002\nt003");
    assert_eq!(browser.text("sentences"), "Mirror 0 of 1 is in sync.");
    for width in [390, 1440] {
        browser.look(width, "dark");
        browser.until(&format!("innerWidth === {width}"));
        let root = "document.documentElement";
        assert_eq!(browser.value(&format!("{root}.scrollWidth <= {root}.clientWidth")), true, "{width}");
    }
    browser.value("document.getElementById('path').select()");
    browser.value("document.getElementById('path').focus()");
    browser.type_in("gone");
    browser.press("Enter");
    browser.until("document.getElementById('wrong').textContent === 'gone: No such file or directory'");
    assert_eq!(browser.value("document.getElementById('shown').hidden"), true);
    assert!(browser.read_out().iter().any(|(role, _)| role == "alert"));
    in_order(&browser, &served);
}

#[test]
fn without_a_token_file_it_says_how_to_see_jobs() {
    let Some(mut browser) = Browser::start() else { return };
    let served = serve(Daemon { targets: 3, jobs: 3, ..Daemon::default() }, |_, _| ());
    browser.open(&format!("http://{}/", served.at));
    browser.until("document.getElementById('target-rows').rows.length === 3");
    browser.until("!document.getElementById('jobs-hidden').hidden");
    assert!(browser.text("jobs-hidden").contains("token_file"), "{}", browser.text("jobs-hidden"));
    assert_eq!(browser.value("document.body.innerText.includes('secret')"), false);
    browser.open(&format!("http://{}/file#a", served.at));
    browser.until("document.getElementById('wrong').textContent.includes('token_file')");
    in_order(&browser, &served);
}

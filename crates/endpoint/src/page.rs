//! Static files of the dashboard: pages, style and scripts, which are part of the program and hold no data.
//!
//! `POLICY` restricts the browser to these files: it loads nothing from other sources and runs nothing else.

/// Content security policy of the pages.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                          frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// Returns the content type and the text of the file at a path.
pub fn at(path: &str) -> Option<(&'static str, &'static str)> {
    const HTML: &str = "text/html; charset=utf-8";
    const SCRIPT: &str = "text/javascript; charset=utf-8";
    Some(match path {
        "/" => (HTML, include_str!("page/index.html")),
        "/file" => (HTML, include_str!("page/file.html")),
        "/style.css" => ("text/css; charset=utf-8", include_str!("page/style.css")),
        "/parts.js" => (SCRIPT, include_str!("page/parts.js")),
        "/app.js" => (SCRIPT, include_str!("page/app.js")),
        "/file.js" => (SCRIPT, include_str!("page/file.js")),
        _ => return None,
    })
}

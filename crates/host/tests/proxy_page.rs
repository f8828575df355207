//! The reference page of the proxy's file has every field of the tables that describe themselves, as they are.
//! `HEADEND_BLESS=1 cargo test -p headend-host --test proxy_page` writes the page anew.

use std::{env, fs};

use headend_host::proxy::config::Limits;
use headend_host::proxy::field::{Table, Written, page_rows};
use headend_host::proxy::side::SideOptions;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/proxy-config.md");

/// The page with `rows` between the markers of `table`.
fn with_rows(page: &str, table: &str, rows: &str) -> String {
    let (begin, end) = (format!("<!-- fields of {table} -->\n"), "<!-- end of fields -->\n");
    let (before, rest) = page.split_once(&begin).unwrap_or_else(|| panic!("{table} has markers on the page"));
    let (heads, behind) = rest.split_once(end).unwrap_or_else(|| panic!("the rows of {table} end"));
    let heads: String = heads.lines().take(2).map(|line| format!("{line}\n")).collect();
    format!("{before}{begin}{heads}{rows}{end}{behind}")
}

#[test]
fn the_page_has_every_field_as_it_is() {
    let published = fs::read_to_string(PAGE).expect("the page");
    let page = with_rows(&published, "a side", &page_rows::<SideOptions>());
    let page = with_rows(&page, "limits", &page_rows::<Limits>());
    if env::var_os("HEADEND_BLESS").is_some() {
        fs::write(PAGE, &page).expect("the page can be written");
    } else {
        assert_eq!(page, published, "HEADEND_BLESS=1 writes the page anew");
    }
}

#[test]
fn the_default_that_is_shown_is_the_default() {
    for field in Limits::FIELDS {
        let shown = field.shown.trim_matches('`');
        let written = match (shown.strip_prefix('"').and_then(|text| text.strip_suffix('"')), shown.parse()) {
            (Some(text), _) => Written::Text(text.to_owned()),
            (None, Ok(number)) => Written::Number(number),
            // In words, which no test can read.
            (None, Err(_)) => continue,
        };
        let mut limits = Limits::default();
        (field.read)(&mut limits, written).unwrap_or_else(|error| panic!("{}: {error}", field.name));
        assert_eq!(limits, Limits::default(), "{} is {} by default", field.name, field.shown);
    }
}

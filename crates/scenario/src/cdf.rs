//! Cumulative distributions of sizes as files: a line for each size, in bytes, and the share of all that are no larger. Tools
//! that make traffic for data centres share this format (among them TrafficGenerator of Bai et al., NSDI 2015).

use headend_engine::part::SIZE_BYTES_MAX;
use headend_engine::units::quantity;
use headend_engine::workload::Distribution;

use super::error::{Place, Problem};
use super::recording::Wrong;

/// Reads the text of such a file; messages call it `name`. Empty lines, and what follows a `#`, are not read.
pub(super) fn parse(name: &str, text: &str) -> Result<Distribution, Wrong> {
    let wrong = |line: usize, found: &str, expected: &str| {
        let place = Some(Place::Line { file: name.into(), line });
        let shown: String = found.chars().take(40).collect();
        Err(Wrong { place, problem: Problem::Value { found: format!("{shown:?}"), expected: expected.into() } })
    };
    let mut points: Vec<(u64, u64)> = Vec::new();
    let mut last = (0, "");
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.split('#').next().unwrap_or_default().trim();
        if text.is_empty() {
            continue;
        }
        last = (line, text);
        let words: Vec<&str> = text.split_whitespace().collect();
        let &[size, share] = words.as_slice() else {
            return wrong(line, text, "a size in bytes and a share from 0 to 1, such as 10000 0.15");
        };
        let Some(size) = size.parse().ok().filter(|&size| size <= SIZE_BYTES_MAX) else {
            return wrong(line, size, "a whole number of bytes");
        };
        let Some(chance) = quantity::chance(share).filter(|_| !share.ends_with('%')) else {
            return wrong(line, share, "a share from 0 to 1");
        };
        let point = (size, chance.raw());
        if points.last().is_some_and(|&(before, raw)| point.0 < before || point.1 < raw) {
            return wrong(line, text, "a size and a share that are not below those of the line above");
        }
        points.push(point);
    }
    match points.last() {
        Some(&(_, u64::MAX)) => Ok(Distribution::of_weights(&points)),
        _ => wrong(last.0, last.1, "a share of 1 on the last line"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(text: &str) -> String {
        let wrong = parse("web.cdf", text).expect_err("a mistake");
        format!("{}: {}", wrong.place.expect("a line"), wrong.problem)
    }

    #[test]
    fn a_line_is_a_size_and_the_share_of_all_that_are_no_larger() {
        let sizes = parse("web.cdf", "# bytes share\n0 0\n\n1000 0.5 # half\n3000\t1\n").expect("a distribution");
        assert_eq!(sizes.mean().get(), (500 + 2_000) / 2);
        assert_eq!(parse("web.cdf", "1460 1").expect("one size").mean().get(), 1_460);
    }

    #[test]
    fn a_mistake_is_told_with_file_and_line() {
        let both = "a size in bytes and a share from 0 to 1, such as 10000 0.15";
        assert_eq!(complaint("0 0\nx\n"), format!("web.cdf:2: found \"x\", expected {both}"));
        assert_eq!(complaint("0 0\n-3 1\n"), "web.cdf:2: found \"-3\", expected a whole number of bytes");
        assert_eq!(complaint("0 0\n3 1.5\n"), "web.cdf:2: found \"1.5\", expected a share from 0 to 1");
        assert_eq!(complaint("0 0\n3 15%\n"), "web.cdf:2: found \"15%\", expected a share from 0 to 1");
        let ascend = "expected a size and a share that are not below those of the line above";
        assert_eq!(complaint("5 0\n3 1\n"), format!("web.cdf:2: found \"3 1\", {ascend}"));
        assert_eq!(complaint("5 0.5\n6 0.4\n"), format!("web.cdf:2: found \"6 0.4\", {ascend}"));
        assert_eq!(complaint("5 0.5\n"), "web.cdf:1: found \"5 0.5\", expected a share of 1 on the last line");
        assert!(complaint("").contains("expected a share of 1 on the last line"));
    }
}

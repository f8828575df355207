//! The line of a file that a message is about, with a caret under what is wrong in it.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

/// `message` with the lines of `text` that it is about: below each of its lines that begins with `NAME:LINE: `.
pub(crate) fn beneath(message: &str, name: &str, text: &str) -> String {
    let with = |said: &str| match excerpt(said, name, text) {
        Some(excerpt) => format!("{said}\n{excerpt}"),
        None => said.to_owned(),
    };
    message.lines().map(with).collect::<Vec<_>>().join("\n")
}

/// Characters of a key of 32 bytes in base64, without its padding.
const KEY: usize = 43;

/// True if a line may have a private key in it.
pub(crate) fn has_secret(line: &str) -> bool {
    let is_public = line.trim_start().starts_with("public_key");
    let is_of_key = |c: char| c.is_ascii_alphanumeric() || c == '+' || c == '/';
    !is_public && line.split(|c| !is_of_key(c)).any(|word| word.len() == KEY)
}

fn excerpt(said: &str, name: &str, text: &str) -> Option<String> {
    let (number, said) = said.strip_prefix(name)?.strip_prefix(':')?.split_once(": ")?;
    let number: usize = number.parse().ok()?;
    let line = text.lines().nth(number.checked_sub(1)?).filter(|line| !has_secret(line))?;
    let span = blamed(said, line)?;
    let snippet = Snippet::source(line).line_start(number).annotation(AnnotationKind::Primary.span(span));
    Some(Renderer::plain().render(&[Group::with_level(Level::ERROR).element(snippet)]))
}

/// The part of `line` that a message is about: the value that it found, the name that it does not know, or else all of it.
fn blamed(said: &str, line: &str) -> Option<Range<usize>> {
    // Whoever hides a line in a message, because a key is in it, hides it here.
    if line.trim().is_empty() || said.starts_with('(') {
        return None;
    }
    let found = said.split_once("found ").map(|(_, found)| found.split(", expected").next().unwrap_or(found));
    let quoted = said.split('`').nth(1);
    let field = said.split(": ").next().and_then(|path| path.rsplit('.').next());
    let place = |part: &str| line.find(part).filter(|_| !part.is_empty()).map(|at| at..at + part.len());
    let all = || line.len() - line.trim_start().len()..line.trim_end().len();
    Some([found, quoted, field].into_iter().flatten().find_map(place).unwrap_or_else(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caret_stands_under_the_value_or_the_name_that_is_wrong() {
        let text = "[links.wire]\nrate = \"10Mbits\"  # ten\nwey = 1\nloss\n";
        for (said, under) in [
            ("f.toml:2: links.wire.rate: found \"10Mbits\", expected a rate", "       ^^^^^^^^^"),
            ("f.toml:3: wey = 1: unknown field `wey`, expected one of `way`", "^^^"),
            ("f.toml:1: links.wire: no such node; did you mean \"b\"?", "       ^^^^"),
            ("f.toml:4: not TOML: key with no value", "^^^^"),
        ] {
            let whole = beneath(said, "f.toml", text);
            let carets = whole.lines().find(|line| line.contains('^')).unwrap_or_default();
            let carets = carets.split_once("| ").map_or("", |(_, carets)| carets);
            assert_eq!(carets, under, "{whole}");
            assert!(whole.starts_with(said), "{whole}");
        }
    }

    #[test]
    fn a_line_with_a_key_that_is_not_public_is_known() {
        let key = "A".repeat(KEY);
        assert!(has_secret(&format!("private_key = \"{key}=\"")) && has_secret(&key));
        assert!(!has_secret(&format!("public_key = \"{key}=\"")) && !has_secret("private_key = \"/etc/headend/key\""));
    }

    #[test]
    fn what_is_not_about_a_line_is_left_as_it_is() {
        for said in [
            "f.toml: No such file",
            "set: runs: found 0",
            "f.toml:9: beyond its end",
            "f.toml:1: (a key is in this line): x",
            "f.toml:2: private_key: this is a key itself",
        ] {
            assert_eq!(beneath(said, "f.toml", &format!("a = 1\nprivate_key = \"{}=\"\n", "A".repeat(KEY))), said);
        }
    }
}

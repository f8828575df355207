//! The lines of a trunk's file that an error is about, and those that nobody should repeat.

/// The line of a field, counted from zero: `listen`, or `peer east: networks` in the table of that name. That of the table where
/// the field is not in it; `None` if there is neither.
pub(super) fn of(text: &str, field: &str) -> Option<usize> {
    let (table, field) = match field.split_once(": ") {
        Some((table, field)) => (Some(table), field),
        None => match field.split_once(' ') {
            Some(_) => (Some(field), ""),
            None => (None, field),
        },
    };
    let is_header = |line: &str| line.trim_start().starts_with('[');
    let lines: Vec<&str> = text.lines().collect();
    let (begin, end) = match table {
        None => (0, lines.iter().position(|line| is_header(line)).unwrap_or(lines.len())),
        Some(table) => {
            let (kind, name) = table.split_once(' ')?;
            let headers = (0..lines.len()).filter(|at| lines[*at].trim() == format!("[[{kind}]]"));
            let tables = headers.map(|at| {
                let end = lines[at + 1..].iter().position(|line| is_header(line));
                (at, end.map_or(lines.len(), |end| at + 1 + end))
            });
            let is_named = |line: &&str| value_of(line, "name").is_some_and(|value| value.trim_matches('"') == name);
            tables.into_iter().find(|(begin, end)| lines[*begin..*end].iter().any(is_named))?
        }
    };
    let found = (begin..end).find(|at| value_of(lines[*at], field).is_some());
    found.or(table.map(|_| begin))
}

/// The text behind `FIELD =`, without a remark.
fn value_of<'a>(line: &'a str, field: &str) -> Option<&'a str> {
    let value = line.trim_start().strip_prefix(field)?.trim_start().strip_prefix('=')?;
    Some(value.split('#').next().unwrap_or_default().trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "listen = \"[::]:0\"\n\n[[class]]\nname = \"voice\"\n[[peer]]\nname = \"a\"\n[[peer]]\nname = \"b\" # far\nvmss=\"1B\"\n";

    #[test]
    fn the_line_of_a_field_is_found_in_its_table() {
        for (field, line) in [
            ("listen", Some(0)),
            ("peer b: vmss", Some(8)),
            ("peer a: vmss", Some(4)),
            ("class voice", Some(2)),
            ("class voice: room", Some(2)),
            ("vmss", None),
            ("peer c: vmss", None),
        ] {
            assert_eq!(of(TEXT, field), line, "{field}");
        }
    }
}

//! Tables for people: columns as wide as their widest cell, numbers to the right.

use std::io::{self, Write};

/// Writes `rows` under `headings`. A column whose cells are numbers or dashes is set to the right.
pub(crate) fn write_table(out: &mut dyn Write, headings: &[String], rows: &[Vec<String>]) -> io::Result<()> {
    let is_number = |cell: &str| cell == "-" || cell.starts_with(|c: char| c.is_ascii_digit());
    let columns: Vec<(usize, bool)> = headings
        .iter()
        .enumerate()
        .map(|(i, heading)| {
            let width = rows.iter().map(|row| row[i].chars().count()).chain([heading.chars().count()]).max();
            (width.unwrap_or(0), rows.iter().all(|row| is_number(&row[i])))
        })
        .collect();
    for row in [headings].into_iter().chain(rows.iter().map(Vec::as_slice)) {
        let cell = |(cell, &(width, to_right)): (&String, &(usize, bool))| {
            if to_right { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        };
        let line: Vec<String> = row.iter().zip(&columns).map(cell).collect();
        writeln!(out, "{}", line.join("  ").trim_end())?;
    }
    Ok(())
}

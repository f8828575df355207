//! Tables as CSV (RFC 4180, with bare line feeds) and as JSON. The same tables give the same bytes.

use std::io::{self, Write};

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

use super::{Column, Results, Table};

impl Table {
    /// Writes a header line and a line per row. A number without a value is an empty field.
    pub fn write_csv(&self, out: &mut impl Write) -> io::Result<()> {
        for (i, (name, _)) in self.columns.iter().enumerate() {
            separate(out, i)?;
            write_field(out, name)?;
        }
        writeln!(out)?;
        for row in 0..self.rows() {
            for (i, (_, column)) in self.columns.iter().enumerate() {
                separate(out, i)?;
                match column {
                    Column::U64(values) => write!(out, "{}", values[row])?,
                    // `{:?}` prints the shortest digits that read back as the same number.
                    Column::F64(values) if values[row].is_finite() => write!(out, "{:?}", values[row])?,
                    Column::F64(_) => {}
                    Column::Text(values) => write_field(out, &values[row])?,
                }
            }
            writeln!(out)?;
        }
        Ok(())
    }
}

fn separate(out: &mut impl Write, index: usize) -> io::Result<()> {
    if index > 0 { out.write_all(b",") } else { Ok(()) }
}

fn write_field(out: &mut impl Write, text: &str) -> io::Result<()> {
    if text.contains([',', '"', '\n', '\r']) {
        write!(out, "\"{}\"", text.replace('"', "\"\""))
    } else {
        out.write_all(text.as_bytes())
    }
}

impl Results {
    /// Writes `{"flows": {column: [...]}, "links": {...}}`, `"circuits"`, `"media"` and `"intervals"` if the scenario has them, and
    /// `"series"` and `"packets"` if there are traces. A number without a value is `null`.
    pub fn write_json(&self, out: &mut impl Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        writeln!(out)
    }
}

impl Serialize for Results {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("flows", &self.flows)?;
        map.serialize_entry("links", &self.links)?;
        if let Some(circuits) = &self.circuits {
            map.serialize_entry("circuits", circuits)?;
        }
        if let Some(media) = &self.media {
            map.serialize_entry("media", media)?;
        }
        if let Some(intervals) = &self.intervals {
            map.serialize_entry("intervals", intervals)?;
        }
        if let Some(traces) = &self.traces {
            map.serialize_entry("series", &traces.series)?;
            map.serialize_entry("packets", &traces.packets)?;
        }
        map.end()
    }
}

impl Serialize for Table {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.columns.iter().map(|(name, column)| (name, column)))
    }
}

impl Serialize for Column {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(Some(self.len()))?;
        match self {
            Column::U64(values) => values.iter().try_for_each(|value| seq.serialize_element(value))?,
            // serde_json writes a number that is not finite as null.
            Column::F64(values) => values.iter().try_for_each(|value| seq.serialize_element(value))?,
            Column::Text(values) => values.iter().try_for_each(|value| seq.serialize_element(&**value))?,
        }
        seq.end()
    }
}

//! Tables as Parquet files, with the unit of every column in the file's metadata.

use std::io::{self, Write};
use std::sync::Arc;

use headend_scenario::results::{Column, Table, columns};
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::Result;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};

/// Writes `table`, which is called `name`, as one row group. Counts are `UINT_64` and required; numbers are `DOUBLE`, and null
/// where there is no value; names are strings. `about` joins the units in the metadata of the file.
pub(super) fn write(out: impl Write + Send, name: &str, table: &Table, about: &[(&str, String)]) -> io::Result<()> {
    write_table(out, name, table, about).map_err(io::Error::other)
}

fn write_table(out: impl Write + Send, name: &str, table: &Table, about: &[(&str, String)]) -> Result<()> {
    let said = about.iter().map(|(key, value)| KeyValue::new((*key).to_owned(), value.clone()));
    let units = KeyValue::new("headend.units".to_owned(), units(name, table));
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_key_value_metadata(Some(said.chain([units]).collect()))
        .build();
    let mut file = SerializedFileWriter::new(out, schema(name, table)?, Arc::new(properties))?;
    let mut group = file.next_row_group()?;
    for (_, column) in table.columns() {
        write_column(&mut group, column)?;
    }
    group.close()?;
    file.close()?;
    Ok(())
}

fn write_column<W: Write + Send>(group: &mut SerializedRowGroupWriter<'_, W>, column: &Column) -> Result<()> {
    let mut writer = group.next_column()?.expect("the schema has a column for each of the table");
    match column {
        Column::U64(values) => {
            // Parquet keeps unsigned numbers in signed ones of the same bits.
            let bits: Vec<i64> = values.iter().map(|&value| value.cast_signed()).collect();
            writer.typed::<Int64Type>().write_batch(&bits, None, None)?;
        }
        Column::F64(values) => {
            let there: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
            let levels: Vec<i16> = values.iter().map(|value| i16::from(!value.is_nan())).collect();
            writer.typed::<DoubleType>().write_batch(&there, Some(&levels), None)?;
        }
        Column::Text(values) => {
            let texts: Vec<ByteArray> = values.iter().map(|value| ByteArray::from(&**value)).collect();
            writer.typed::<ByteArrayType>().write_batch(&texts, None, None)?;
        }
    }
    writer.close()
}

fn schema(name: &str, table: &Table) -> Result<TypePtr> {
    let field = |(name, column): &(String, Column)| {
        let (physical, logical, repetition) = match column {
            Column::U64(_) => (Physical::INT64, Some(LogicalType::integer(64, false)), Repetition::REQUIRED),
            Column::F64(_) => (Physical::DOUBLE, None, Repetition::OPTIONAL),
            Column::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String), Repetition::REQUIRED),
        };
        let field = Type::primitive_type_builder(name, physical).with_logical_type(logical);
        Ok(Arc::new(field.with_repetition(repetition).build()?))
    };
    let fields = table.columns().iter().map(field).collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(Type::group_type_builder(name).with_fields(fields).build()?))
}

/// The unit of each column that has one, as a JSON object.
fn units(name: &str, table: &Table) -> String {
    let defined: Vec<_> = columns::all().into_iter().filter(|(of, ..)| *of == name || *of == "common").collect();
    let unit = |column: &str| {
        let mut all = defined.iter().flat_map(|(_, _, columns)| columns);
        all.find(|known| known.name == column).map(|known| known.unit).filter(|unit| !unit.is_empty())
    };
    let units = table.columns().iter().filter_map(|(column, _)| Some((column.clone(), unit(column)?.into())));
    serde_json::Value::Object(units.collect()).to_string()
}

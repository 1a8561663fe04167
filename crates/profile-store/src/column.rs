//! One table as one Parquet file: named columns in, named columns out.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType};
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;

use crate::StoreError;

/// Rows of a row group: large enough that dictionaries pay, small enough that readers need not hold a trace whole.
const ROW_GROUP_ROWS: usize = 1 << 20;

/// Values of one column. Only what every reader has: no unsigned integers, no nanosecond time stamps.
pub(crate) enum Values<'a> {
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    OptionalInt64(Vec<Option<i64>>),
    Boolean(Vec<bool>),
    Text(Vec<&'a str>),
}

impl Values<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Int32(values) => values.len(),
            Self::Int64(values) => values.len(),
            Self::OptionalInt64(values) => values.len(),
            Self::Boolean(values) => values.len(),
            Self::Text(values) => values.len(),
        }
    }

    fn schema(&self, name: &str) -> Result<Type, ParquetError> {
        let physical = match self {
            Self::Int32(_) => PhysicalType::INT32,
            Self::Int64(_) | Self::OptionalInt64(_) => PhysicalType::INT64,
            Self::Boolean(_) => PhysicalType::BOOLEAN,
            Self::Text(_) => PhysicalType::BYTE_ARRAY,
        };
        let optional = matches!(self, Self::OptionalInt64(_));
        Type::primitive_type_builder(name, physical)
            .with_repetition(if optional { Repetition::OPTIONAL } else { Repetition::REQUIRED })
            .with_logical_type(matches!(self, Self::Text(_)).then_some(LogicalType::String))
            .build()
    }

    fn write(
        &self,
        range: std::ops::Range<usize>,
        writer: &mut SerializedColumnWriter<'_>,
    ) -> Result<usize, ParquetError> {
        match self {
            Self::Int32(values) => writer.typed::<Int32Type>().write_batch(&values[range], None, None),
            Self::Int64(values) => writer.typed::<Int64Type>().write_batch(&values[range], None, None),
            Self::Boolean(values) => writer.typed::<BoolType>().write_batch(&values[range], None, None),
            Self::OptionalInt64(values) => {
                let levels: Vec<i16> = values[range.clone()].iter().map(|value| i16::from(value.is_some())).collect();
                let present: Vec<i64> = values[range].iter().flatten().copied().collect();
                writer.typed::<Int64Type>().write_batch(&present, Some(&levels), None)
            }
            Self::Text(values) => {
                // Names repeat: one allocation per distinct name, not per row.
                let mut interned: HashMap<&str, ByteArray> = HashMap::new();
                let arrays: Vec<ByteArray> = values[range]
                    .iter()
                    .map(|text| interned.entry(text).or_insert_with(|| ByteArray::from(*text)).clone())
                    .collect();
                writer.typed::<ByteArrayType>().write_batch(&arrays, None, None)
            }
        }
    }
}

/// One column to write.
pub(crate) struct Column<'a> {
    pub name: &'static str,
    pub values: Values<'a>,
}

/// Encodes columns of equal length as one Parquet file.
pub(crate) fn encode(table: &str, schema_version: u32, columns: &[Column<'_>]) -> Result<Vec<u8>, ParquetError> {
    let fields =
        columns.iter().map(|column| column.values.schema(column.name).map(Arc::new)).collect::<Result<Vec<_>, _>>()?;
    let schema = Arc::new(Type::group_type_builder(table).with_fields(fields).build()?);
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(format!("transect {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(vec![
            KeyValue::new("transect.table".to_owned(), table.to_owned()),
            KeyValue::new("transect.schema".to_owned(), schema_version.to_string()),
        ]))
        .build();
    let rows = columns.first().map_or(0, |column| column.values.len());
    debug_assert!(columns.iter().all(|column| column.values.len() == rows), "{table}: columns of unequal length");

    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
    let mut start = 0;
    while start < rows {
        let end = rows.min(start + ROW_GROUP_ROWS);
        let mut group = writer.next_row_group()?;
        for column in columns {
            let mut out = group.next_column()?.ok_or_else(|| ParquetError::General("too few columns".into()))?;
            column.values.write(start..end, &mut out)?;
            out.close()?;
        }
        group.close()?;
        start = end;
    }
    writer.into_inner()
}

/// A Parquet file read by column name; columns that are not asked for cost nothing.
pub(crate) struct TableReader {
    path: PathBuf,
    file: SerializedFileReader<Bytes>,
    columns: HashMap<String, (usize, PhysicalType, bool)>,
    rows: usize,
}

impl TableReader {
    pub(crate) fn open(path: PathBuf, content: Bytes) -> Result<Self, StoreError> {
        let file = SerializedFileReader::new(content).map_err(|error| StoreError::corrupt(&path, error.to_string()))?;
        let metadata = file.metadata().file_metadata();
        let rows =
            usize::try_from(metadata.num_rows()).map_err(|_| StoreError::corrupt(&path, "negative number of rows"))?;
        let columns = metadata
            .schema_descr()
            .columns()
            .iter()
            .enumerate()
            .map(|(index, column)| {
                (column.path().string(), (index, column.physical_type(), column.max_def_level() > 0))
            })
            .collect();
        Ok(Self { path, file, columns, rows })
    }

    /// Number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// True if there is a column of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.columns.contains_key(name)
    }

    /// The error for row `row` of this table.
    pub(crate) fn bad_row(&self, row: usize, why: impl std::fmt::Display) -> StoreError {
        StoreError::corrupt(&self.path, format!("row {row}: {why}"))
    }

    fn read<T: DataType>(&self, name: &str, optional: bool) -> Result<(Vec<T::T>, Vec<i16>), StoreError> {
        let corrupt = |why: String| StoreError::corrupt(&self.path, why);
        let &(index, physical, found_optional) =
            self.columns.get(name).ok_or_else(|| corrupt(format!("column {name} is missing")))?;
        if physical != T::get_physical_type() || found_optional != optional {
            return Err(corrupt(format!("column {name} is of an unexpected type")));
        }
        let mut values = Vec::with_capacity(self.rows);
        let mut levels = Vec::new();
        for group in 0..self.file.num_row_groups() {
            let mut read = || -> Result<(usize, usize), ParquetError> {
                let group = self.file.get_row_group(group)?;
                let wanted = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
                let mut reader = get_typed_column_reader::<T>(group.get_column_reader(index)?);
                let (records, _, _) =
                    reader.read_records(wanted, optional.then_some(&mut levels), None, &mut values)?;
                Ok((wanted, records))
            };
            let (wanted, records) = read().map_err(|error| corrupt(format!("column {name}: {error}")))?;
            if wanted != records {
                return Err(corrupt(format!("column {name}: {records} of {wanted} rows")));
            }
        }
        let rows = if optional { levels.len() } else { values.len() };
        if rows != self.rows {
            return Err(corrupt(format!("column {name}: {rows} of {} rows", self.rows)));
        }
        Ok((values, levels))
    }

    pub(crate) fn int32(&self, name: &str) -> Result<Vec<i32>, StoreError> {
        Ok(self.read::<Int32Type>(name, false)?.0)
    }

    /// Row numbers of another table with `limit` rows.
    pub(crate) fn ids(&self, name: &str, limit: usize) -> Result<Vec<u32>, StoreError> {
        let check = |(row, id): (usize, i32)| {
            u32::try_from(id)
                .ok()
                .filter(|&id| (id as usize) < limit)
                .ok_or_else(|| self.bad_row(row, format!("{name} {id} does not exist")))
        };
        self.int32(name)?.into_iter().enumerate().map(check).collect()
    }

    pub(crate) fn int64(&self, name: &str) -> Result<Vec<i64>, StoreError> {
        Ok(self.read::<Int64Type>(name, false)?.0)
    }

    pub(crate) fn optional_int64(&self, name: &str) -> Result<Vec<Option<i64>>, StoreError> {
        let (values, levels) = self.read::<Int64Type>(name, true)?;
        let mut values = values.into_iter();
        Ok(levels.into_iter().map(|level| if level > 0 { values.next() } else { None }).collect())
    }

    pub(crate) fn boolean(&self, name: &str) -> Result<Vec<bool>, StoreError> {
        Ok(self.read::<BoolType>(name, false)?.0)
    }

    pub(crate) fn text(&self, name: &str) -> Result<Vec<String>, StoreError> {
        let values = self.read::<ByteArrayType>(name, false)?.0;
        let to_string = |(row, value): (usize, ByteArray)| {
            value.as_utf8().map(str::to_owned).map_err(|_| self.bad_row(row, format!("{name} is not UTF-8")))
        };
        values.into_iter().enumerate().map(to_string).collect()
    }
}

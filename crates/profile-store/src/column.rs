//! One table as one Parquet file: named columns in, named columns out.

use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{LogicalType, Repetition, Type as PhysicalType};
use parquet::column::reader::{get_column_reader, get_typed_column_reader};
use parquet::column::writer::{ColumnWriter, get_typed_column_writer_mut};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, FileReader, SerializedFileReader};
use parquet::schema::types::Type;
use rustc_hash::FxHashMap;

use crate::StoreError;
use crate::sound_pages::SoundPages;

/// Values for which room is made before they are read.
const MOST_AT_ONCE: usize = 1 << 20;

/// Values of one column. Only what every reader has: no unsigned integers, no nanosecond time stamps.
pub(crate) enum Values<'a> {
    Int32(Vec<i32>),
    /// The table's own row numbers: kept as differences.
    OwnIds(Vec<i32>),
    Int64(Vec<i64>),
    /// Integers that seldom repeat: kept as differences.
    Series(Vec<i64>),
    OptionalInt64(Vec<Option<i64>>),
    /// Finite numbers.
    Double(Vec<f64>),
    OptionalDouble(Vec<Option<f64>>),
    Boolean(Vec<bool>),
    Text(Vec<&'a str>),
    OwnedText(Vec<String>),
}

impl Values<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Int32(values) | Self::OwnIds(values) => values.len(),
            Self::Int64(values) | Self::Series(values) => values.len(),
            Self::OptionalInt64(values) => values.len(),
            Self::Double(values) => values.len(),
            Self::OptionalDouble(values) => values.len(),
            Self::Boolean(values) => values.len(),
            Self::Text(values) => values.len(),
            Self::OwnedText(values) => values.len(),
        }
    }

    pub(crate) fn schema(&self, name: &str) -> Result<Type, ParquetError> {
        let physical = match self {
            Self::Int32(_) | Self::OwnIds(_) => PhysicalType::INT32,
            Self::Int64(_) | Self::Series(_) | Self::OptionalInt64(_) => PhysicalType::INT64,
            Self::Double(_) | Self::OptionalDouble(_) => PhysicalType::DOUBLE,
            Self::Boolean(_) => PhysicalType::BOOLEAN,
            Self::Text(_) | Self::OwnedText(_) => PhysicalType::BYTE_ARRAY,
        };
        let optional = matches!(self, Self::OptionalInt64(_) | Self::OptionalDouble(_));
        Type::primitive_type_builder(name, physical)
            .with_repetition(if optional { Repetition::OPTIONAL } else { Repetition::REQUIRED })
            .with_logical_type(matches!(self, Self::Text(_) | Self::OwnedText(_)).then_some(LogicalType::String))
            .build()
    }

    pub(crate) fn write(&self, range: Range<usize>, writer: &mut ColumnWriter<'_>) -> Result<usize, ParquetError> {
        match self {
            Self::Int32(values) | Self::OwnIds(values) => {
                get_typed_column_writer_mut::<Int32Type>(writer).write_batch(&values[range], None, None)
            }
            Self::Int64(values) | Self::Series(values) => {
                get_typed_column_writer_mut::<Int64Type>(writer).write_batch(&values[range], None, None)
            }
            Self::Boolean(values) => {
                get_typed_column_writer_mut::<BoolType>(writer).write_batch(&values[range], None, None)
            }
            Self::OptionalInt64(values) => {
                let (levels, present) = present(&values[range]);
                get_typed_column_writer_mut::<Int64Type>(writer).write_batch(&present, Some(&levels), None)
            }
            Self::Double(values) => {
                get_typed_column_writer_mut::<DoubleType>(writer).write_batch(&values[range], None, None)
            }
            Self::OptionalDouble(values) => {
                let (levels, present) = present(&values[range]);
                get_typed_column_writer_mut::<DoubleType>(writer).write_batch(&present, Some(&levels), None)
            }
            Self::Text(values) => {
                let arrays = interned(values[range].iter().copied());
                get_typed_column_writer_mut::<ByteArrayType>(writer).write_batch(&arrays, None, None)
            }
            Self::OwnedText(values) => {
                let arrays = interned(values[range].iter().map(String::as_str));
                get_typed_column_writer_mut::<ByteArrayType>(writer).write_batch(&arrays, None, None)
            }
        }
    }
}

/// Names repeat, mostly from one place in memory: one allocation per place and name, not per row. Rows of one place need no
/// look at the name itself.
fn interned<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<ByteArray> {
    let mut known: FxHashMap<(*const u8, usize), ByteArray> = FxHashMap::default();
    let of = |text: &'a str| known.entry((text.as_ptr(), text.len())).or_insert_with(|| ByteArray::from(text)).clone();
    texts.map(of).collect()
}

/// Which values there are, and they.
fn present<T: Copy>(values: &[Option<T>]) -> (Vec<i16>, Vec<T>) {
    let levels = values.iter().map(|value| i16::from(value.is_some())).collect();
    (levels, values.iter().flatten().copied().collect())
}

/// One column to write.
pub(crate) struct Column<'a> {
    pub name: &'static str,
    pub values: Values<'a>,
}

/// A Parquet file read by column name; columns that are not asked for cost nothing.
pub(crate) struct TableReader<F: ChunkReader + 'static = Bytes> {
    path: PathBuf,
    file: Arc<SerializedFileReader<F>>,
    columns: Arc<HashMap<String, (usize, PhysicalType, bool)>>,
    groups: Range<usize>,
    rows: usize,
}

impl<F: ChunkReader + 'static> TableReader<F> {
    pub(crate) fn open(path: PathBuf, content: F) -> Result<Self, StoreError> {
        let file = SerializedFileReader::new(content).map_err(|error| StoreError::corrupt(&path, error.to_string()))?;
        let metadata = file.metadata().file_metadata();
        let rows =
            usize::try_from(metadata.num_rows()).map_err(|_| StoreError::corrupt(&path, "negative number of rows"))?;
        let mut chunks = file.metadata().row_groups().iter().flat_map(|group| group.columns());
        // The decoder panics at these.
        if chunks.any(|chunk| {
            chunk.data_page_offset().min(chunk.compressed_size()).min(chunk.dictionary_page_offset().unwrap_or(0)) < 0
        }) {
            return Err(StoreError::corrupt(&path, "a column before the file's begin"));
        }
        let columns = metadata
            .schema_descr()
            .columns()
            .iter()
            .enumerate()
            .map(|(index, column)| {
                (column.path().string(), (index, column.physical_type(), column.max_def_level() > 0))
            })
            .collect();
        let groups = 0..file.num_row_groups();
        Ok(Self { path, file: Arc::new(file), columns: Arc::new(columns), groups, rows })
    }

    /// The same table block by block.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = Self> {
        self.groups.clone().map(|group| {
            let rows = usize::try_from(self.file.metadata().row_group(group).num_rows()).unwrap_or(0);
            let (file, columns) = (Arc::clone(&self.file), Arc::clone(&self.columns));
            Self { path: self.path.clone(), file, columns, groups: group..group + 1, rows }
        })
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
        // The number is the file's word only.
        let mut values = Vec::with_capacity(self.rows.min(MOST_AT_ONCE));
        let mut levels = Vec::new();
        for group in self.groups.clone() {
            let mut read = || -> Result<(usize, usize), ParquetError> {
                let group = self.file.get_row_group(group)?;
                let wanted = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
                let texts = physical == PhysicalType::BYTE_ARRAY && !optional;
                let pages = SoundPages { pages: group.get_column_page_reader(index)?, texts, has_dictionary: false };
                let column = group.metadata().column(index).column_descr_ptr();
                let mut reader = get_typed_column_reader::<T>(get_column_reader(column, Box::new(pages)));
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

    /// Row numbers of another table with `limit` rows, where there may be none.
    pub(crate) fn optional_ids(&self, name: &str, limit: usize) -> Result<Vec<Option<u32>>, StoreError> {
        let check = |(row, id): (usize, Option<i64>)| {
            let Some(id) = id else { return Ok(None) };
            let valid = u32::try_from(id).ok().filter(|&id| (id as usize) < limit);
            valid.map(Some).ok_or_else(|| self.bad_row(row, format!("{name} {id} does not exist")))
        };
        self.optional_int64(name)?.into_iter().enumerate().map(check).collect()
    }

    /// Words that `parse` knows.
    pub(crate) fn words<T>(&self, name: &str, parse: impl Fn(&str) -> Option<T>) -> Result<Vec<T>, StoreError> {
        let words = self.each_text(name, |word| parse(word).ok_or_else(|| word.to_owned()))?;
        let check = |(row, word): (usize, Result<T, String>)| {
            word.map_err(|word| self.bad_row(row, format!("{name} {word:?} is unknown")))
        };
        words.into_iter().enumerate().map(check).collect()
    }

    pub(crate) fn int64(&self, name: &str) -> Result<Vec<i64>, StoreError> {
        Ok(self.read::<Int64Type>(name, false)?.0)
    }

    pub(crate) fn optional_int64(&self, name: &str) -> Result<Vec<Option<i64>>, StoreError> {
        self.optional::<Int64Type>(name)
    }

    fn optional<T: DataType>(&self, name: &str) -> Result<Vec<Option<T::T>>, StoreError> {
        let (values, levels) = self.read::<T>(name, true)?;
        let mut values = values.into_iter();
        Ok(levels.into_iter().map(|level| if level > 0 { values.next() } else { None }).collect())
    }

    /// Finite numbers.
    pub(crate) fn double(&self, name: &str) -> Result<Vec<f64>, StoreError> {
        let values = self.read::<DoubleType>(name, false)?.0;
        match values.iter().position(|value| !value.is_finite()) {
            Some(row) => Err(self.bad_row(row, format!("{name} is not a number"))),
            None => Ok(values),
        }
    }

    /// Finite numbers, where there may be none.
    pub(crate) fn optional_double(&self, name: &str) -> Result<Vec<Option<f64>>, StoreError> {
        let values = self.optional::<DoubleType>(name)?;
        match values.iter().position(|value| value.is_some_and(|value| !value.is_finite())) {
            Some(row) => Err(self.bad_row(row, format!("{name} is not a number"))),
            None => Ok(values),
        }
    }

    pub(crate) fn boolean(&self, name: &str) -> Result<Vec<bool>, StoreError> {
        Ok(self.read::<BoolType>(name, false)?.0)
    }

    pub(crate) fn text(&self, name: &str) -> Result<Vec<String>, StoreError> {
        self.each_text(name, str::to_owned)
    }

    /// What `of` makes of each text.
    pub(crate) fn each_text<T>(&self, name: &str, mut of: impl FnMut(&str) -> T) -> Result<Vec<T>, StoreError> {
        let values = self.read::<ByteArrayType>(name, false)?.0;
        let each = |(row, value): (usize, ByteArray)| {
            value.as_utf8().map(&mut of).map_err(|_| self.bad_row(row, format!("{name} is not UTF-8")))
        };
        values.into_iter().enumerate().map(each).collect()
    }
}

//! Writing a table block by block, so that one which is too long for memory can be written too.

use std::hash::Hasher;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding};
use parquet::column::writer::{ColumnCloseResult, get_column_writer};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedPageWriter, TrackedWrite};
use parquet::schema::types::{ColumnPath, Type};
use twox_hash::XxHash64;

use crate::column::{Column, Values};
use crate::metadata::TableEntry;

/// Rows of a row group: large enough that dictionaries pay, small enough that readers need not hold a trace whole.
const ROW_GROUP_ROWS: usize = 1 << 20;

/// From so many rows on, a second thread is worth its start.
const SIDE_BY_SIDE_ROWS: usize = 4096;

/// A Parquet file being written.
pub(crate) struct TableWriter<W: Write + Send> {
    writer: SerializedFileWriter<Shared<W>>,
    out: Shared<W>,
    rows: usize,
}

/// A column's number, its pages, and what the file's footer says of them.
type Chunk = (usize, Bytes, ColumnCloseResult);

/// Where the file goes. Parquet's writer gives it back only without what the system says of the last bytes.
struct Shared<W>(Arc<Mutex<Summed<W>>>);

impl<W: Write> Write for Shared<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).flush()
    }
}

impl<W: Write + Send> TableWriter<W> {
    /// Begins a file with the names and types of `columns`; their rows are not written yet.
    pub(crate) fn new(out: W, table: &str, schema_version: u32, columns: &[Column<'_>]) -> Result<Self, ParquetError> {
        let fields = columns.iter().map(|column| column.values.schema(column.name).map(Arc::new));
        let fields = fields.collect::<Result<Vec<_>, _>>()?;
        let schema = Arc::new(Type::group_type_builder(table).with_fields(fields).build()?);
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(format!("transect {}", env!("CARGO_PKG_VERSION")))
            .set_key_value_metadata(Some(vec![
                KeyValue::new("transect.table".to_owned(), table.to_owned()),
                KeyValue::new("transect.schema".to_owned(), schema_version.to_string()),
            ]));
        for column in columns {
            let path = ColumnPath::from(column.name);
            properties = match column.values {
                Values::Series(_) | Values::OwnIds(_) => properties
                    .set_column_dictionary_enabled(path.clone(), false)
                    .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED),
                // The least and the greatest of names tell little, and take long to find.
                Values::Text(_) | Values::OwnedText(_) => {
                    properties.set_column_statistics_enabled(path, EnabledStatistics::None)
                }
                _ => properties,
            };
        }
        let out = Arc::new(Mutex::new(Summed::new(out)));
        let writer = SerializedFileWriter::new(Shared(out.clone()), schema, Arc::new(properties.build()))?;
        Ok(Self { writer, out: Shared(out), rows: 0 })
    }

    /// Adds rows: columns of equal length.
    pub(crate) fn push(&mut self, columns: &[Column<'_>]) -> Result<(), ParquetError> {
        let rows = columns.first().map_or(0, |column| column.values.len());
        debug_assert!(columns.iter().all(|column| column.values.len() == rows), "columns of unequal length");
        let mut start = 0;
        while start < rows {
            let end = rows.min(start + ROW_GROUP_ROWS);
            if end - start >= SIDE_BY_SIDE_ROWS {
                self.push_side_by_side(columns, start..end)?;
            } else {
                let mut group = self.writer.next_row_group()?;
                for column in columns {
                    let mut out =
                        group.next_column()?.ok_or_else(|| ParquetError::General("too few columns".into()))?;
                    column.values.write(start..end, out.untyped())?;
                    out.close()?;
                }
                group.close()?;
            }
            start = end;
        }
        self.rows += rows;
        Ok(())
    }

    /// Adds a row group whose columns two threads encode: names take long, and at a recording's end its CPUs are free.
    fn push_side_by_side(&mut self, columns: &[Column<'_>], rows: Range<usize>) -> Result<(), ParquetError> {
        let (kinds, properties) = (self.writer.schema_descr().columns(), self.writer.properties());
        let next = AtomicUsize::new(0);
        let encode = || -> Result<Vec<Chunk>, ParquetError> {
            let mut done = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let (Some(column), Some(kind)) = (columns.get(number), kinds.get(number)) else { return Ok(done) };
                let mut bytes = TrackedWrite::new(Vec::new());
                let pages = Box::new(SerializedPageWriter::new(&mut bytes));
                let mut writer = get_column_writer(kind.clone(), properties.clone(), pages);
                column.values.write(rows.clone(), &mut writer)?;
                let chunk = writer.close()?;
                done.push((number, Bytes::from(bytes.into_inner()?), chunk));
            }
        };
        let mut chunks = thread::scope(|scope| {
            let other = thread::Builder::new().spawn_scoped(scope, encode);
            let mut chunks = encode()?;
            if let Ok(other) = other {
                chunks.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
            }
            Ok::<_, ParquetError>(chunks)
        })?;
        chunks.sort_unstable_by_key(|(number, ..)| *number);
        let mut group = self.writer.next_row_group()?;
        for (_, bytes, chunk) in chunks {
            group.append_column(&bytes, chunk)?;
        }
        group.close()?;
        Ok(())
    }

    /// Ends the file; says what `meta.json` is to know of it.
    pub(crate) fn finish(self) -> Result<(W, TableEntry), ParquetError> {
        self.writer.close()?;
        let out = Arc::into_inner(self.out.0).ok_or_else(|| ParquetError::General("the writer is in use".into()))?;
        let out = out.into_inner().unwrap_or_else(PoisonError::into_inner);
        let xxh64 = format!("{:016x}", out.hash.finish());
        Ok((out.out, TableEntry { rows: self.rows as u64, bytes: out.bytes, xxh64 }))
    }
}

/// Counts and sums up what is written.
struct Summed<W> {
    out: W,
    bytes: u64,
    hash: XxHash64,
}

impl<W> Summed<W> {
    fn new(out: W) -> Self {
        Self { out, bytes: 0, hash: XxHash64::with_seed(0) }
    }
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let written = self.out.write(buffer)?;
        self.hash.write(&buffer[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::TableReader;

    #[test]
    fn columns_that_are_encoded_side_by_side_are_read_back() {
        let rows = SIDE_BY_SIDE_ROWS + 100;
        let names: Vec<String> = (0..rows).map(|row| format!("name {}", row % 7)).collect();
        let optional: Vec<Option<i64>> = (0..rows as i64).map(|row| (row % 3 > 0).then_some(row * row)).collect();
        let columns = || {
            vec![
                Column { name: "id", values: Values::OwnIds((0..rows as i32).collect()) },
                Column { name: "name", values: Values::Text(names.iter().map(String::as_str).collect()) },
                Column { name: "square", values: Values::OptionalInt64(optional.clone()) },
                Column { name: "half", values: Values::Double((0..rows).map(|row| row as f64 / 2.0).collect()) },
            ]
        };
        let mut writer = TableWriter::new(Vec::new(), "test", 1, &columns()).unwrap();
        writer.push(&columns()).unwrap();
        writer.push(&columns()).unwrap();
        let (file, entry) = writer.finish().unwrap();
        assert_eq!((entry.rows, entry.bytes), (2 * rows as u64, file.len() as u64));
        let table = TableReader::open("test".into(), Bytes::from(file)).unwrap();
        let twice = |row: usize| row % rows;
        assert_eq!(table.text("name").unwrap(), (0..2 * rows).map(|row| names[twice(row)].clone()).collect::<Vec<_>>());
        assert_eq!(
            table.optional_int64("square").unwrap(),
            (0..2 * rows).map(|row| optional[twice(row)]).collect::<Vec<_>>()
        );
        assert_eq!(table.double("half").unwrap()[rows + 9], 4.5);
        assert_eq!(table.int32("id").unwrap()[rows], 0);
    }
}

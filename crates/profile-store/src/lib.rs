//! The `NAME.transect` folder: `meta.json` and one Parquet table per kind of row, documented in `FILE_FORMAT.md`.
//!
//! [`write()`] replaces a folder as a whole, [`read()`] returns what was written (but for addresses without names, which
//! [`Revision`] has, too). The tables hold no unsigned integers
//! and no nanosecond time stamps, and repeat readable names beside row numbers, so that DuckDB, pandas, ClickHouse
//! and Spark can query each file without this crate.
//!
//! Not for data that anybody else wrote: tables are checked against `meta.json` to find damage, not malice.
#![forbid(unsafe_code)]

mod column;
mod error;
mod folder;
mod metadata;
mod read;
mod revision;
mod sound_pages;
mod table_writer;
mod tables;
mod write;

pub use error::StoreError;
#[doc(hidden)]
pub use metadata::{META_FILE, sealed_meta};
pub use read::{for_each_slices, read, read_without_slices};
pub use revision::Revision;
pub use tables::TABLES;
pub use write::{LongTables, check_writable, keep_aside, write, write_streamed};

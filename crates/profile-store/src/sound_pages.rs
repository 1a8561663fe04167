//! Pages of a column as the decoder takes them: at some, which no writer makes, it panics.

use parquet::basic::Encoding;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};

/// Refuses pages that refer to a dictionary which is not there, and texts that do not end within their page.
pub(crate) struct SoundPages {
    pub pages: Box<dyn PageReader>,
    /// The column's values are texts, none of them missing.
    pub texts: bool,
    pub has_dictionary: bool,
}

impl SoundPages {
    fn check(&mut self, page: Page) -> Result<Page> {
        let refuse = |why: &str| Err(ParquetError::General(why.to_owned()));
        let encoding = page.encoding();
        match encoding {
            _ if page.is_dictionary_page() => self.has_dictionary = true,
            Encoding::PLAIN | Encoding::RLE | Encoding::DELTA_BINARY_PACKED => {}
            Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY if self.has_dictionary => {}
            _ => return refuse("a page of an encoding that is not known here, or without its dictionary"),
        }
        let plain = page.is_dictionary_page() || encoding == Encoding::PLAIN;
        if self.texts && plain && !holds_texts(page.buffer(), page.num_values()) {
            return refuse("a text does not end within its page");
        }
        Ok(page)
    }
}

/// Whether so many texts stand there, each behind its length.
fn holds_texts(mut bytes: &[u8], count: u32) -> bool {
    let mut next = || {
        let (length, rest) = bytes.split_first_chunk()?;
        bytes = rest.get(u32::from_le_bytes(*length) as usize..)?;
        Some(())
    };
    (0..count).all(|_| next().is_some())
}

impl Iterator for SoundPages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for SoundPages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        self.pages.get_next_page()?.map(|page| self.check(page)).transpose()
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }
}

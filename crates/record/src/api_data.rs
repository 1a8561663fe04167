//! The API data file: classes, sizes and objects by name (format at the top of `data/apis.txt`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use transect_event_abi::api_table::{
    API_NAME_CAPACITY, ApiEntry, NO_SIZE, RETURNED_SIZE, RETURNED_TIMES, class, handler, hash,
};

use crate::error::RecordError;

const BUILT_IN: &str = include_str!("../data/apis.txt");

/// What the first argument of a blocking API is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitObject {
    /// Nothing to name.
    None,
    /// A file descriptor.
    Descriptor,
    /// An address: lock, condition, thread.
    Address,
}

/// One API.
#[derive(Debug, Clone, Copy)]
pub struct Api {
    /// A [`class`] value.
    pub class: u8,
    /// A [`handler`] value.
    pub handler: u8,
    size_arg: u8,
    /// What is waited for.
    pub object: WaitObject,
}

/// All APIs by name.
#[derive(Debug)]
pub struct ApiData {
    apis: BTreeMap<String, Api>,
}

impl ApiData {
    /// The built-in data, extended by files.
    pub fn load(files: &[PathBuf]) -> Result<ApiData, RecordError> {
        let mut data = ApiData { apis: BTreeMap::new() };
        data.parse(Path::new("built-in API data"), BUILT_IN)?;
        for path in files {
            let text = transect_binary_info::read_plain(path)
                .map_err(|source| RecordError::Read { path: path.clone(), source })?;
            data.parse(path, &text)?;
        }
        Ok(data)
    }

    fn parse(&mut self, path: &Path, text: &str) -> Result<(), RecordError> {
        for (i, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or("").trim();
            if line.is_empty() {
                continue;
            }
            let fail = |problem: String| RecordError::ApiData { path: path.to_owned(), line: i + 1, problem };
            let mut words = line.split_whitespace();
            let name = words.next().unwrap_or_default();
            if name.len() > API_NAME_CAPACITY {
                return Err(fail(format!("name longer than {API_NAME_CAPACITY} bytes")));
            }
            let mut api =
                Api { class: class::COMPUTE, handler: handler::NONE, size_arg: NO_SIZE, object: WaitObject::Address };
            match words.next() {
                Some("compute") => {}
                Some("io") => (api.class, api.object) = (class::IO, WaitObject::Descriptor),
                Some("lock") => api.class = class::LOCK,
                Some("wait") => api.class = class::WAIT,
                Some("count-only") => api.class = class::COUNT_ONLY,
                Some("refuse") => api.handler = handler::REFUSE,
                other => {
                    return Err(fail(format!(
                        "class {:?}: expected compute, io, lock, wait, count-only or refuse",
                        other.unwrap_or("")
                    )));
                }
            }
            for pair in words {
                match pair.split_once('=') {
                    Some(("size", word)) => {
                        api.size_arg = size_argument(word).ok_or_else(|| {
                            fail(format!("size={word}: expected an argument position from 0 to 5, return, or return*N"))
                        })?;
                    }
                    Some(("object", "fd")) => api.object = WaitObject::Descriptor,
                    Some(("object", "address")) => api.object = WaitObject::Address,
                    Some(("object", "none")) => api.object = WaitObject::None,
                    Some(("handler", word)) => {
                        api.handler = handler_named(word).ok_or_else(|| fail(format!("unknown handler {word:?}")))?;
                    }
                    _ => {
                        return Err(fail(format!("{pair:?}: expected size=N|return|return*N, object=fd|address|none")));
                    }
                }
            }
            self.apis.insert(name.to_owned(), api);
        }
        Ok(())
    }

    /// What is known of an API.
    pub fn get(&self, name: &str) -> Option<&Api> {
        self.apis.get(name)
    }

    /// The table for the agent.
    pub fn table(&self) -> Vec<ApiEntry> {
        let all = &self.apis;
        let len = (all.len() * 2).next_power_of_two().max(64);
        let empty =
            ApiEntry { hash: 0, class: 0, handler: 0, size_arg: NO_SIZE, reserved: 0, name: [0; API_NAME_CAPACITY] };
        let mut table = vec![empty; len];
        for (name, api) in all {
            let h = hash(name.as_bytes());
            let mut i = h as usize & (len - 1);
            while table[i].hash != 0 {
                i = (i + 1) & (len - 1);
            }
            let mut bytes = [0; API_NAME_CAPACITY];
            bytes[..name.len()].copy_from_slice(name.as_bytes());
            table[i] = ApiEntry {
                hash: h,
                class: api.class,
                handler: api.handler,
                size_arg: api.size_arg,
                reserved: 0,
                name: bytes,
            };
        }
        table
    }
}

/// The value of `size=`, for [`ApiEntry::size_arg`].
fn size_argument(word: &str) -> Option<u8> {
    let argument = |word: &str| word.parse().ok().filter(|n| *n < RETURNED_SIZE);
    match word.strip_prefix("return") {
        None => argument(word),
        Some("") => Some(RETURNED_SIZE),
        Some(rest) => argument(rest.strip_prefix('*')?).map(|n| RETURNED_TIMES + n),
    }
}

fn handler_named(word: &str) -> Option<u8> {
    Some(match word {
        "thread-create" => handler::THREAD_CREATE,
        "thread-name" => handler::THREAD_NAME,
        "dlsym" => handler::DLSYM,
        "dladdr" => handler::DLADDR,
        "exec-env" => handler::EXEC_ENV,
        "exec-own" => handler::EXEC_OWN,
        "exec-own-path" => handler::EXEC_OWN_PATH,
        "exec-list" => handler::EXEC_LIST,
        "exec-list-env" => handler::EXEC_LIST_ENV,
        "exec-list-path" => handler::EXEC_LIST_PATH,
        "exec-lend" => handler::EXEC_LEND,
        "mutex" => handler::LOCK_ACQUIRE,
        "spin" => handler::SPIN_ACQUIRE,
        "read-lock" => handler::READ_ACQUIRE,
        "write-lock" => handler::WRITE_ACQUIRE,
        "unlock" => handler::LOCK_RELEASE,
        "prctl" => handler::PRCTL,
        "syscall" => handler::SYSCALL,
        "exit" => handler::EXIT,
        "end" => handler::END,
        "lock-memory" => handler::LOCK_MEMORY,
        "set-limit" => handler::SET_LIMIT,
        "get-limit" => handler::GET_LIMIT,
        "process-limit" => handler::PROCESS_LIMIT,
        "condition" => handler::CONDITION,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_data_is_well_formed() {
        let data = ApiData::load(&[]).unwrap();
        assert_eq!(data.get("read").unwrap().object, WaitObject::Descriptor);
        let table = data.table();
        let find = |n: &str| table.iter().find(|e| e.name.starts_with(n.as_bytes()) && e.name[n.len()] == 0);
        assert!(find("puts").is_none());
        assert_eq!(find("pthread_mutex_lock").unwrap().handler, handler::LOCK_ACQUIRE);
    }

    #[test]
    fn mistakes_name_file_and_line() {
        let mut data = ApiData { apis: BTreeMap::new() };
        let e = data.parse(Path::new("mine.txt"), "# x\nfoo slow\n").unwrap_err();
        assert_eq!(e.to_string(), "mine.txt:2: class \"slow\": expected compute, io, lock, wait, count-only or refuse");
    }
}

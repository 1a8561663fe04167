//! The command of a process that runs already.

use std::path::Path;

/// Its words; `process PID` where none can be read. The kernel tells them of a thread that has memory, which the first one has
/// no more once it has ended.
pub(crate) fn words(pid: i32) -> Vec<String> {
    words_in(Path::new("/proc"), pid)
}

/// Its executable; empty where none can be read.
pub(crate) fn executable(pid: i32) -> String {
    executable_in(Path::new("/proc"), pid)
}

fn executable_in(proc: &Path, pid: i32) -> String {
    let path = of_living(proc, pid, |folder| std::fs::read_link(folder.join("exe")).ok());
    path.map(|path| path.to_string_lossy().trim_end_matches(" (deleted)").to_owned()).unwrap_or_default()
}

/// What a process shows, or else one of its threads.
fn of_living<T>(proc: &Path, pid: i32, read: impl Fn(&Path) -> Option<T>) -> Option<T> {
    let folder = proc.join(pid.to_string());
    let threads = || std::fs::read_dir(folder.join("task")).into_iter().flatten().flatten();
    read(&folder).or_else(|| threads().find_map(|thread| read(&thread.path())))
}

fn words_in(proc: &Path, pid: i32) -> Vec<String> {
    let read = |folder: &Path| {
        let line = std::fs::read(folder.join("cmdline")).unwrap_or_default();
        let words = line.strip_suffix(b"\0").unwrap_or(&line).split(|&byte| byte == 0);
        let mut words: Vec<String> = words.map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        // A title that the program has written over its arguments, filled up with spaces.
        if let Some(title) = words.first().filter(|word| word.ends_with(' ')) {
            words = title.split_whitespace().map(str::to_owned).collect();
        }
        words.iter().any(|word| !word.is_empty()).then_some(words)
    };
    of_living(proc, pid, read).unwrap_or_else(|| vec![format!("process {pid}")])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_whose_first_thread_has_ended_has_a_command_still() {
        let proc = std::env::temp_dir().join(format!("transect-command-line-{}", std::process::id()));
        let task = |tid: &str, line: &str| {
            let folder = proc.join("7/task").join(tid);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("cmdline"), line).unwrap();
        };
        task("7", "");
        std::fs::write(proc.join("7/cmdline"), "").unwrap();
        assert_eq!(words_in(&proc, 7), ["process 7"]);
        assert_eq!(executable_in(&proc, 7), "");
        task("8", "./app\0\0two words\0");
        std::os::unix::fs::symlink("/opt/app (deleted)", proc.join("7/task/8/exe")).unwrap();
        assert_eq!(executable_in(&proc, 7), "/opt/app");
        assert_eq!(words_in(&proc, 7), ["./app", "", "two words"]);
        std::fs::write(proc.join("7/cmdline"), "./app\0").unwrap();
        assert_eq!(words_in(&proc, 7), ["./app"]);
        std::fs::write(proc.join("7/cmdline"), "redis-server *:7201         \0\0\0").unwrap();
        assert_eq!(words_in(&proc, 7), ["redis-server", "*:7201"]);
        assert_eq!(words_in(&proc, 8), ["process 8"]);
        std::fs::remove_dir_all(&proc).unwrap();
    }
}

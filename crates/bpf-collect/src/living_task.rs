use std::fs;

/// Number under `/proc` by which the memory of the process `tgid` can be looked at. A leader that has ended while its threads
/// go on has none any more: then it is the number of one of these.
pub fn living_task(tgid: i32) -> i32 {
    let has_memory = |number: i32| fs::read_link(format!("/proc/{number}/exe")).is_ok();
    if has_memory(tgid) {
        return tgid;
    }
    let threads = fs::read_dir(format!("/proc/{tgid}/task")).into_iter().flatten().flatten();
    let mut numbers = threads.filter_map(|thread| thread.file_name().to_str()?.parse().ok());
    numbers.find(|&number| has_memory(number)).unwrap_or(tgid)
}

#[cfg(test)]
mod tests {
    use super::living_task;

    #[test]
    fn a_leader_with_memory_stands_for_its_process() {
        let own = std::process::id() as i32;
        assert_eq!(living_task(own), own);
        assert_eq!(living_task(i32::MAX), i32::MAX, "nobody");
    }
}

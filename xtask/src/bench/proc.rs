//! What Linux tells about a process.

use std::time::Duration;

use crate::shell::Failure;

/// The memory that a process holds in RAM, in bytes.
pub(super) fn resident_bytes(process: u32) -> Result<u64, Failure> {
    let status = read(&format!("/proc/{process}/status"))?;
    resident_kibibytes(&status)
        .map(|kibibytes| kibibytes * 1_024)
        .ok_or_else(|| Failure::new("the status of the process names no VmRSS"))
}

fn resident_kibibytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

/// The CPU time that all threads of a process have used, to the nanosecond.
pub(super) fn cpu_time(process: u32) -> Result<Duration, Failure> {
    let folder = format!("/proc/{process}/task");
    let threads = std::fs::read_dir(&folder).map_err(|error| {
        Failure::new(format!("cannot read {folder} (CPU time is measured on Linux only): {error}"))
    })?;
    let mut nanoseconds = 0;
    for thread in threads.flatten() {
        // A thread that has ended meanwhile is no longer counted.
        let schedule = std::fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
        let used = schedule.split(' ').next().and_then(|used| used.parse::<u64>().ok());
        nanoseconds += used.unwrap_or_default();
    }
    Ok(Duration::from_nanos(nanoseconds))
}

fn read(path: &str) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| {
        Failure::new(format!("cannot read {path} (memory is measured on Linux only): {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::resident_kibibytes;

    #[test]
    fn resident_memory_is_read_from_the_status() {
        assert_eq!(resident_kibibytes("Name:\tx\nVmRSS:\t   2048 kB\nThreads:\t3\n"), Some(2_048));
        assert_eq!(resident_kibibytes("Name:\tx\n"), None);
    }
}

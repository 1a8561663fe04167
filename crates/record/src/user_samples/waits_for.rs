//! Whether what a thread waits for comes from outside of the program: the later in this list, the surer.

use transect_bpf_collect::record::{object_type, sched_wait};

use crate::sched::kind::Call;

/// See above.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WaitsFor {
    /// For what another thread or process of the program does.
    Others,
    /// Not known.
    Unknown,
    /// A socket or pipe: another thread may be at its other end.
    Peer,
    /// A file or device.
    Device,
    /// A time.
    Clock,
}

impl WaitsFor {
    /// By what is known of a wait.
    pub fn of(wait: &sched_wait) -> Self {
        let [_, _, third, fourth] = wait.arguments;
        match Call::of(wait.system_call) {
            Call::Futex if fourth == 0 => Self::Others,
            Call::Child | Call::Semaphore | Call::FileLock => Self::Others,
            Call::Sleep => Self::Clock,
            // The third argument of poll is a time limit, of ppoll the address of one; the fourth of epoll_wait.
            Call::Poll if (third as i32) > 0 => Self::Clock,
            Call::Events if wait.system_call == EPOLL_WAIT && (fourth as i32) > 0 => Self::Clock,
            Call::Poll | Call::Select | Call::Events | Call::Socket | Call::Futex => Self::Peer,
            Call::Read | Call::Write => match wait.object.r#type {
                object_type::FILE | object_type::DEVICE => Self::Device,
                _ => Self::Peer,
            },
            Call::Sync | Call::Open | Call::ReadName | Call::WriteName | Call::Close => Self::Device,
            _ => Self::Unknown,
        }
    }
}

/// Its number.
const EPOLL_WAIT: i64 = 232;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_come_before_devices_and_these_before_threads() {
        let of = |system_call, arguments| WaitsFor::of(&sched_wait { system_call, arguments, ..sched_wait::default() });
        let forever = u64::from(u32::MAX);
        let order = [of(202, [0; 4]), of(7, [0, 1, forever, 0]), of(75, [3, 0, 0, 0]), of(7, [0, 1, 5, 0])];
        assert!(order.is_sorted_by(|one, next| one < next), "{order:?}");
        assert_eq!(of(232, [3, 0, 1, 20]), WaitsFor::Clock);
        assert_eq!(of(45, [3, 0, 0, 0]), WaitsFor::Peer);
    }
}

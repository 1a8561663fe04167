//! Where a thread goes on whose next instruction is about to be replaced.

use transect_text_patch::Window;

/// What a window means for one stopped thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// Nothing: it is elsewhere, or at the window's begin and may stay there.
    Clear,
    /// It goes on at this address.
    MoveTo(u64),
    /// It is where no move leads away from: the window can't be written now.
    InTheWay,
}

const SYSTEM_CALL: [u8; 2] = [0x0f, 0x05];

/// Judges one thread whose next instruction is at `next`.
///
/// A thread in a system call (`in_call`) stands behind the instruction `syscall`, at `next`; the kernel may restart the call by
/// going back two bytes. If the instruction is in the window, its copy is where the thread must be sent behind: whether
/// the call is restarted or has given EINTR, it goes on in the displaced code. That holds as well if `next` is the
/// window's end, where nothing is replaced but a restart would go back into it.
pub fn position(next: u64, in_call: bool, window: &Window) -> Position {
    let length = u64::from(window.length);
    let starts_at = |offset: u64| offset < length && window.starts >> offset & 1 == 1;
    let at = next.wrapping_sub(window.address);
    if in_call {
        let call = at.wrapping_sub(2);
        let offset = call as usize;
        if call < length && starts_at(call) && window.old[offset..].starts_with(&SYSTEM_CALL) {
            return match window.moves[offset] {
                0 => Position::InTheWay,
                to if to == window.address + call && window.new[offset..].starts_with(&SYSTEM_CALL) => Position::Clear,
                to if to == window.address + call => Position::InTheWay,
                to => Position::MoveTo(to + 2),
            };
        }
    }
    if at >= length {
        return Position::Clear;
    }
    if !starts_at(at) {
        return Position::InTheWay;
    }
    match window.moves[at as usize] {
        0 if at == 0 => Position::Clear,
        0 => Position::InTheWay,
        to if to == next => Position::Clear,
        to => Position::MoveTo(to),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transect_text_patch::WINDOW_CAPACITY;

    /// `xor eax, eax; syscall; nop` becomes a jump; its copy stands at 0x9000.
    fn window() -> Window {
        let mut w = Window {
            address: 0x1000,
            length: 5,
            old: [0; WINDOW_CAPACITY],
            new: [0; WINDOW_CAPACITY],
            starts: 0b1_0101,
            moves: [0; WINDOW_CAPACITY],
        };
        w.old[..5].copy_from_slice(&[0x31, 0xc0, 0x0f, 0x05, 0x90]);
        w.new[..5].copy_from_slice(&[0xe9, 0xf0, 0x7f, 0, 0]);
        (w.moves[0], w.moves[2], w.moves[4]) = (0x1000, 0x9002, 0x9004);
        w
    }

    #[test]
    fn between_instructions() {
        let at = |rip| position(rip, false, &window());
        assert_eq!(at(0x0fff), Position::Clear);
        assert_eq!(at(0x1000), Position::Clear);
        assert_eq!(at(0x1001), Position::InTheWay);
        assert_eq!(at(0x1002), Position::MoveTo(0x9002));
        assert_eq!(at(0x1004), Position::MoveTo(0x9004));
        assert_eq!(at(0x1005), Position::Clear);
    }

    #[test]
    fn in_a_system_call_of_the_window() {
        assert_eq!(position(0x1004, true, &window()), Position::MoveTo(0x9004));
        let mut last = window();
        last.old[..5].copy_from_slice(&[0x0f, 0x1f, 0x00, 0x0f, 0x05]);
        last.starts = 0b1001;
        last.moves = [0; WINDOW_CAPACITY];
        (last.moves[0], last.moves[3]) = (0x1000, 0x9003);
        assert_eq!(position(0x1005, true, &last), Position::MoveTo(0x9005), "behind the window");
        assert_eq!(position(0x1005, false, &last), Position::Clear);
    }

    #[test]
    fn a_call_elsewhere_that_merely_ends_before_the_window() {
        let mut w = window();
        (w.address, w.moves[0]) = (0x1004, 0x1004);
        assert_eq!(position(0x1004, true, &w), Position::Clear);
    }
}

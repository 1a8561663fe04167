use transect_attach::{Arena, Reach, Target};
use transect_text_patch::{WINDOW_CAPACITY, Window};

use crate::program::{Running, compile};

fn status(pid: i32, key: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    text.lines().find(|l| l.starts_with(key)).unwrap().to_owned()
}

/// A window of five bytes over whole instructions at `step`, and its code elsewhere.
fn displaced(target: &Target, address: u64) -> (Vec<u8>, Vec<usize>) {
    let mut bytes = vec![0; 32];
    target.memory().read(address, &mut bytes).unwrap();
    // gcc -O2: lea rax, [rdi+rdi*2]; add/inc; ret; what precedes is asserted below.
    assert_eq!(&bytes[..5], &[0x48, 0x8d, 0x44, 0x7f, 0x01], "{bytes:x?}");
    (bytes[..5].to_vec(), vec![0])
}

#[test]
fn code_is_replaced_and_put_back_under_many_threads() {
    let program = compile("worker", &[]);
    let mut running = Running::start(&program, &["8"]);
    let target = Target::open(running.pid()).unwrap();
    let step = running.address_of("step");
    let (old, _) = displaced(&target, step);
    let slots = status(running.pid(), "FDSize");
    let arena = Arena::create(&target).unwrap();
    assert_eq!(
        status(running.pid(), "FDSize"),
        slots,
        "a larger table would make the kernel wait for RCU, a thread held"
    );
    let region = arena.add_region(&target, Reach { low: step, high: step + 5 }, 1 << 20).unwrap();
    assert_eq!(status(running.pid(), "TracerPid"), "TracerPid:\t0");
    let mut code = old.clone();
    code.push(0xe9);
    let back = (step + 5).wrapping_sub(region.address + 10) as u32;
    code.extend(back.to_le_bytes());
    arena.write_code(&region, 0, &code);
    let mut window = Window {
        address: step,
        length: 5,
        old: [0; WINDOW_CAPACITY],
        new: [0; WINDOW_CAPACITY],
        starts: 1,
        moves: [0; WINDOW_CAPACITY],
    };
    window.old[..5].copy_from_slice(&old);
    window.new[0] = 0xe9;
    window.new[1..5].copy_from_slice(&(region.address.wrapping_sub(step + 5) as u32).to_le_bytes());
    window.moves[0] = step;
    let mut back = window.clone();
    (back.old, back.new) = (window.new, window.old);
    for round in 0..50 {
        let written = target.write_windows(std::slice::from_ref(&window)).unwrap();
        assert_eq!((written.count, written.left.len()), (1, 0), "{round}");
        assert!(running.ask("?").ends_with(" 0 4"));
        assert_eq!(target.write_windows(std::slice::from_ref(&back)).unwrap().count, 1);
        assert!(running.ask("?").ends_with(" 0 4"));
    }
    println!("{:?}", target.stop_times());
    let mut text = [0; 5];
    target.memory().read(step, &mut text).unwrap();
    assert_eq!(text, old[..]);
    drop(arena);
    let again = Arena::find(&target).unwrap().expect("the arena outlives its controller");
    assert_eq!(again.regions(), [region]);
}

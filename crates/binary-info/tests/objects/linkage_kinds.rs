//! Plans of small programs, built in every way that compilers link calls, against what their sources say.

use crate::toolchain::{Toolchain, analyze, program, text, uses};
use transect_binary_info::{LibcKind, RelocationTable};

/// Functions that `caller.c` only calls, whatever the compiler makes of it.
const CALLED: [&str; 4] = ["only_called", "tail_called", "take", "versioned"];
/// Functions whose address `caller.c` lets out.
const LOADED: [&str; 3] = ["only_loaded", "compared", "returned"];

/// Position-independent code: addresses come from slots.
fn check_position_independent(toolchain: &Toolchain, name: &str, flags: &[&str]) -> bool {
    let Some(object) = toolchain.caller(name, flags) else { return false };
    let plan = analyze(&object);
    for symbol in CALLED.into_iter().chain(["called_in_loop", "indirect"]) {
        assert_eq!(uses(&object, &plan, symbol), ["called"], "{symbol} in {name}");
    }
    for symbol in LOADED {
        assert_eq!(uses(&object, &plan, symbol), ["loaded"], "{symbol} in {name}");
    }
    // One slot for both uses, or one for each: that is the linker's choice.
    let both = uses(&object, &plan, "called_and_loaded");
    // Without PLT, clang loads the slot once, and passes and calls the same register.
    let one_register = name.starts_with("clang-no-plt") && both == ["loaded"];
    assert!(
        both == ["called+loaded"] || both == ["called", "loaded"] || one_register,
        "called_and_loaded in {name}: {both:?}"
    );
    // Tested for existence, then called; unoptimized code leaves the tested value in a register that is reused.
    let weak = uses(&object, &plan, "maybe_there");
    let expected: &[&[&str]] = &[&["called"], &["called", "called"], &["called", "unreferenced"], &[]];
    let unoptimized = name.ends_with("unoptimized") && weak == ["called+loaded"];
    assert!(expected.contains(&&weak[..]) || unoptimized, "maybe_there in {name}: {weak:?}");
    true
}

#[test]
fn position_independent_code() {
    let kinds: [(&str, &[&str]); 8] = [
        ("lazy", &["-fPIE", "-pie", "-Wl,-z,lazy"]),
        ("now", &["-fPIE", "-pie", "-Wl,-z,now"]),
        ("cet", &["-fPIE", "-pie", "-fcf-protection=full", "-Wl,-z,lazy"]),
        ("ibt", &["-fPIE", "-pie", "-fcf-protection=full", "-Wl,-z,ibtplt"]),
        ("no-plt", &["-fPIE", "-pie", "-fno-plt"]),
        ("no-plt-fixed", &["-fPIE", "-no-pie", "-fno-plt", "-fPIC"]),
        ("unoptimized", &["-fPIE", "-pie", "-O0"]),
        ("lld", &["-fPIE", "-pie", "-fuse-ld=lld"]),
    ];
    let mut built = 0;
    for compiler in ["gcc", "clang", "musl-gcc"] {
        let Some(toolchain) = Toolchain::new(compiler) else { continue };
        for (name, flags) in kinds {
            built += usize::from(check_position_independent(&toolchain, &format!("{compiler}-{name}"), flags));
        }
    }
    assert!(built >= 6, "only {built} programs could be built");
}

#[test]
fn fixed_executables_call_through_canonical_entries() {
    for compiler in ["gcc", "clang"] {
        let Some(toolchain) = Toolchain::new(compiler) else { continue };
        let Some(object) = toolchain.caller("fixed", &["-fno-pic", "-fno-pie", "-no-pie"]) else { continue };
        assert!(object.is_fixed());
        let plan = analyze(&object);
        // A function's address is that of its PLT entry here, so pointers pass through the slot as calls do.
        for symbol in CALLED.into_iter().chain(["only_loaded", "called_and_loaded"]) {
            assert_eq!(uses(&object, &plan, symbol), ["called"], "{symbol} by {compiler}");
        }
    }
}

/// GHC's code: a jump with no return address on the stack, from a function without a frame description.
#[test]
fn jumps_out_of_undescribed_code_are_left_alone() {
    let Some(toolchain) = Toolchain::new("gcc") else { return };
    let source = toolchain.path("jumps.s");
    let code = ".globl main\nmain:\n .cfi_startproc\n jmp *tail_called@GOTPCREL(%rip)\n .cfi_endproc\n\
                undescribed:\n call *take@GOTPCREL(%rip)\n jmp *only_called@GOTPCREL(%rip)\n \
                .section .note.GNU-stack,\"\",@progbits\n";
    std::fs::write(&source, code).unwrap();
    let output = toolchain.path("jumps");
    let folder = format!("-L{}", toolchain.folder.path().display());
    toolchain.compile(&["-o", text(&output), text(&source), &folder, "-lshapes"]).expect("jumps");
    let object = transect_binary_info::Object::open(&output).unwrap();
    let plan = analyze(&object);
    assert_eq!(uses(&object, &plan, "tail_called"), ["called"]);
    assert_eq!(uses(&object, &plan, "take"), ["called"]);
    assert_eq!(uses(&object, &plan, "only_called"), ["loaded"]);
}

#[test]
fn absolute_calls_in_fixed_executables() {
    let Some(toolchain) = Toolchain::new("gcc") else { return };
    let source = toolchain.path("absolute.s");
    let code = ".globl main\nmain:\n subq $8, %rsp\n call *only_called@GOTPCREL\n movl only_loaded@GOTPCREL, %eax\n \
                addq $8, %rsp\n ret\n .section .note.GNU-stack,\"\",@progbits\n";
    std::fs::write(&source, code).unwrap();
    let output = toolchain.path("absolute");
    let folder = text(toolchain.folder.path());
    let linked = toolchain.compile(&[
        "-no-pie",
        "-Wl,--no-relax",
        "-o",
        text(&output),
        text(&source),
        &format!("-L{folder}"),
        "-lshapes",
    ]);
    // Not every assembler accepts the relocation without %rip.
    if linked.is_err() {
        return;
    }
    let object = transect_binary_info::Object::open(output).unwrap();
    let plan = analyze(&object);
    assert_ne!(uses(&object, &plan, "only_called"), ["called+loaded"]);
    assert_ne!(uses(&object, &plan, "only_loaded"), ["called"]);
}

#[test]
fn large_code_model_is_left_alone() {
    let Some(toolchain) = Toolchain::new("gcc") else { return };
    let Some(object) = toolchain.caller("large", &["-mcmodel=large", "-fPIC", "-fno-plt"]) else { return };
    let plan = analyze(&object);
    for symbol in LOADED {
        let found = uses(&object, &plan, symbol);
        assert!(!found.contains(&"called"), "{symbol}: {found:?}");
    }
}

#[test]
fn slots_reached_from_the_offset_table_are_left_alone() {
    let Some(toolchain) = Toolchain::new("gcc") else { return };
    let (output, source) = (toolchain.path("table"), program("table_relative.s"));
    let folder = format!("-L{}", text(toolchain.folder.path()));
    toolchain.compile(&["-pie", "-o", text(&output), text(&source), &folder, "-lshapes"]).unwrap();
    let object = transect_binary_info::Object::open(output).unwrap();
    let plan = analyze(&object);
    let found = uses(&object, &plan, "only_loaded");
    assert!(found.contains(&"loaded") || found.contains(&"called+loaded"), "{found:?}");
    assert_eq!(uses(&object, &plan, "only_called"), ["called"]);
}

#[test]
fn loads_that_are_calls_are_calls() {
    // In `loop`, compilers without PLT keep the slot's value in a register.
    for compiler in ["gcc", "clang"] {
        let Some(toolchain) = Toolchain::new(compiler) else { continue };
        let Some(object) = toolchain.caller("loop", &["-fPIE", "-pie", "-fno-plt", "-O2"]) else { continue };
        let plan = analyze(&object);
        assert_eq!(uses(&object, &plan, "called_in_loop"), ["called"], "{compiler}");
    }
}

#[test]
fn symbols_and_versions() {
    let Some(toolchain) = Toolchain::new("gcc") else { return };
    let object = toolchain.caller("versions", &["-pie", "-fPIE"]).unwrap();
    let symbol = |name: &str| {
        (0..object.dynamic_symbol_count()).filter_map(|i| object.dynamic_symbol(i)).find(|s| s.name == name).unwrap()
    };
    assert_eq!(symbol("versioned").version, "SHAPES_2");
    assert!(!symbol("versioned").defined);
    assert!(symbol("maybe_there").weak);
    assert_eq!(symbol("maybe_there").version, "");
    assert_eq!(object.libc(), LibcKind::Glibc);
    assert!(object.needed().iter().any(|n| n == "libshapes.so"));
    assert_eq!(object.build_id().map(|id| id.len()), Some(40));

    let library = transect_binary_info::Object::open(toolchain.path("libshapes.so")).unwrap();
    let defined: Vec<_> =
        (0..library.dynamic_symbol_count()).filter_map(|i| library.dynamic_symbol(i)).filter(|s| s.defined).collect();
    let versions: Vec<_> = defined.iter().filter(|s| s.name == "versioned").map(|s| s.version).collect();
    assert!(versions.contains(&"SHAPES_1") && versions.contains(&"SHAPES_2"), "{versions:?}");
    let take = defined.iter().find(|s| s.name == "take").unwrap();
    let found = library.symbol_at(take.address + 1).unwrap();
    assert_eq!((found.name, found.address, found.kind.is_function()), ("take", take.address, true));
    // Only the static symbol table knows it.
    let hidden = (0..0x2000).filter_map(|a| library.symbol_at(a)).any(|s| s.name == "chosen");
    assert!(hidden);
    let offset = library.file_offset(take.address).unwrap();
    assert_eq!(library.vaddr(offset), Some(take.address));
}

#[test]
fn tables_in_either_order() {
    let Some(toolchain) = Toolchain::new("gcc") else { return };
    let object = toolchain.caller("tables", &["-pie", "-fPIE", "-Wl,-z,lazy"]).unwrap();
    let slots = object.linkage_slots();
    let lazy = slots.iter().find(|s| object.dynamic_symbol(s.symbol).unwrap().name == "only_called").unwrap();
    assert_eq!((lazy.table, lazy.jump_slot), (RelocationTable::JmpRel, true));
    let eager = slots.iter().find(|s| object.dynamic_symbol(s.symbol).unwrap().name == "only_loaded").unwrap();
    assert_eq!((eager.table, eager.jump_slot), (RelocationTable::Rela, false));
    assert!(slots.is_sorted_by_key(|s| (s.table, s.index)));
}

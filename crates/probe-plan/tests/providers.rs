//! Every provider against what compilers make of small programs. What stands where is asked of the programs' own
//! tables and bytes, not of the planner.

use std::path::{Path, PathBuf};
use std::process::Command;

use transect_binary_info::Object;
use transect_probe_plan::{
    Event, ExitSupport, Lines, Plan, PlanOptions, PointError, ProviderKind, Refusal, Site, Window, plan, plan_address,
};

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

/// A program compiled from `sources`; `None` (and a line that says so) if the compiler can't.
fn compile(compiler: &str, flags: &str, sources: &[&str]) -> Option<(tempfile::TempDir, Object)> {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("program");
    let run = Command::new(compiler)
        .args(flags.split_whitespace())
        .args(sources.iter().map(|name| source(name)))
        .arg("-o")
        .arg(&output)
        .output();
    match run {
        Ok(run) if run.status.success() => {}
        Ok(run) => {
            eprintln!("NOT RUN: {compiler} {flags}: {}", String::from_utf8_lossy(&run.stderr));
            return None;
        }
        Err(error) => {
            eprintln!("NOT RUN: {compiler}: {error}");
            return None;
        }
    }
    Some((folder, Object::open(output).unwrap()))
}

fn all(object: &Object) -> Plan {
    plan(object, &PlanOptions::default())
}

fn sites<'a>(plan: &'a Plan, function: &str) -> Vec<&'a Site> {
    plan.sites.iter().filter(|site| plan.functions[site.function as usize].name == function).collect()
}

fn entry<'a>(plan: &'a Plan, function: &str) -> &'a Site {
    let found: Vec<_> = sites(plan, function)
        .into_iter()
        .filter(|site| site.event == Event::Entry && site.provider != ProviderKind::InstrumentFunctions)
        .collect();
    assert_eq!(found.len(), 1, "{function}: {found:?}, refused {:?}", plan.refused);
    found[0]
}

/// Every site's bytes are the file's, and no two sites overlap.
fn check(object: &Object, plan: &Plan) {
    for site in &plan.sites {
        let original = site.window.original();
        assert_eq!(&object.bytes_at(site.vaddr).unwrap()[..original.len()], original);
        assert!(original.len() >= 5);
    }
    assert!(plan.sites.windows(2).all(|pair| pair[0].range().end <= pair[1].vaddr));
    assert!(plan.functions.windows(2).all(|pair| pair[0].vaddr < pair[1].vaddr));
}

const SHAPES: [&str; 4] = ["work", "helper", "tail", "empty"];

#[test]
fn patchable_entries() {
    for (compiler, flags) in [
        ("gcc", "-O2 -fpatchable-function-entry=5"),
        ("gcc", "-O2 -fpatchable-function-entry=16,8"),
        ("gcc", "-O2 -fpatchable-function-entry=5 -fcf-protection=full"),
        ("gcc", "-O2 -fpatchable-function-entry=5 -no-pie -fno-pic"),
        ("gcc", "-O2 -fpatchable-function-entry=10,5 -fcf-protection=full -s"),
        ("clang", "-O2 -fpatchable-function-entry=7"),
        ("clang", "-O2 -fpatchable-function-entry=12 -fcf-protection=full"),
        ("clang", "-O2 -fpatchable-function-entry=5 -static"),
    ] {
        let Some((_folder, object)) = compile(compiler, flags, &["shapes.c"]) else { continue };
        let plan = all(&object);
        check(&object, &plan);
        let patchable: Vec<_> = plan.sites.iter().filter(|s| s.provider == ProviderKind::PatchableEntry).collect();
        assert!(patchable.len() >= 4, "{flags}: {patchable:?}");
        for site in patchable {
            assert_eq!((site.event, site.exit), (Event::Entry, ExitSupport::PairedCall), "{flags}");
            let Window::Sled { original, off } = &site.window else { panic!("{site:?}") };
            let bytes = object.bytes_at(site.vaddr).unwrap();
            assert!(matches!(bytes[0], 0x90 | 0x0f | 0x66 | 0x2e), "{flags}: {original:02x?}");
            assert!(*off == [0x0f, 0x1f, 0x44, 0, 0] || off[..2] == [0xeb, original.len() as u8 - 2], "{flags}");
            // An endbr64 is before the window, if the function has one.
            let function = &plan.functions[site.function as usize];
            assert!(site.vaddr - function.vaddr == 4 || site.vaddr == function.vaddr, "{flags}: {site:?}");
        }
        if !flags.contains("-s") {
            SHAPES.iter().for_each(|name| {
                assert_eq!(entry(&plan, name).provider, ProviderKind::PatchableEntry, "{flags} {name}")
            });
        }
    }
}

#[test]
fn few_no_ops_are_displaced() {
    let Some((_folder, object)) = compile("gcc", "-O2 -fpatchable-function-entry=2", &["shapes.c"]) else { return };
    let plan = all(&object);
    check(&object, &plan);
    // The fourth is the last of its section, without padding behind it.
    for name in &SHAPES[..3] {
        assert_eq!(entry(&plan, name).provider, ProviderKind::Entry);
    }
}

#[test]
fn fentry() {
    for flags in [
        "-O2 -pg -mfentry -mnop-mcount -mrecord-mcount -fno-pic -no-pie",
        "-O2 -pg -mfentry -mnop-mcount -fno-pic -no-pie",
        "-O2 -pg -mfentry -mnop-mcount -mrecord-mcount -fno-pic -no-pie -fcf-protection=full",
        "-O2 -pg -mfentry",
        "-O2 -pg -mfentry -fno-pic -no-pie",
        "-O2 -pg -mfentry -fcf-protection=full -fPIE -pie",
    ] {
        let Some((_folder, object)) = compile("gcc", flags, &["shapes.c"]) else { continue };
        let plan = all(&object);
        check(&object, &plan);
        for name in SHAPES {
            let site = entry(&plan, name);
            assert_eq!((site.provider, site.exit), (ProviderKind::Fentry, ExitSupport::PairedCall), "{flags} {name}");
            assert_eq!(matches!(site.window, Window::Sled { .. }), flags.contains("-mnop-mcount"), "{flags} {name}");
        }
    }
}

#[test]
fn xray() {
    for (compiler, flags) in [
        ("clang", "-O2 -fxray-instrument -fxray-instruction-threshold=1"),
        ("clang", "-O1 -fxray-instrument -fxray-instruction-threshold=1 -no-pie"),
        ("clang-19", "-O2 -fxray-instrument -fxray-instruction-threshold=1"),
        ("clang", "-O2 -fxray-instrument -fxray-instruction-threshold=1 -fcf-protection=full"),
    ] {
        let Some((_folder, object)) = compile(compiler, flags, &["shapes.c"]) else { continue };
        let plan = all(&object);
        check(&object, &plan);
        for name in SHAPES {
            let found = sites(&plan, name);
            assert!(found.iter().all(|site| site.provider == ProviderKind::Xray), "{flags} {name} {found:?}");
            let first = entry(&plan, name);
            let Window::Sled { original, off } = &first.window else { panic!("{first:?}") };
            assert_eq!((original.len(), &off[..2]), (11, &[0xeb, 9][..]));
            assert_eq!(first.exit, ExitSupport::PairedCall);
            let exits: Vec<_> = found.iter().filter(|site| site.event == Event::Exit).collect();
            assert!(!exits.is_empty(), "{flags} {name}");
            for site in exits {
                let first = site.window.original()[0];
                assert_eq!(matches!(site.window, Window::ReturnSled { .. }), first == 0xc3);
            }
        }
    }
}

#[test]
fn instrumented_functions() {
    for flags in [
        "-O2 -finstrument-functions",
        "-O0 -finstrument-functions",
        "-O2 -finstrument-functions -fno-plt",
        "-O2 -finstrument-functions -no-pie -fno-pic",
    ] {
        for own in [true, false] {
            let sources: &[&str] = if own { &["shapes.c", "instrumented.c"] } else { &["shapes.c"] };
            let Some((_folder, object)) = compile("gcc", flags, sources) else { continue };
            let plan = all(&object);
            check(&object, &plan);
            for name in SHAPES {
                let found = sites(&plan, name);
                let calls: Vec<_> = found.iter().filter(|s| s.provider == ProviderKind::InstrumentFunctions).collect();
                for event in [Event::Entry, Event::Exit] {
                    assert!(calls.iter().any(|site| site.event == event), "{flags} {name} {calls:?}");
                }
                for site in calls {
                    let Window::Call { original, displaced, tail } = &site.window else { panic!("{site:?}") };
                    assert!(displaced.ends && displaced.fixups.len() == 1);
                    assert_eq!(*tail, matches!(original[..2], [0xe9, _] | [0xff, 0x25]), "{original:02x?}");
                }
                // The entry itself can be timed, though each passes its return address on.
                assert_eq!(entry(&plan, name).exit, ExitSupport::PairedCall, "{flags} {name}");
            }
        }
    }
}

#[test]
fn usdt_points() {
    for flags in ["-O2", "-O2 -no-pie -fno-pic", "-O0", "-O2 -s"] {
        let Some((_folder, object)) = compile("gcc", flags, &["usdt.c"]) else { continue };
        let plan = all(&object);
        check(&object, &plan);
        let points: Vec<_> = plan.sites.iter().filter(|site| site.usdt.is_some()).collect();
        let names: Vec<&str> = points.iter().map(|site| site.name.as_str()).collect();
        assert_eq!(names, ["shop:item", "shop:close"], "{flags} {:?}", plan.refused);
        for site in points {
            // Where the compiler put nothing before it, a point is its function's entry.
            let function = &plan.functions[site.function as usize];
            let wanted = if site.vaddr == function.vaddr {
                assert!(site.name == "shop:close" && !flags.contains("-O0"), "{flags} {site:?}");
                (Event::Entry, ExitSupport::PairedCall, false)
            } else {
                (Event::Point, ExitSupport::NotEntry, true)
            };
            assert_eq!((site.event, site.exit, site.red_zone), wanted, "{flags} {}", site.name);
            assert_eq!(object.bytes_at(site.vaddr).unwrap()[0], 0x90);
            let note = site.usdt.as_ref().unwrap();
            assert!(note.arguments.starts_with("4@") || note.arguments.starts_with("-4@"), "{note:?}");
            assert_eq!(note.semaphore.is_some(), note.name == "close");
            if !flags.contains("-s") {
                let function = &plan.functions[site.function as usize].name;
                assert_eq!(function, if note.name == "close" { "close_up" } else { "serve" });
            }
        }
    }
}

#[test]
fn hard_entries() {
    let Some((_folder, object)) = compile("gcc", "-shared -fPIC", &["entries.S"]) else { return };
    let plan = all(&object);
    check(&object, &plan);
    let verdict = |name: &str| {
        let refused = plan.refused.iter().find(|r| plan.functions[r.function as usize].symbol == name);
        match refused {
            Some(refused) => Err(refused.reason),
            None => Ok(entry(&plan, name).exit),
        }
    };
    use ExitSupport::{PairedCall, ReturnAddressUsed};
    for (name, wanted) in [
        ("plain", Ok(PairedCall)),
        ("short_return", Ok(PairedCall)),
        ("cramped", Err(Refusal::TooShort)),
        ("cramped_neighbour", Ok(PairedCall)),
        ("inner_head", Err(Refusal::JumpTargetInside)),
        ("loop_entry", Err(Refusal::EntryIsLoopHead)),
        ("loop_behind_endbr", Err(Refusal::EntryIsLoopHead)),
        ("recursion", Ok(PairedCall)),
        ("entered_twice", Err(Refusal::JumpTargetInside)),
        ("second_entry", Ok(PairedCall)),
        ("table_entry", Err(Refusal::JumpTargetInside)),
        ("address_table_entry", Err(Refusal::JumpTargetInside)),
        ("pointer_inside", Err(Refusal::JumpTargetInside)),
        ("takes_pointer", Ok(PairedCall)),
        ("call_inside", Err(Refusal::CallInside)),
        ("call_last", Ok(PairedCall)),
        ("reads_return", Ok(ReturnAddressUsed)),
        ("pops_return", Ok(ReturnAddressUsed)),
        ("reads_by_frame", Ok(ReturnAddressUsed)),
        ("stack_argument", Ok(PairedCall)),
        ("system_call", Err(Refusal::NotRelocatable)),
        ("no_code", Err(Refusal::NotDecodable)),
        ("vfork", Ok(ReturnAddressUsed)),
        ("__restore_rt", Err(Refusal::ForeignConvention)),
        ("guarded", Ok(PairedCall)),
    ] {
        assert_eq!(verdict(name), wanted, "{name}");
    }
    // The return and four bytes of what fills the gap.
    assert_eq!(entry(&plan, "short_return").window.original().len(), 5);
    // The displaced call ends the window, with the original's return address pushed.
    let Window::Displaced { displaced, .. } = &entry(&plan, "call_last").window else { panic!() };
    assert!(displaced.ends && displaced.fixups.iter().any(|fixup| fixup.target == displaced.resume));
}

#[test]
fn cold_parts_are_no_functions() {
    for flags in ["-O2", "-O2 -s"] {
        let Some((_folder, object)) = compile("gcc", flags, &["cold.c"]) else { continue };
        let plan = all(&object);
        check(&object, &plan);
        assert!(plan.functions.iter().all(|f| !f.name.contains(".cold")));
        if flags == "-O2" {
            let part = object.function_names().into_iter().find(|n| &*n.name == "parse.cold").expect("a cold part");
            assert!(plan.sites.iter().all(|site| site.vaddr != part.address));
            // Its instructions are the function's.
            let (function, _) = plan_address(&object, part.address + 5).map_or_else(
                |error| match error {
                    PointError::MiddleOfInstruction { function, .. } | PointError::Refused { function, .. } => {
                        (function, ())
                    }
                    other => panic!("{other}"),
                },
                |(function, _)| (function.name, ()),
            );
            assert_eq!(function, "parse");
        }
    }
}

#[test]
fn stripped_objects_have_the_same_entries() {
    for (compiler, sources) in
        [("gcc", ["shapes.c"]), ("gcc", ["cold.c"]), ("clang", ["shapes.c"]), ("g++", ["throws.cpp"])]
    {
        let Some((_folder, object)) = compile(compiler, "-O2", &sources) else { continue };
        let Some((_folder, stripped)) = compile(compiler, "-O2 -s", &sources) else { continue };
        let entries = |plan: &Plan| -> Vec<u64> {
            plan.sites.iter().filter(|s| s.event == Event::Entry).map(|s| s.vaddr).collect()
        };
        // Without symbols, start-up code without unwind information is not found.
        let known = |plan: &Plan, object: &Object| -> Vec<u64> {
            let frames = object.frame_entries();
            let has_frame = |vaddr: u64| frames.iter().any(|frame| frame.range.contains(&vaddr));
            entries(plan).into_iter().filter(|&vaddr| has_frame(vaddr)).collect()
        };
        let (with, without) = (all(&object), all(&stripped));
        check(&stripped, &without);
        assert_eq!(known(&with, &object), known(&without, &stripped), "{sources:?}");
        assert!(without.functions.iter().any(|f| f.name == format!("sub_{:x}", f.vaddr)));
    }
}

#[test]
fn an_unwinder_without_name_forbids_timing() {
    let timed = |flags: &str| {
        let (_folder, object) = compile("g++", flags, &["throws.cpp"])?;
        Some(all(&object).sites.iter().filter(|site| site.exit == ExitSupport::PairedCall).count())
    };
    for (flags, wanted) in [("-O2", true), ("-O2 -s", true), ("-O2 -static", true), ("-O2 -static -s", false)] {
        let Some(timed) = timed(flags) else { continue };
        assert_eq!(timed > 0, wanted, "{flags}: {timed}");
    }
}

#[test]
fn variants_of_a_resolver_have_its_name() {
    for flags in ["-O2", "-O2 -no-pie -fno-pic"] {
        let Some((_folder, object)) = compile("gcc", flags, &["ifunc.c"]) else { continue };
        let plan = all(&object);
        for variant in ["slow", "fast"] {
            let function = plan.functions.iter().find(|f| f.name == variant).unwrap();
            assert_eq!(function.aliases, ["chosen"], "{flags}");
        }
        assert!(plan.functions.iter().any(|f| f.name.ends_with(" [resolver]")));
    }
}

#[test]
fn names_and_lines_of_cxx() {
    for flags in ["-O2 -g", "-O2 -g -gdwarf-4", "-O2 -g -gsplit-dwarf", "-O2 -g -gz=zlib"] {
        let Some((_folder, object)) = compile("g++", flags, &["throws.cpp"]) else { continue };
        let plan = all(&object);
        check(&object, &plan);
        let lines = Lines::of(&object).unwrap();
        for (prefix, text) in
            [("shop::sell(", "int sell("), ("int shop::twice<int>(", "T twice("), ("main", "int main(")]
        {
            let function = plan.functions.iter().find(|f| f.name.starts_with(prefix)).unwrap();
            let line = lines.at(function.vaddr).unwrap();
            let source = std::fs::read_to_string(&line.file).unwrap();
            let written = source.lines().nth(line.line as usize - 1).unwrap();
            assert!(written.contains(text), "{flags} {prefix}: line {} is {written}", line.line);
        }
    }
    let Some((_folder, object)) = compile("g++", "-O2", &["throws.cpp"]) else { return };
    assert!(Lines::of(&object).is_none());
}

#[test]
fn lines_of_a_separate_debug_file() {
    let Some((folder, object)) = compile("g++", "-O2 -g", &["throws.cpp"]) else { return };
    let vaddr = all(&object).functions.iter().find(|f| f.name == "main").unwrap().vaddr;
    let run = |arguments: &[&str]| {
        let done = Command::new("objcopy").args(arguments).current_dir(folder.path()).status();
        done.is_ok_and(|status| status.success())
    };
    let split = run(&["--only-keep-debug", "program", "program.debug"])
        && run(&["--strip-all", "--add-gnu-debuglink=program.debug", "program"]);
    if !split {
        eprintln!("NOT RUN: objcopy can't");
        return;
    }
    let stripped = Object::open(folder.path().join("program")).unwrap();
    let line = Lines::of(&stripped).unwrap().at(vaddr).unwrap();
    assert!(line.file.ends_with("throws.cpp") && line.line > 0, "{line:?}");
    assert!(all(&stripped).functions.iter().any(|f| f.name.starts_with("shop::sell(")));
}

#[test]
fn addresses() {
    let Some((_folder, object)) = compile("gcc", "-shared -fPIC", &["entries.S"]) else { return };
    let planned = all(&object);
    let plain = planned.functions.iter().find(|f| f.name == "plain").unwrap();
    let (function, site) = plan_address(&object, plain.vaddr).unwrap();
    assert_eq!((function.name.as_str(), site.event), ("plain", Event::Entry));
    // push %rbp; mov %rsp,%rbp; sub $32,%rsp
    let (_, site) = plan_address(&object, plain.vaddr + 1).unwrap();
    assert_eq!((site.event, site.red_zone, site.window.original().len()), (Event::Point, true, 7));
    let inside = plan_address(&object, plain.vaddr + 2).unwrap_err();
    assert_eq!(
        inside,
        PointError::MiddleOfInstruction { vaddr: plain.vaddr + 2, function: "plain".into(), start: plain.vaddr + 1 }
    );
    assert_eq!(plan_address(&object, 0).unwrap_err(), PointError::NotCode { vaddr: 0 });
    let head = planned.functions.iter().find(|f| f.name == "inner_head").unwrap();
    let refused = plan_address(&object, head.vaddr).unwrap_err();
    assert!(matches!(refused, PointError::Refused { reason: Refusal::JumpTargetInside, .. }), "{refused}");
}

#[test]
fn only_wanted_functions() {
    let Some((_folder, object)) = compile("gcc", "-O2", &["shapes.c"]) else { return };
    let wanted = |f: &transect_probe_plan::Function| f.name == "work";
    let plan = plan(&object, &PlanOptions { wanted: Some(&wanted), ..PlanOptions::default() });
    assert_eq!(plan.sites.len(), 1);
    assert!(plan.refused.is_empty() && plan.functions.len() > 4);
}

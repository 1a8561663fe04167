//! Lines and inlined functions where debug information shares its descriptions with other files', as distributions ship it.

use std::path::Path;
use std::process::Command;

use transect_binary_info::Object;
use transect_probe_plan::Lines;

const HEADER: &str = "struct measured_shape { long width_of_the_shape; long height_of_the_shape; };
static inline __attribute__((always_inline)) long area_of_shape(const struct measured_shape *shape) {
    volatile long sum = 0;
    for (long i = 0; i < shape->width_of_the_shape; i++)
        sum += shape->height_of_the_shape;
    return sum;
}
";
const SOURCE: &str = "#include \"shape.h\"
int main(int count, char **arguments) {
    struct measured_shape shape = {count, count};
    return (int)area_of_shape(&shape) - count + (arguments == 0);
}
";

/// Whether the command is there and succeeds.
fn done(program: &str, arguments: &[&str], folder: &Path) -> bool {
    Command::new(program).args(arguments).current_dir(folder).status().is_ok_and(|status| status.success())
}

/// Names of the functions that any code of `main` was inlined from.
fn inlined(program: &Path) -> Vec<String> {
    let object = Object::open(program).unwrap();
    let lines = Lines::of(&object).unwrap();
    let names = object.code_ranges().into_iter().flatten().flat_map(|vaddr| {
        let frames = lines.frames(vaddr);
        let inner = frames.len().saturating_sub(1);
        frames.into_iter().take(inner).filter_map(|frame| frame.function).collect::<Vec<_>>()
    });
    let mut names: Vec<String> = names.collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[test]
fn names_of_inlined_functions_are_found_in_the_file_that_dwz_made() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("shape.h"), HEADER).unwrap();
    for name in ["one.c", "two.c"] {
        std::fs::write(folder.path().join(name), SOURCE).unwrap();
    }
    let compiled = ["one", "two"].iter().all(|name| {
        let source = format!("{name}.c");
        done("gcc", &["-gdwarf-4", "-O1", "-Wl,--build-id", "-o", name, &source], folder.path())
    });
    let before = folder.path().join("two");
    if !compiled || !done("dwz", &["-m", "shared.debug", "one", "two"], folder.path()) {
        eprintln!("NOT RUN: gcc or dwz is not there");
        return;
    }
    assert!(Object::open(&before).unwrap().supplementary_object().is_some());
    assert_eq!(inlined(&folder.path().join("one")), ["area_of_shape"]);
    assert_eq!(inlined(&before), ["area_of_shape"]);
    // Another one's descriptions are none.
    std::fs::copy(folder.path().join("one"), folder.path().join("shared.debug")).unwrap();
    assert!(Object::open(&before).unwrap().supplementary_object().is_none());
}

use std::process::Command;

use transect_feature_region::{DoubtKind, SiteKind};

use crate::assembled::{Assembled, PROGRAMS, open, run};

fn compiled(level: &str, debug: &str) -> Assembled {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    let source = format!("{PROGRAMS}/exceptions.cpp");
    let include = format!("-Wa,-I{PROGRAMS}");
    run(Command::new("g++").args(["-shared", "-fPIC", level, debug, &include, &source, "-o"]).arg(&program));
    open(folder, &program)
}

#[test]
fn handlers_have_the_regions_that_the_site_restores() {
    for level in ["-O0", "-O2"] {
        let program = compiled(level, "-g0");
        assert_eq!(program.doubts(), [DoubtKind::UnknownAfterUnwinding], "{level}");
        assert_eq!(program.at("in_try"), Some(vec![1, 2]), "{level}");
        assert_eq!(program.at("handler"), Some(vec![1]), "{level}");
        assert_eq!(program.at("behind"), Some(vec![]), "{level}");
    }
}

#[test]
fn a_handler_that_was_inlined_keeps_the_regions_around_the_call() {
    for level in ["-O0", "-O2"] {
        let program = compiled(level, "-g0");
        assert_eq!(program.at("inlined_handler"), Some(vec![1]), "{level}");
        assert_eq!(program.at("after_inlined"), Some(vec![1]), "{level}");
        let inlined = program.table.sites.iter().filter(|site| site.kind == SiteKind::Restore && site.region.is_none());
        let after: Vec<_> = inlined.map(|site| program.map.after_restore(site.vaddr)).collect();
        assert_eq!(after.iter().flatten().collect::<Vec<_>>(), [&&[1][..]], "{level}");
    }
}

#[test]
fn where_nothing_onward_tells_the_debug_information_does() {
    for level in ["-O0", "-O2"] {
        assert_eq!(compiled(level, "-g0").at("handler_passing_on"), None, "{level}");
        let program = compiled(level, "-g");
        assert_eq!(program.doubts(), [], "{level}");
        assert_eq!(program.at("handler_passing_on"), Some(vec![1, 2]), "{level}");
        assert_eq!(program.at("last_handler"), Some(vec![1]), "{level}");
    }
}

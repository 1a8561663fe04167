use std::process::Command;

use transect_binary_info::Object;
use transect_feature_region::{RegionError, RegionTable, SiteKind, SiteMode};
use transect_profile_model::{Dependence, FeatureTables, RegionKind};

use crate::assembled::{assemble, link, run};

const ONE_SITE: &str = "function work
begin r1
begin r2, 1
end r2, 1
restore
end r1
ret
ends work";

#[test]
fn tables_are_read_as_the_plugin_writes_them() {
    let program = assemble(ONE_SITE);
    let unit = &program.table.units[0];
    assert_eq!((unit.build, unit.model, unit.sites), (0x0123_4567_89ab_cdef, 0xaa, SiteMode::Probe));
    assert_eq!(unit.features, ["A", "B", "C"]);
    assert_eq!(unit.variables[1].lost.as_deref(), Some("optimised away"));
    assert_eq!(unit.variables[0].lost, None);
    let regions = &program.table.regions;
    assert_eq!(regions.len(), 4);
    assert_eq!(
        (regions[1].features.as_slice(), regions[1].kind, regions[1].line),
        (&[0, 1][..], RegionKind::Switch, 20)
    );
    assert_eq!((regions[2].parent, regions[2].depth), (Some(1), 1));
    assert_eq!(regions[3].irregular.as_deref(), Some("goto into the region"));
    assert_eq!(program.table.features_at(1, Dependence::Stored), ["A"]);
    assert_eq!(program.table.features_at(1, Dependence::Content), ["A", "B"]);
    let start = program.address("work");
    let sites: Vec<_> = program.table.sites.iter().map(|s| (s.vaddr - start, s.region, s.kind, s.depth)).collect();
    assert_eq!(
        sites,
        [
            (0, Some(1), SiteKind::Begin, 0),
            (5, Some(2), SiteKind::Begin, 1),
            (10, Some(2), SiteKind::End, 1),
            (15, None, SiteKind::Restore, 0),
            (20, Some(1), SiteKind::End, 0),
        ]
    );
}

#[test]
fn rows_name_functions_as_people_write_them() {
    let program = assemble(ONE_SITE);
    let mut tables = FeatureTables::default();
    program.table.add_to(3, &mut tables);
    let numbers = program.table.add_to(4, &mut tables);
    assert_eq!(tables.features.iter().map(|f| f.name.as_str()).collect::<Vec<_>>(), ["A", "B", "C"]);
    let region = &tables.regions[numbers.region(2) as usize];
    assert_eq!((region.component, region.function.as_str(), region.parent), (4, "work()", Some(numbers.region(1))));
    assert_eq!((region.sites, region.end_line, tables.regions[5].sites), (2, 24, 2));
    assert_eq!(tables.variables[3].lost.as_deref(), Some("optimised away"));
}

#[test]
fn stripping_takes_nothing_away() {
    let (folder, program) = link(ONE_SITE, &["-s"]);
    let table = RegionTable::of(&Object::open(&program).unwrap()).unwrap();
    assert_eq!((table.regions.len(), table.sites.len()), (4, 5));
    drop(folder);
}

#[test]
fn several_units_lie_one_after_the_other() {
    let second = r#"record u1, "U\tversion=2\tbuild=11\tunit=b.c\tmodel=\timplicit=none\tsites=probe\tcompiler=llvm-19\tfeatures=B,D"
record s0, "R\tnumber=0\tfeatures=1\tdependences=0\tkind=branch\tfunction=g\tfile=b.c\tline=1\tcolumn=1\tend_line=2\tparent=-\tdepth=0\tirregular="
record s1, "R\tnumber=1\tfeatures=0\tdependences=0\tkind=branch\tfunction=g\tfile=b.c\tline=1\tcolumn=1\tend_line=2\tparent=0\tdepth=1\tirregular="
function g
begin s0
end s0
ret
ends g"#;
    let program = assemble(second);
    assert_eq!((program.table.units.len(), program.table.regions.len()), (2, 6));
    assert_eq!(program.table.regions[5].parent, Some(4), "numbers are the unit's own");
    assert_eq!(program.table.features_at(4, Dependence::Direct), ["D"]);
    let mut tables = FeatureTables::default();
    program.table.add_to(0, &mut tables);
    assert_eq!(tables.features.len(), 4);
    assert_eq!(tables.regions[5].features, [1], "the same feature by its name");
}

fn error_of(source: &str) -> String {
    let (_folder, program) = link(source, &[]);
    RegionTable::of(&Object::open(&program).unwrap()).unwrap_err().to_string()
}

#[test]
fn damage_is_told_with_its_place() {
    for (record, what) in [
        (r"Q\tnumber=1", "unknown record"),
        (r"R\tnumber=9", "without features"),
        (r"R\tnumber=9\tfeatures=7\tdependences=0\tkind=branch", "feature 7 of 3"),
        (r"R\tnumber=9\tfeatures=1\tdependences=4\tkind=branch", "unknown dependence 4"),
        (r"R\tnumber=9\tfeatures=0,1\tdependences=0\tkind=branch", "2 features with 1 dependences"),
        (r"V\tfeature=3\tvariable=x\tlost=", "feature 3 of 3"),
        (
            r"R\tnumber=9\tfeatures=0\tdependences=0\tkind=branch\tfunction=f\tfile=f\tline=1\tcolumn=1\tend_line=1\tparent=8\tdepth=1\tirregular=",
            "doesn't come before it",
        ),
        (
            r"R\tnumber=9\tfeatures=0\tdependences=0\tkind=knot\tfunction=f\tfile=f\tline=1\tcolumn=1\tend_line=1\tparent=-\tdepth=0\tirregular=",
            "unknown kind",
        ),
    ] {
        let error = error_of(&format!("record x, \"{record}\"\nnop"));
        assert!(error.contains(what) && error.contains("damaged at byte"), "{record}: {error}");
    }
    let error = error_of(r#"record x, "U\tversion=3\tbuild=1""#);
    assert!(error.contains("version 3, this transect reads 2"), "{error}");
    let error = error_of(".pushsection transect_sites, \"a\", @progbits\n.long 1, 2\n.popsection");
    assert!(error.contains("the last entry is cut"), "{error}");
    let error = error_of(".pushsection transect_sites, \"a\", @progbits\n.long 1, 2, 0\n.popsection");
    assert!(error.contains("it names no region"), "{error}");
    let error = error_of(".pushsection transect_regions, \"a\", @progbits\n.ascii \"V\\tfeature=0\"\n.popsection");
    assert!(error.contains("the last record is cut"), "{error}");
}

#[test]
fn what_was_not_built_by_the_wrapper_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("plain.c");
    std::fs::write(&source, "int main(void) { return 0; }").unwrap();
    let program = folder.path().join("plain");
    run(Command::new("gcc").arg(&source).arg("-o").arg(&program));
    let error = RegionTable::of(&Object::open(&program).unwrap()).unwrap_err();
    assert!(matches!(error, RegionError::NotMarked { .. }));
    assert!(error.to_string().contains("transect-cc"));
}

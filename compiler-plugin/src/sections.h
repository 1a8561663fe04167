// What a marked binary carries. Read by the crate `feature-region`; this text is the format's definition.
//
// transect_regions (allocated, so that strip keeps it): UTF-8 text, one record a line, fields separated by tabs; in a
// value \t, \n, \\ and ',' are escaped by a backslash. A linked object holds one or more units, one after the other
// without padding; a unit begins with its U record.
//
//   U  version=2  build=16 hex digits  unit=SOURCE or "whole program"  model=16 hex digits  implicit=none|constant|all
//      sites=probe|trace|shared|inlined|none|confirm  compiler=llvm-19  features=NAME,NAME,…
//   V  feature=NUMBER  variable=TEXT  lost=REASON (empty: found)
//   I  way=FILE:FUNCTION or TAG::FIELD  reason=TEXT  lost=REASON (empty: found)   what the model leaves out
//   R  number=N  features=NUMBER,…  dependences=0|1|2|3,…  kind=branch|switch|loop|call  function=LINKAGE NAME  file=PATH
//      line=N  column=N  end_line=N  parent=N or -  depth=N  irregular=REASON (empty: it has sites)
//
// Numbers of features are places in the unit's own `features`; dependences are theirs, in the same order (dependence.h; without: direct); a
// region is known by its object and the order of all R records in the section.
//
// transect_sites (allocated, read-only, no relocation of the loader needed): 12 bytes for each copy of each site
//
//   i32 address   site's address - this field's address; the no-op of five bytes, or the call, begins there
//   i32 region    address of the region's R record - this field's address; for kind 2 outside of regions: 0
//   u8  kind      0 begin, 1 end, 2 restore (event_abi::region_arena::EVENT_*)
//   u8  zero
//   u16 depth     regions of this function that stay open: around the region for begin and end; inside of which the
//                 site lies for restore
//
// transect_decisions (allocated; with sites=confirm): text as in transect_regions, the decisions that the program counts as
// it runs (confirm/runtime.c), in the order of their numbers
//
//   C  version=1  identity=16 hex digits  decisions=N  labels=NUMBER,…: the feature of each label, eight of them a run
//      library=what the program calls that carries no labels (empty, or c++)
//   D  region=N  features=NUMBER,…  data=NUMBER,…: those of them that data flow alone leads there
//
// .note.stapsdt: provider `transect`, one pair of names per region: begin_N, end_N (restore: restore), N its number.
#pragma once

namespace transect {
inline constexpr const char *kRegionsSection = "transect_regions";
inline constexpr const char *kSitesSection = "transect_sites";
inline constexpr const char *kDecisionsSection = "transect_decisions";
/// What the runtime of confirming builds reads.
inline constexpr const char *kConfirmedProgram = "transect_confirm_program";
inline constexpr unsigned kSectionsVersion = 2;
inline constexpr unsigned kSiteSize = 12;
}  // namespace transect

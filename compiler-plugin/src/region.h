// Regions: what the analysis finds and what the emission of sites marks. The data passes one way:
//   FeatureModel -> findRegions (taint, decisions, regions) -> RegionSet -> emitSites (sites and section) -> object
//   file
#pragma once

#include "dependence.h"
#include "model.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/IR/BasicBlock.h"
#include "llvm/IR/DebugLoc.h"
#include "llvm/IR/Function.h"
#include "llvm/IR/Module.h"

#include <string>
#include <vector>

namespace transect {

/// A place between two instructions: on the edge `from` -> `to` (its `successor`-th); if `to` is null, just before
/// `from`'s terminator, for a restore in a landing pad's block at its start. Where several sites share a place, ends
/// come first (inner before outer), then begins (outer before inner).
struct Place {
  llvm::BasicBlock *from = nullptr;
  llvm::BasicBlock *to = nullptr;
  unsigned successor = 0;
};

enum class RegionKind { Branch, Switch, Loop, Call };

/// One part of what a region begins with: a conditional terminator or an indirect call.
struct Decider {
  llvm::Instruction *instruction;
  FeatureUses features;
};

/// A tainted decision and the code up to its immediate post-dominator.
struct Region {
  unsigned number = 0;             ///< In the module; regions of a function are in the order of their nesting.
  FeatureUses features;            ///< Of the decision, never empty.
  RegionKind kind = RegionKind::Branch;
  std::vector<Decider> deciders;  ///< Of `A && B` two; those that features reach.
  llvm::Function *function = nullptr;
  llvm::DebugLoc where;             ///< Of the decision.
  unsigned endLine = 0;             ///< Last line of the region, 0 if unknown.
  int parent = -1;                  ///< Enclosing region of the same function; an index into RegionSet::regions.
  unsigned depth = 0;               ///< Regions of this function around it.
  std::vector<Place> begins, ends;  ///< Every way in and every way out.
  std::vector<Place> restores;      ///< Where control comes back out of callees by unwinding, inside of this region.
  std::vector<llvm::BasicBlock *>
      blocks;             ///< Code of the region, for the mode that describes regions in debug information.
  std::string irregular;  ///< Why it can't be marked; empty if it can.
};

/// What became of a place of the model.
struct VariableOutcome {
  unsigned feature;
  std::string variable;  ///< As the model names it.
  std::string lost;      ///< Why it was not found; empty if it was.
};

/// What became of a way of data that the model leaves out.
struct IgnoredOutcome {
  std::string way, reason;  ///< As the model has them.
  std::string lost;         ///< Why it was not found; empty if it was.
};

struct RegionSet {
  std::vector<std::string> features;
  std::string modelHash;
  std::string implicit;  ///< none, constant or all.
  std::vector<Region> regions;
  std::vector<VariableOutcome> variables;
  std::vector<IgnoredOutcome> ignored;
  std::vector<std::string> errors;  ///< The model can't mean this program, e.g. it names two variables: stop the build.
  /// Where control comes back by unwinding in functions without regions (landing pads that catch, second returns of
  /// setjmp): an absolute depth of 0 is restored there.
  std::vector<Place> restores;
  std::vector<llvm::Instruction *> decisions;  ///< All of the program, by number.
};

enum class ImplicitFlow { None, Constant, All };

/// Finds feature variables, taint and regions in a module as the front end made it (before optimisation).
RegionSet findRegions(llvm::Module &module, const FeatureModel &model, ImplicitFlow implicit);

/// How sites are built, by TRANSECT_SITES.
enum class SiteMode {
  Probe,    ///< `probe`: a no-op of five bytes, switched on in the running program (default).
  Trace,    ///< `trace`: a call of the runtime that writes an event.
  Shared,   ///< `shared`: as `trace`, through four shared points for tools with a limit of probes.
  Inlined,  ///< `inlined`: no instruction; regions are inlined subroutines `FR(A,B)` in the debug information.
  None,     ///< `none`: the same build without sites, to tell what they cost.
  Confirm,  ///< `confirm`: no sites; the program notes which features' labels reach its decisions (confirmation.h).
};

/// Marks the regions and writes the sections `transect_regions` and `transect_sites` (sections.h).
void emitSites(llvm::Module &module, const RegionSet &regions, SiteMode mode);

}  // namespace transect

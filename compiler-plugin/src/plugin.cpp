// The three ways in: the linker's whole program, one source file in the compiler, and `opt -passes=transect-regions`
// (with `transect-names` for each file before `llvm-link`, and `transect-labels` behind it for TRANSECT_SITES=confirm).
#include "carry_labels.h"
#include "confirmation.h"
#include "embed_bitcode.h"
#include "lost_variables.h"
#include "region_precision.h"
#include "region.h"
#include "structure_names.h"

#include "llvm/Passes/PassBuilder.h"
#include "llvm/Passes/PassPlugin.h"

#include <cstdlib>

using namespace llvm;

namespace {

/// What the environment asks for; names of values are the user's.
struct Options {
  std::string model;
  transect::ImplicitFlow implicit = transect::ImplicitFlow::Constant;
  transect::SiteMode mode = transect::SiteMode::Probe;
  std::string error;
};

StringRef setting(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

Options readOptions() {
  Options options;
  options.model = setting("TRANSECT_FEATURE_MODEL").str();
  StringRef implicit = setting("TRANSECT_IMPLICIT");
  if (implicit == "none")
    options.implicit = transect::ImplicitFlow::None;
  else if (implicit == "all")
    options.implicit = transect::ImplicitFlow::All;
  else if (!implicit.empty() && implicit != "constant")
    options.error = ("TRANSECT_IMPLICIT is '" + implicit + "': choose none, constant or all").str();
  StringRef sites = setting("TRANSECT_SITES");
  if (sites == "trace")
    options.mode = transect::SiteMode::Trace;
  else if (sites == "shared")
    options.mode = transect::SiteMode::Shared;
  else if (sites == "inlined")
    options.mode = transect::SiteMode::Inlined;
  else if (sites == "none")
    options.mode = transect::SiteMode::None;
  else if (sites == "confirm")
    options.mode = transect::SiteMode::Confirm;
  else if (!sites.empty() && sites != "probe")
    options.error = ("TRANSECT_SITES is '" + sites + "': choose probe, trace, shared, inlined, none or confirm").str();
  return options;
}

/// Finds and marks the regions of a module that no optimisation has touched.
struct RegionsPass : PassInfoMixin<RegionsPass> {
  PreservedAnalyses run(Module &module, ModuleAnalysisManager &) {
    Options options = readOptions();
    transect::FeatureModel model;
    if (options.error.empty() && !options.model.empty()) {
      if (auto read = transect::readFeatureModel(options.model, options.error))
        model = std::move(*read);
    }
    if (!options.error.empty()) {
      module.getContext().emitError("transect: " + options.error);
      return PreservedAnalyses::all();
    }
    transect::restoreStructures(module);
    const bool confirms = options.mode == transect::SiteMode::Confirm;
    transect::RegionSet regions = transect::findRegions(module, model, options.implicit);
    for (const std::string &problem : regions.errors)
      module.getContext().emitError("transect: " + problem);
    if (!regions.errors.empty())
      return PreservedAnalyses::all();
    // A report of regions names them, too.
    if (setting("TRANSECT_FEATURE_REPORT").empty() || regions.regions.empty())
      transect::warnOfLostVariables(module, regions, errs());
    transect::warnOfBroadRegions(regions, errs());
    // A program that the model says nothing of, like configure's trial programs, is not changed.
    if (regions.regions.empty() && none_of(regions.variables, [](auto &variable) { return variable.lost.empty(); }))
      return PreservedAnalyses::all();
    transect::emitSites(module, regions, options.mode);
    if (confirms && !regions.regions.empty()) {
      transect::RegionSet known;
      const transect::FeatureVariables variables = transect::findVariables(module, model, known);
      const bool all = setting("TRANSECT_FEATURE_REPORT") == "decisions";
      transect::confirmDecisions(module, regions, all ? transect::allDecisions(regions) : transect::regionDecisions(regions), variables);
    }
    return PreservedAnalyses::none();
  }

  static bool isRequired() { return true; }
};

void registerPasses(PassBuilder &builder) {
  builder.registerPipelineParsingCallback(
      [](StringRef name, ModulePassManager &passes, ArrayRef<PassBuilder::PipelineElement>) {
        if (name == "transect-regions")
          passes.addPass(RegionsPass());
        else if (name == "transect-labels")
          passes.addPass(transect::CarryLabelsPass());
        else if (name == "transect-names")
          passes.addPass(transect::NameStructuresPass());
        else
          return false;
        return true;
      });
  // The wrapper's compiler runs keep the code as the front end made it for the link, where the whole program is seen.
  builder.registerPipelineStartEPCallback([](ModulePassManager &passes, OptimizationLevel) {
    StringRef stage = setting("TRANSECT_COMPILE_STAGE");
    if (stage == "embed") {
      passes.addPass(transect::NameStructuresPass());
      passes.addPass(transect::EmbedBitcodePass());
    } else if (stage != "link")
      passes.addPass(RegionsPass());
  });
  // What the objects carry is not optimised yet: after the regions comes what compilers do before the link.
  builder.registerFullLinkTimeOptimizationEarlyEPCallback([](ModulePassManager &passes, OptimizationLevel level) {
    passes.addPass(RegionsPass());
    passes.addPass(transect::CarryLabelsPass());
    // A builder of its own: this one's callbacks would mark regions again.
    PassBuilder before;
    passes.addPass(level == OptimizationLevel::O0 ? before.buildO0DefaultPipeline(level, /*LTOPreLink=*/true)
                                                  : before.buildLTOPreLinkDefaultPipeline(level));
  });
}

}  // namespace

extern "C" __attribute__((visibility("default"))) PassPluginLibraryInfo llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "transect-features", "1", registerPasses};
}

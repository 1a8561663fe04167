#include "carry_labels.h"

#include "sections.h"

#include "llvm/IR/Instructions.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/SpecialCaseList.h"
#include "llvm/Support/VirtualFileSystem.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Transforms/Instrumentation/DataFlowSanitizer.h"
#include "llvm/Transforms/Scalar/SROA.h"

#include <cstdlib>

using namespace llvm;
using namespace transect;

namespace {

/// The sanitizer's own versions of these read their arguments wrongly where widths are arguments, too: `%*.*s`.
bool isMisread(StringRef name) { return name == "snprintf" || name == "sprintf"; }

bool isRuntime(StringRef name) { return name.starts_with("transect_confirm_"); }

/// Functions from outside as the sanitizer's lists have them: they carry no labels, beyond what it knows of libc's.
std::string outsideFunctions(const Module &module, const SpecialCaseList &known) {
  std::string text;
  auto is = [&](const Function &function, StringRef category) {
    return known.inSection("dataflow", "fun", function.getName(), category);
  };
  for (const Function &function : module) {
    if (!function.isDeclaration() || function.isIntrinsic())
      continue;
    const std::string entry = "fun:" + function.getName().str() + "=";
    text += entry + "uninstrumented\n";
    if (isRuntime(function.getName()))
      text += entry + "custom\n";
    else if (isMisread(function.getName()) ||
             (!is(function, "custom") && !is(function, "functional") && !is(function, "discard")))
      text += entry + "discard\n";
  }
  return text;
}

/// Functions that others may call by name keep it.
void keepNames(Module &module, ArrayRef<std::string> names) {
  for (const std::string &name : names) {
    Function *function = module.getFunction(name + ".dfsan");
    if (function && !module.getNamedValue(name))
      GlobalAlias::create(function->getValueType(), function->getAddressSpace(), function->getLinkage(), name, function,
                          &module)
          ->setVisibility(function->getVisibility());
  }
}

}  // namespace

std::string transect::libraryWithoutLabels(const Module &module) {
  for (const Function &function : module) {
    StringRef name = function.getName();
    // What ends the program or makes threads hands nothing on; streams are written to, mostly.
    if (!function.isDeclaration() || function.doesNotReturn() || name.starts_with("_ZNSt6thread") ||
        name.starts_with("_ZNSo") || name.starts_with("_ZNSt8ios_base") || name.starts_with("_ZSt4endl"))
      continue;
    if (name.starts_with("_ZNSt") || name.starts_with("_ZNKSt") || name.starts_with("_ZSt") ||
        name.starts_with("_ZNSs"))
      return "c++";
  }
  return "";
}

PreservedAnalyses CarryLabelsPass::run(Module &module, ModuleAnalysisManager &analyses) {
  if (!module.getGlobalVariable(kConfirmedProgram))
    return PreservedAnalyses::all();
  auto fail = [&](const Twine &why) {
    module.getContext().emitError("transect: " + why);
    return PreservedAnalyses::all();
  };
  // Copies of what a library has, for inlining: under the names of instrumented functions the library has nothing.
  for (Function &function : module)
    if (function.hasAvailableExternallyLinkage())
      function.setLinkage(GlobalValue::LinkOnceODRLinkage);
  const char *own = std::getenv("TRANSECT_CONFIRM_FUNCTIONS");
  if (!own || !*own)
    return fail("TRANSECT_CONFIRM_FUNCTIONS names no list of functions: build with transect-cc");
  std::string error;
  std::unique_ptr<SpecialCaseList> known = SpecialCaseList::create({own}, *vfs::getRealFileSystem(), error);
  if (!known)
    return fail(error);
  SmallString<128> path;
  int descriptor = -1;
  if (std::error_code problem = sys::fs::createTemporaryFile("transect-functions", "txt", descriptor, path))
    return fail("no temporary file: " + problem.message());
  {
    raw_fd_ostream file(descriptor, /*shouldClose=*/true);
    file << outsideFunctions(module, *known);
  }
  std::vector<std::string> names;
  for (const Function &function : module)
    if (!function.isDeclaration() && !function.hasLocalLinkage())
      names.push_back(function.getName().str());
  // Variables become values, no more: what the optimiser knows of a value under a branch has no labels.
  ModulePassManager before;
  before.addPass(createModuleToFunctionPassAdaptor(SROAPass(SROAOptions::PreserveCFG)));
  before.run(module, analyses);
  DataFlowSanitizerPass({own, path.str().str()}).run(module, analyses);
  sys::fs::remove(path);
  keepNames(module, names);
  return PreservedAnalyses::none();
}

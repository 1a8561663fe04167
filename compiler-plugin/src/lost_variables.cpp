#include "lost_variables.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/Support/Path.h"

using namespace llvm;

namespace transect {

namespace {

/// Lines after which the rest is only counted.
constexpr unsigned kLines = 8;

StringSet<> sourceFiles(const Module &module) {
  StringSet<> files;
  for (const DICompileUnit *unit : module.debug_compile_units())
    files.insert(sys::path::filename(unit->getFilename()));
  for (const Function &function : module)
    if (const DISubprogram *program = function.getSubprogram())
      files.insert(sys::path::filename(program->getFilename()));
  return files;
}

}  // namespace

void warnOfLostVariables(const Module &module, const RegionSet &set, raw_ostream &out) {
  const StringSet<> files = sourceFiles(module);
  bool isItsProgram = any_of(set.variables, [](const VariableOutcome &variable) { return variable.lost.empty(); });
  SmallVector<const VariableOutcome *> lost;
  for (const VariableOutcome &variable : set.variables) {
    StringRef file = StringRef(variable.variable).split(':').first;
    const bool isMember = !file.contains('.');
    const bool hasFile = files.contains(sys::path::filename(file));
    isItsProgram |= hasFile;
    if (!variable.lost.empty() && (isMember || hasFile))
      lost.push_back(&variable);
  }
  if (!isItsProgram)
    return;
  for (const VariableOutcome *variable : ArrayRef(lost).take_front(kLines))
    out << "transect: warning: feature " << set.features[variable->feature] << ": variable " << variable->variable
        << " was not found: " << variable->lost << "\n";
  if (lost.size() > kLines)
    out << "transect: warning: " << lost.size() - kLines
        << " more variables of the model were not found (TRANSECT_FEATURE_REPORT=1 names them)\n";
}

}  // namespace transect

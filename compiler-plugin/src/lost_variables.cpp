#include "lost_variables.h"

#include "program_variables.h"

#include "llvm/ADT/STLExtras.h"
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

/// A program that a build only tries its compiler with, as configure, CMake and Meson do: a warning would change the answer.
bool isTrial(const Module &module) {
  return all_of(module.debug_compile_units(), [](const DICompileUnit *unit) {
    StringRef name = sys::path::filename(unit->getFilename());
    const std::string path = (unit->getDirectory() + "/" + unit->getFilename()).str();
    return name.starts_with("conftest") || StringRef(path).contains("CMakeTmp") ||
           StringRef(path).contains("CMakeScratch") || StringRef(path).contains("CMakeFiles/CMake") ||
           StringRef(path).contains("meson-private") || unit->getFilename() == "-" || name == "<stdin>";
  });
}

}  // namespace

void warnOfLostVariables(const Module &module, const RegionSet &set, raw_ostream &out) {
  const StringSet<> files = sourceFiles(module);
  bool isItsProgram = any_of(set.variables, [](const VariableOutcome &variable) { return variable.lost.empty(); });
  SmallVector<const VariableOutcome *> lost;
  for (const VariableOutcome &variable : set.variables) {
    StringRef file = StringRef(variable.variable).split(':').first;
    const bool isMember = !file.contains('.') || (isHeader(file) && StringRef(variable.variable).contains("::"));
    const bool hasFile = files.contains(sys::path::filename(file));
    isItsProgram |= hasFile;
    if (!variable.lost.empty() && (isMember || hasFile))
      lost.push_back(&variable);
  }
  if (!isItsProgram && isTrial(module))
    return;
  for (const VariableOutcome *variable : ArrayRef(lost).take_front(kLines))
    out << "transect: warning: feature " << set.features[variable->feature] << ": variable " << variable->variable
        << " was not found: " << variable->lost << "\n";
  for (const IgnoredOutcome &ignored : set.ignored)
    if (!ignored.lost.empty())
      out << "transect: warning: ignore = \"" << ignored.way << "\" has no effect: " << ignored.lost << "\n";
  if (lost.size() > kLines)
    out << "transect: warning: " << lost.size() - kLines
        << " more variables of the model were not found (TRANSECT_FEATURE_REPORT=1 names them)\n";
}

}  // namespace transect

#include "region_table.h"
#include "sections.h"

#include "llvm/Config/llvm-config.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/xxhash.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"

#include <cstdio>

using namespace llvm;

namespace transect {

namespace {

std::string escaped(StringRef value) {
  std::string text;
  for (char c : value) {
    if (c == '\t')
      text += "\\t";
    else if (c == '\n')
      text += "\\n";
    else if (c == '\\' || c == ',')
      (text += '\\') += c;
    else
      text += c;
  }
  return text;
}

/// One record; fields follow its letter.
class Record {
public:
  explicit Record(char letter) : text(1, letter) {}
  Record &field(const char *name, StringRef value) { return raw(name, escaped(value)); }
  Record &field(const char *name, uint64_t value) { return raw(name, std::to_string(value)); }
  Record &raw(const char *name, const std::string &value) {
    ((text += '\t') += name) += '=';
    text += value;
    return *this;
  }
  std::string end() const { return text + '\n'; }

private:
  std::string text;
};

/// A number that differs with the program's code.
uint64_t codeHash(const Module &module) {
  uint64_t hash = 0xcbf29ce484222325;
  auto mix = [&](uint64_t value) { hash = (hash ^ value) * 0x100000001b3; };
  for (const Function &function : module) {
    mix(xxHash64(function.getName()));
    for (const BasicBlock &block : function)
      for (const Instruction &instruction : block)
        mix(instruction.getOpcode() << 8 | instruction.getNumOperands());
  }
  return hash;
}

const char *kindName(RegionKind kind) {
  switch (kind) {
  case RegionKind::Branch:
    return "branch";
  case RegionKind::Switch:
    return "switch";
  case RegionKind::Loop:
    return "loop";
  case RegionKind::Call:
    return "call";
  }
  return "";
}

const char *modeName(SiteMode mode) {
  switch (mode) {
  case SiteMode::Probe:
    return "probe";
  case SiteMode::Trace:
    return "trace";
  case SiteMode::Shared:
    return "shared";
  case SiteMode::Inlined:
    return "inlined";
  case SiteMode::None:
    return "none";
  case SiteMode::Confirm:
    return "confirm";
  }
  return "";
}

/// The source file, or "whole program" for a module that was linked of several.
std::string unitName(const Module &module) {
  auto *units = module.getNamedMetadata("llvm.dbg.cu");
  if (units && units->getNumOperands() == 1)
    return cast<DICompileUnit>(units->getOperand(0))->getFilename().str();
  StringRef source = module.getSourceFileName();
  return units || source == "ld-temp.o" || source == "llvm-link" ? "whole program" : source.str();
}

std::string regionRecord(const RegionSet &set, const Region &region, unsigned depth) {
  std::string features, dependences;
  for (FeatureUse use : region.features) {
    features += (features.empty() ? "" : ",") + std::to_string(use.feature);
    dependences += (dependences.empty() ? "" : ",") + std::to_string(static_cast<unsigned>(use.dependence));
  }
  std::string file, directory;
  unsigned line = 0, column = 0;
  if (region.where) {
    auto *scope = cast<DIScope>(region.where.getScope());
    file = scope->getFilename().str();
    directory = scope->getDirectory().str();
    line = region.where.getLine();
    column = region.where.getCol();
  } else if (DISubprogram *program = region.function->getSubprogram()) {
    file = program->getFilename().str();
    directory = program->getDirectory().str();
    line = program->getLine();
  } else {
    file = region.function->getParent()->getSourceFileName();
  }
  Record record('R');
  record.field("number", region.number).raw("features", features).raw("dependences", dependences);
  record.field("kind", kindName(region.kind));
  record.field("function", region.function->getName()).field("file", file);
  if (!directory.empty() && !sys::path::is_absolute(file))
    record.field("directory", directory);
  record.field("line", line).field("column", column).field("end_line", region.endLine);
  record.raw("parent", region.parent < 0 ? "-" : std::to_string(set.regions[region.parent].number));
  return record.field("depth", depth).field("irregular", region.irregular).end();
}

}  // namespace

std::vector<Constant *> writeRegionTable(Module &module, const RegionSet &set, const std::vector<unsigned> &depths,
                                         SiteMode mode) {
  std::string features;
  for (const std::string &name : set.features)
    features += (features.empty() ? "" : ",") + escaped(name);
  std::string body;
  for (const VariableOutcome &variable : set.variables)
    body += Record('V')
                .field("feature", variable.feature)
                .field("variable", variable.variable)
                .field("lost", variable.lost)
                .end();
  for (const IgnoredOutcome &ignored : set.ignored)
    body += Record('I').field("way", ignored.way).field("reason", ignored.reason).field("lost", ignored.lost).end();
  std::vector<uint64_t> places;
  for (size_t i = 0; i < set.regions.size(); ++i) {
    places.push_back(body.size());
    body += regionRecord(set, set.regions[i], depths[i]);
  }
  Record head('U');
  const std::string implicit = set.implicit.empty() ? "constant" : set.implicit;
  const std::string model = set.modelHash.empty() ? std::string(16, '0') : set.modelHash;
  // The same sources and options make the same hash.
  char build[17];
  const std::string identity = body + features + model + implicit + modeName(mode);
  std::snprintf(build, sizeof build, "%016llx",
                static_cast<unsigned long long>(xxHash64(identity) ^ codeHash(module) * 0x9e3779b97f4a7c15));
  head.field("version", kSectionsVersion).field("build", build).field("unit", unitName(module)).field("model", model);
  head.field("implicit", implicit).field("sites", modeName(mode));
  head.field("compiler", "llvm-" + std::to_string(LLVM_VERSION_MAJOR)).raw("features", features);
  const std::string start = head.end();

  LLVMContext &context = module.getContext();
  Constant *text = ConstantDataArray::getString(context, start + body, /*AddNull=*/false);
  auto *table =
      new GlobalVariable(module, text->getType(), true, GlobalValue::InternalLinkage, text, "transect_region_table");
  table->setSection(kRegionsSection);
  table->setAlignment(Align(1));
  // Kept by the optimiser, the linker's garbage collection (SHF_GNU_RETAIN) and strip.
  appendToUsed(module, {table});
  std::vector<Constant *> records;
  for (uint64_t place : places)
    records.push_back(ConstantExpr::getInBoundsGetElementPtr(
        Type::getInt8Ty(context), table,
        ArrayRef<Constant *>(ConstantInt::get(Type::getInt64Ty(context), start.size() + place))));
  return records;
}

}  // namespace transect

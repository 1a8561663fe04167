#include "cuts.h"

#include "field_path.h"
#include "program_variables.h"
#include "structure_match.h"

#include "llvm/ADT/SmallBitVector.h"
#include "llvm/Demangle/Demangle.h"
#include "llvm/IR/Instructions.h"
#include "llvm/Support/Path.h"

#include <algorithm>

using namespace llvm;

namespace transect {

namespace {

constexpr unsigned kPlaces = 10, kSteps = 8;
/// A place with a smaller share of the pairs is not worth a cut.
constexpr double kLeastShare = 0.01;

/// The function of the source that an instruction is of, also where it is part of its caller in the copy; null if that is the
/// program's main function or an installed library's.
const DISubprogram *functionOf(const Instruction &instruction) {
  for (const DILocation *place = instruction.getDebugLoc().get(); place; place = place->getInlinedAt())
    if (const DISubprogram *function = place->getScope()->getSubprogram();
        function && !function->getFilename().starts_with("/usr/"))
      return function->getName() == "main" ? nullptr : function;
  return nullptr;
}

}  // namespace

void Cuts::add(const Instruction &decision, const Value *condition, unsigned feature) {
  Way way{&decision, condition, feature, {}};
  explanation.follow(decision, condition, feature, [&](const WayStep &step) {
    const bool spreads = step.place.kind == TaintPlace::Kind::Cell || step.place.kind == TaintPlace::Kind::Result;
    if (!spreads || !step.setAt || step.dependence == Dependence::Direct)
      return;
    way.places.push_back(places.insert({step.setAt, places.size()}).first->second);
  });
  llvm::sort(way.places);
  way.places.erase(std::unique(way.places.begin(), way.places.end()), way.places.end());
  ways.push_back(std::move(way));
}

void Cuts::print(const std::vector<std::string> &features, raw_ostream &out) const {
  out << "transect: " << ways.size() << " pairs of decision and feature; places that most of their ways lead through:\n";
  std::vector<bool> isCut(ways.size());
  for (unsigned shown = 0; shown < kPlaces; ++shown) {
    std::vector<size_t> counts(places.size());
    for (size_t i = 0; i < ways.size(); ++i)
      if (!isCut[i])
        for (unsigned place : ways[i].places)
          ++counts[place];
    const auto most = std::max_element(counts.begin(), counts.end());
    if (most == counts.end() || *most < 2 || *most < kLeastShare * ways.size())
      return;
    const unsigned chosen = most - counts.begin();
    const Way *example = nullptr;
    SmallBitVector carried(features.size());
    for (size_t i = 0; i < ways.size(); ++i)
      if (!isCut[i] && is_contained(ways[i].places, chosen)) {
        isCut[i] = true;
        carried.set(ways[i].feature);
        if (!example)
          example = &ways[i];
      }
    out << "transect: cut " << shown + 1 << ": " << *most << (shown == 0 ? " pairs" : " further pairs") << " of "
        << carried.count() << (carried.count() == 1 ? " feature" : " features");
    printPlace(places.begin()[chosen].first, *example, features, out);
  }
}

void Cuts::printPlace(const Instruction *place, const Way &example, const std::vector<std::string> &features,
                      raw_ostream &out) const {
  out << ", at " << placeInSource(*place);
  if (const std::string cut = entry(*place); !cut.empty())
    out << "; ignore = [" << cut << "] cuts it";
  out << "\ntransect:   as " << features[example.feature] << " on its way to " << placeInSource(*example.decision) << "\n";
  std::vector<WayStep> before;
  bool isPast = false;
  explanation.follow(*example.decision, example.condition, example.feature, [&](const WayStep &step) {
    isPast |= step.setAt == place;
    if (isPast)
      before.push_back(step);
  });
  // From the place back to the variable; of a long way its middle is left out.
  for (size_t i = 0; i < before.size(); ++i)
    if (i < kSteps || i + 1 == before.size())
      out << "transect:     " << explanation.described(before[i]) << "\n";
    else if (i == kSteps)
      out << "transect:     ... " << before.size() - kSteps - 1 << " more steps\n";
}

/// What the model says to cut what an instruction writes: the field, or else all that the function gives on.
std::string Cuts::entry(const Instruction &place) const {
  std::string entries;
  const auto append = [&](const std::string &entry) { entries += (entries.empty() ? "\"" : " or \"") + entry + "\""; };
  if (const auto *store = dyn_cast<StoreInst>(&place)) {
    const DataLayout &layout = module.getDataLayout();
    const auto fields = fieldsAt(store->getPointerOperand(), layout);
    if (!fields.empty())
      for (const ProgramVariable &variable : programVariables(module))
        if (variable.kind == ProgramVariable::Kind::Member && variable.bitOffset / 8 == fields.front().offset &&
            !variable.tags.empty() && isStructureOf(*fields.front().type, variable, layout)) {
          append(variable.tags.front() + "::" + variable.name);
          break;
        }
  }
  if (const DISubprogram *function = functionOf(place))
    append((sys::path::filename(function->getFilename()) + ":" + function->getName()).str());
  return entries;
}

}  // namespace transect

// Why a decision carries a feature: the way of a label from the feature's variable, step by step.
#pragma once

#include "analysis_copy.h"
#include "labels.h"
#include "points_to.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <optional>
#include <string>
#include <vector>

namespace transect {

/// Where labels are kept by the taint analysis.
struct TaintPlace {
  enum class Kind : unsigned { Value, Cell, Parameter, Result } kind;
  const void *what;  ///< Value, parameter or function; of a cell its number.

  static TaintPlace value(const llvm::Value *value) { return {Kind::Value, value}; }
  static TaintPlace cell(unsigned number) {
    return {Kind::Cell, reinterpret_cast<const void *>(static_cast<uintptr_t>(number) + 1)};
  }
  /// What the calls of a function together give to its parameter.
  static TaintPlace parameter(const llvm::Argument *argument) { return {Kind::Parameter, argument}; }
  static TaintPlace result(const llvm::Function *function) { return {Kind::Result, function}; }
};

/// A step back on the way of a label: how it came to a place.
struct WayStep {
  TaintPlace place;
  Dependence dependence;           ///< How what is there depends on the feature.
  const llvm::Instruction *setAt;  ///< What brought it there; null if unknown.
  bool isVariable;                 ///< The feature's own: the way begins here.
  bool isChosen;                   ///< A constant that the feature chose.
};

/// Of each label at each place (but for its hops), the step by which it came there first. Steps lead to places that had it before, so a
/// way back ends at a variable of the feature.
class Explanation {
public:
  Explanation(const LabelSets &sets, const PointsTo &pointsTo) : sets(sets), pointsTo(pointsTo) {}

  /// A step starts: what `take` names until the next one may be where labels come from.
  void begin(const llvm::Instruction *instruction) {
    step = instruction;
    taken.clear();
  }
  void take(TaintPlace place, LabelSets::Id set) {
    if (set != 0)
      taken.push_back({place, set, isChosen});
  }
  /// What is taken from here on chooses among constants.
  void chosen(bool on) { isChosen = on; }
  void arrive(TaintPlace place, LabelSets::Id set);

  /// Follows the strongest way of `feature` back from the condition of a decision to the feature's variable.
  void follow(const llvm::Instruction &decision, const llvm::Value *condition, unsigned feature,
              llvm::function_ref<void(const WayStep &)> visit) const;
  /// The same way, one line a step.
  void print(const llvm::Instruction &decision, const llvm::Value *condition, unsigned feature, const std::string &name,
             llvm::raw_ostream &out) const;
  /// One step of it in words.
  std::string described(const WayStep &step) const;

private:
  struct Taken {
    TaintPlace place;
    LabelSets::Id set;
    bool isChosen = false;
  };
  struct Cause {
    TaintPlace from;
    uint32_t label;
    const llvm::Instruction *step;
    bool isSeed, isChosen;
  };
  using Key = std::pair<const void *, uint64_t>;

  static Key keyOf(TaintPlace place, uint32_t label) {
    return {place.what, static_cast<uint64_t>(place.kind) << 32 | label};
  }
  /// The label of `source` of the strongest dependence at a place; none: it never came there.
  std::optional<uint32_t> strongest(TaintPlace place, uint32_t source) const;
  std::string described(TaintPlace place) const;

  const LabelSets &sets;
  const PointsTo &pointsTo;
  const llvm::Instruction *step = nullptr;
  bool isChosen = false;
  std::vector<Taken> taken;
  llvm::DenseMap<Key, Cause> causes;
};

/// `file:line` of an instruction, and the functions that it was inlined out of.
std::string placeInSource(const llvm::Instruction &instruction);

}  // namespace transect

// Sets of labels that values carry in the taint analysis: features, and parameters of the function at hand (which stand
// for whatever the arguments of a call site carry).
#pragma once

#include "dependence.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

namespace transect {

/// A feature or a parameter, with the number of implicit hops (constants stored under a tainted branch) on its way and
/// how what carries it depends on it. Of a chosen constant that is one bit of a word, also which one. Bits: 0-17 number, 18-23 bit
/// of the word and one, 24-25 dependence, 26-27 hops, 28-29 what becomes of data, 30 mixed, 31 parameter.
struct Label {
  /// Of those bits of a word that are told apart.
  static constexpr unsigned kWordBits = 62;

  uint32_t bits;

  static Label feature(unsigned number) { return {number}; }
  static Label parameter(unsigned number) { return {1u << 31 | number}; }
  /// What carries it holds data: numbers that no option tells.
  static Label data() { return {0x3ffff}; }
  bool isData() const { return !isParameter() && number() == 0x3ffff; }
  bool isParameter() const { return bits >> 31; }
  unsigned hops() const { return bits >> 26 & 3; }
  /// Of a parameter: what is carried is how the parameter compares, so whether that holds data counts.
  bool isCompared() const { return bits >> 29 & 1; }
  Label compared(bool besideData) const { return {(bits & ~(3u << 28)) | (besideData ? 3u : 2u) << 28}; }
  /// And there it was one value among data.
  bool isBesideData() const { return (bits >> 28 & 3) == 3; }
  /// Of a parameter: whether it holds data makes no difference any more.
  bool isWithoutData() const { return bits >> 28 & 3; }
  Label withoutData() const { return {isParameter() && !isWithoutData() ? bits | 1u << 28 : bits}; }
  /// It went into arithmetic with data: if it was a chosen constant, the result is none; if it does so again, it is data.
  bool isMixed() const { return bits >> 30 & 1; }
  Dependence dependence() const { return static_cast<Dependence>(bits >> 24 & 3); }
  unsigned number() const { return bits & 0x3ffff; }
  /// Whether it may make a difference for any of these bits of what carries it.
  bool isIn(uint64_t word) const {
    const unsigned bit = bits >> 18 & 0x3f;
    return bit == 0 || (word >> (bit - 1) & 1);
  }
  bool isOneBit() const { return bits >> 18 & 0x3f; }
  Label of(unsigned bit) const { return {(bits & ~(0x3fu << 18)) | (bit + 1) << 18}; }
  Label ofAnyBit() const { return {bits & ~(0x3fu << 18)}; }
  /// Without its hops, and whether it is mixed.
  uint32_t use() const { return bits & 0xb3ffffff; }
  /// Without its way.
  uint32_t source() const { return bits & 0xb0ffffff; }
  /// The feature or parameter alone.
  uint32_t origin() const { return bits & 0x8003ffff; }
  Label by(unsigned hops, Dependence dependence, bool mixed) const {
    return {source() | static_cast<uint32_t>(dependence) << 24 | hops << 26 | static_cast<uint32_t>(mixed) << 30};
  }
};

/// Interned sets of labels: a set is a number, 0 the empty one. Of one source those labels are kept that no other one
/// has both fewer hops and a stronger dependence than.
class LabelSets {
public:
  using Id = uint32_t;

  /// `mostHops`: labels of more hops vanish, or, if `saturate`, stay at the limit.
  LabelSets(unsigned mostHops, bool saturate);

  Id single(Label label);
  Id unite(Id a, Id b);
  /// The set as it arrives through one more implicit hop.
  Id implicit(Id set);
  /// The set of what depends on its carriers by `dependence` only, or by less.
  Id weakened(Id set, Dependence dependence);
  /// The same where each bit is still at its place.
  Id weakenedBits(Id set, Dependence dependence) { return shift(set, 0, dependence, false, true); }
  /// The set of what was computed from its carriers and other data: what was a constant chosen by a decision is data then.
  Id mixed(Id set);
  /// Chosen constants of it that differ in these bits, if they are few.
  Id ofBits(Id set, uint64_t bits);
  /// What of it makes a difference for some bits of the word.
  Id inBits(Id set, uint64_t word);
  /// Of what all bits of the word are used for.
  Id ofAnyBit(Id set);
  /// Its features only.
  Id features(Id set);
  /// A feature's number went into arithmetic with data.
  bool isMixed(Id set) const {
    return std::any_of(sets[set].begin(), sets[set].end(), [](Label label) { return !label.isParameter() && label.isMixed(); });
  }
  bool hasData(Id set) const {
    return std::any_of(sets[set].begin(), sets[set].end(), [](Label label) { return label.isData(); });
  }
  Id withoutData(Id set);
  /// What a comparison takes from an operand: of a variable that holds data, too, what an option chooses or is computed from
  /// it is a size or a position at most. `own`: it holds data whatever the parameters hold; `any`: it does for some call;
  /// `whole`: it is not computed from what the set is of; `bits`: some bits of it only.
  Id compared(Id set, bool own, bool any, bool whole = true, bool bits = false);
  /// What a parameter carries, and whether it holds data then: of itself, and for some call of the function around it.
  struct Given {
    Id set;
    bool own, any;
  };
  /// The set with each parameter's label replaced by what that parameter carries, hops added.
  template <typename Carried> Id substitute(Id set, Carried carried) {
    Id result = features(set);
    if (result == set)
      return result;
    const std::vector<Label> labels = sets[set];
    for (Label label : labels)
      if (label.isParameter()) {
        const Given given = carried(label.number());
        const Id taken = label.isCompared()      ? compared(given.set, given.own || label.isBesideData(), given.any || label.isBesideData(),
                                                         label.dependence() == Dependence::Direct)
                         : label.isWithoutData() ? withoutData(given.set)
                                                 : given.set;
        result = unite(result, shift(taken, label.hops(), label.dependence(), label.isMixed()));
      }
    return result;
  }
  bool hasParameters(Id set) { return features(set) != set; }
  llvm::ArrayRef<Label> of(Id set) const { return sets[set]; }

private:
  Id intern(std::vector<Label> labels);
  Id shift(Id set, unsigned hops, Dependence dependence, bool mixed = false, bool keepBits = false);
  template <typename Map> Id mapped(Id set, Map map);

  unsigned mostHops;
  bool saturate;
  std::vector<std::vector<Label>> sets;
  std::map<std::vector<uint32_t>, Id> numbers;
  llvm::DenseMap<uint64_t, Id> united;
  llvm::DenseMap<uint64_t, Id> shifted;
  llvm::DenseMap<uint32_t, Id> featuresOf;
};

}  // namespace transect

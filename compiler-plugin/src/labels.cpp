#include "labels.h"

#include "llvm/ADT/bit.h"

#include <algorithm>
#include <optional>

using namespace transect;

LabelSets::LabelSets(unsigned mostHops, bool saturate) : mostHops(mostHops), saturate(saturate) { intern({}); }

LabelSets::Id LabelSets::intern(std::vector<Label> labels) {
  std::sort(labels.begin(), labels.end(), [](Label a, Label b) {
    return a.source() != b.source() ? a.source() < b.source() : a.bits < b.bits;
  });
  // Sorted by hops, then by dependence: a later one of the source is worth keeping if its dependence is stronger.
  labels.erase(std::unique(labels.begin(), labels.end(),
                           [](Label kept, Label next) {
                             return kept.source() == next.source() && kept.dependence() <= next.dependence() &&
                                    kept.isMixed() <= next.isMixed();
                           }),
               labels.end());
  std::vector<uint32_t> key;
  key.reserve(labels.size());
  for (Label label : labels)
    key.push_back(label.bits);
  auto [place, isNew] = numbers.try_emplace(std::move(key), sets.size());
  if (isNew)
    sets.push_back(std::move(labels));
  return place->second;
}

LabelSets::Id LabelSets::single(Label label) { return intern({label}); }

LabelSets::Id LabelSets::unite(Id a, Id b) {
  if (a == b || b == 0)
    return a;
  if (a == 0)
    return b;
  uint64_t key = static_cast<uint64_t>(std::min(a, b)) << 32 | std::max(a, b);
  auto known = united.find(key);
  if (known != united.end())
    return known->second;
  std::vector<Label> labels = sets[a];
  labels.insert(labels.end(), sets[b].begin(), sets[b].end());
  Id result = intern(std::move(labels));
  united[key] = result;
  return result;
}

LabelSets::Id LabelSets::shift(Id set, unsigned hops, Dependence dependence, bool mixed, bool keepBits) {
  if (set == 0 || (hops == 0 && dependence == Dependence::Direct && !mixed))
    return set;
  uint64_t key = static_cast<uint64_t>(set) << 32 | hops << 4 | static_cast<unsigned>(keepBits) << 3 |
                 static_cast<unsigned>(mixed) << 2 | static_cast<unsigned>(dependence);
  auto known = shifted.find(key);
  if (known != shifted.end())
    return known->second;
  std::vector<Label> labels;
  for (Label label : sets[set]) {
    // Data that decides makes no data of the constants that it chooses.
    if (label.isData()) {
      if (hops == 0)
        labels.push_back(label);
      continue;
    }
    if (label.hops() + hops > mostHops && !saturate)
      continue;
    Dependence reached = std::max(label.dependence(), dependence);
    // A constant that a decision chose is one among others only as long as it is whole.
    // A number is one that an option tells as long as data went into it once.
    if (mixed && (label.dependence() == Dependence::Stored || label.isMixed()))
      reached = Dependence::Content;
    // Of a constant or data nothing depends on it.
    const bool matters = label.isParameter() || reached == Dependence::Computed;
    if (!keepBits)
      label = label.ofAnyBit();
    labels.push_back(label.by(std::min(label.hops() + hops, mostHops), reached, matters && (label.isMixed() || mixed)));
  }
  Id result = intern(std::move(labels));
  shifted[key] = result;
  return result;
}

/// `map` gives what becomes of a label, or nothing.
template <typename Map> LabelSets::Id LabelSets::mapped(Id set, Map map) {
  std::vector<Label> labels;
  bool changed = false;
  for (Label label : sets[set]) {
    const std::optional<Label> result = map(label);
    changed |= !result || result->bits != label.bits;
    if (result)
      labels.push_back(*result);
  }
  return changed ? intern(std::move(labels)) : set;
}

LabelSets::Id LabelSets::ofBits(Id set, uint64_t bits) {
  constexpr int kMostBits = 10;
  if (bits == 0 || bits >> Label::kWordBits != 0 || llvm::popcount(bits) > kMostBits)
    return set;
  Id result = 0;
  for (unsigned bit = 0; bit < Label::kWordBits; ++bit)
    if (bits >> bit & 1)
      result = unite(result, mapped(set, [=](Label label) -> std::optional<Label> {
                       return label.isParameter() || label.isData() || label.dependence() != Dependence::Stored ? label : label.of(bit);
                     }));
  return result;
}

LabelSets::Id LabelSets::inBits(Id set, uint64_t word) {
  return mapped(set, [=](Label label) { return label.isIn(word) ? std::optional<Label>(label) : std::nullopt; });
}

LabelSets::Id LabelSets::ofAnyBit(Id set) {
  return mapped(set, [](Label label) { return std::optional<Label>(label.ofAnyBit()); });
}

LabelSets::Id LabelSets::withoutData(Id set) {
  return mapped(set, [](Label label) { return label.isData() ? std::nullopt : std::optional<Label>(label.withoutData()); });
}

LabelSets::Id LabelSets::compared(Id set, bool own, bool any, bool whole, bool bits) {
  return mapped(set, [=](Label label) -> std::optional<Label> {
    if (label.isData())
      return std::nullopt;
    if (label.isParameter())
      return label.isWithoutData() ? label : label.compared(own);
    const bool counts = (whole && label.dependence() == Dependence::Direct) || (bits && label.isOneBit());
    return any && !counts ? label.by(label.hops(), Dependence::Content, false) : label;
  });
}

LabelSets::Id LabelSets::implicit(Id set) { return shift(set, 1, Dependence::Stored); }

LabelSets::Id LabelSets::weakened(Id set, Dependence dependence) { return shift(set, 0, dependence); }

LabelSets::Id LabelSets::mixed(Id set) { return shift(set, 0, Dependence::Computed, true); }

LabelSets::Id LabelSets::features(Id set) {
  if (set == 0)
    return 0;
  auto known = featuresOf.find(set);
  if (known != featuresOf.end())
    return known->second;
  std::vector<Label> labels;
  for (Label label : sets[set])
    if (!label.isParameter())
      labels.push_back(label);
  Id result = intern(std::move(labels));
  featuresOf[set] = result;
  return result;
}

// How a decision depends on a feature: the strongest of the ways on which the feature's value reaches it.
#pragma once

#include <cstdint>
#include <vector>

namespace transect {

/// Strongest first. The numbers stand in the region table.
enum class Dependence : uint8_t {
  Direct,    ///< The option itself, or a copy of it, is compared.
  Computed,  ///< What is compared was computed from it.
  Stored,    ///< What is compared is a constant that was stored under a branch that depends on it.
  Content,   ///< What is compared was read from data (elements of arrays, text) that it went into, or computed from data
             ///< and such a constant, or is a variable that holds data, too (sizes, positions, counts).
};

/// What is counted unless another level is asked for.
constexpr Dependence kDefaultDependence = Dependence::Stored;

/// A feature that a decision depends on.
struct FeatureUse {
  unsigned feature;
  Dependence dependence;
};

/// Ascending by feature, each once.
using FeatureUses = std::vector<FeatureUse>;

/// Whether `outer` has the features of `inner` whatever level is chosen.
bool includesAtEveryLevel(const FeatureUses &outer, const FeatureUses &inner);

const char *dependenceName(Dependence dependence);

}  // namespace transect

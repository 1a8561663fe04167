#include "dependence.h"

#include <algorithm>

using namespace transect;

bool transect::includesAtEveryLevel(const FeatureUses &outer, const FeatureUses &inner) {
  return std::all_of(inner.begin(), inner.end(), [&](FeatureUse use) {
    return std::any_of(outer.begin(), outer.end(), [&](FeatureUse other) {
      return other.feature == use.feature && other.dependence <= use.dependence;
    });
  });
}

const char *transect::dependenceName(Dependence dependence) {
  switch (dependence) {
  case Dependence::Direct:
    return "direct";
  case Dependence::Computed:
    return "computed";
  case Dependence::Stored:
    return "stored";
  case Dependence::Content:
    return "content";
  }
  return "";
}

// Where a program reads the variables of features, in the code as it runs.
#pragma once

#include "variables.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/IR/Instructions.h"

#include <utility>

namespace transect {

/// Uses of features' variables; a value may be several features'.
struct FeatureReads {
  /// Values that are a feature's variable: what is loaded from it, or an argument or result that is it.
  llvm::SetVector<std::pair<llvm::Value *, unsigned>> values;
  /// Stores to a feature's variable: what is read there through a pointer later is the feature's.
  llvm::SetVector<std::pair<llvm::StoreInst *, unsigned>> stores;
};

FeatureReads featureReads(llvm::Module &module, const FeatureVariables &variables);

}  // namespace transect

// From the model's places and from annotations in the source to the program's variables.
#pragma once

#include "region.h"

#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/DerivedTypes.h"

#include <cstdint>
#include <string>
#include <vector>

namespace transect {

/// A field of a structure type; all objects of the type have it.
struct MemberSeed {
  llvm::StructType *type;    ///< Null: only the debug information has it.
  uint64_t byteOffset;       ///< Of the field, for a bit field of its first byte.
  unsigned bitOffset, bits;  ///< Place of a bit field in the bytes from `byteOffset` on; `bits` 0: no bit field.
  unsigned feature;
  const llvm::DICompositeType *described;  ///< The type in the debug information.
};

/// Memory that holds the address of a structure with bit fields of features: the first of them are read without an
/// address computation that names the structure.
struct BitFieldHolder {
  llvm::Value *variable;   ///< Null: a field.
  llvm::StructType *type;  ///< The field's structure.
  uint64_t byteOffset;
  const llvm::DICompositeType *described;  ///< What it points to.
};

/// Where the features' values are in the module.
struct FeatureVariables {
  /// Memory: global variables, allocas, pointers to memory that is the variable.
  std::vector<std::pair<llvm::Value *, unsigned>> memory;
  /// Values that are the variable's (optimised code).
  std::vector<std::pair<llvm::Value *, unsigned>> values;
  /// Memory that holds the address of a feature's variable, of so many bytes, or an argument that is it.
  struct Address {
    llvm::Value *holder;
    uint64_t bytes;
    unsigned feature;
  };
  std::vector<Address> addresses;
  std::vector<MemberSeed> members;
  std::vector<BitFieldHolder> holders;
  /// What is read from these fields carries no feature, nor does what these functions return and write.
  std::vector<std::pair<llvm::StructType *, uint64_t>> ignoredFields;
  std::vector<llvm::Function *> ignoredFunctions;
};

/// `result.features` holds the model's features, and after it those that only annotations name; `result.variables` says
/// what was found and what lost, `result.errors` what is ambiguous.
FeatureVariables findVariables(llvm::Module &module, const FeatureModel &model, RegionSet &result);

}  // namespace transect

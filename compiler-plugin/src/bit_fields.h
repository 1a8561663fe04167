// Where code reads bit fields: the values that it cuts out of the bytes that hold them.
#pragma once

#include "variables.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/IR/Instructions.h"
#include "llvm/Transforms/Utils/ValueMapper.h"

#include <utility>
#include <vector>

namespace transect {

class BitFields {
public:
  /// `map`: from the values of `holders` to those of the code at hand.
  BitFields(const std::vector<MemberSeed> &members, const std::vector<BitFieldHolder> &holders,
            llvm::ValueToValueMapTy &map, const llvm::DataLayout &layout);

  /// Adds the features' values that are cut out of what is loaded, with their features.
  void findReads(llvm::LoadInst &load, std::vector<std::pair<llvm::Instruction *, unsigned>> &reads) const;

private:
  const llvm::DICompositeType *pointeeOf(const llvm::Value *pointer) const;

  const std::vector<MemberSeed> &members;
  const std::vector<BitFieldHolder> &holders;
  const llvm::DataLayout &layout;
  llvm::DenseMap<const llvm::Value *, const llvm::DICompositeType *> variables;
};

}  // namespace transect

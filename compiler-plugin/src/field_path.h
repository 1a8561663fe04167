// Which fields of which structures an address is, as the code's address computations tell.
#pragma once

#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/DataLayout.h"
#include "llvm/IR/DerivedTypes.h"
#include "llvm/IR/Value.h"

namespace transect {

/// A byte offset in a structure. Elements of arrays count as the first one.
struct FieldPlace {
  llvm::StructType *type;
  uint64_t offset;
};

/// Every structure that the address is known to lie in, the innermost first.
llvm::SmallVector<FieldPlace, 4> fieldsAt(const llvm::Value *pointer, const llvm::DataLayout &layout);

/// Every structure around a byte of an object of type `type`, the outermost first.
void fieldsIn(llvm::Type *type, uint64_t offset, const llvm::DataLayout &layout,
              llvm::SmallVectorImpl<FieldPlace> &result);

}  // namespace transect

// What code that takes memory for a structure may find there.
#pragma once

#include "llvm/IR/DataLayout.h"
#include "llvm/IR/DerivedTypes.h"

namespace transect {

/// Bytes in which the C++ library's nodes hold an element of any type, whose fields are told apart.
bool isStorage(const llvm::StructType &type);

/// What lies at a byte of a type: a scalar, or null where it may be anything.
llvm::Type *scalarAt(llvm::Type *type, uint64_t place, const llvm::DataLayout &layout);

/// Whether the field at byte `field` of `seen` may be reached `place` bytes into an object of type `type`: `seen` lies
/// there, or the two agree in every field so far (as structures with a common head do), or what lies there is a union
/// or bytes, which may be anything.
bool mayBeSeenAs(llvm::Type *type, uint64_t place, llvm::StructType *seen, uint64_t field,
                 const llvm::DataLayout &layout);

}  // namespace transect

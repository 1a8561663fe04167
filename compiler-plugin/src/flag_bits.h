// Words of flags: constants that set and clear bits of what is there.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/IR/Instructions.h"

#include <cstdint>

namespace transect {

/// `flags |= 4`, `bits->verify = 1`: constants become part of what is there.
bool setsBits(const llvm::StoreInst &store);
/// The same of a variable that is a value: what comes from one way is what comes from another one but for bits.
bool setsBits(const llvm::PHINode &phi, unsigned way);
bool setsBits(const llvm::PHINode &phi);

/// The bits that may differ by it, 0: not known.
uint64_t bitsSet(const llvm::StoreInst &store);
uint64_t bitsSet(const llvm::PHINode &phi);
/// Those in which constants differ; 0 also if these look like numbers.
uint64_t bitsChosen(llvm::ArrayRef<const llvm::Value *> constants);

}  // namespace transect

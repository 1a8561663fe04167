// Which thrown exceptions a handler may get, as the type-info objects of the C++ ABI tell.
#pragma once

#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/DataLayout.h"
#include "llvm/IR/InstrTypes.h"

#include <optional>

namespace transect {

/// Type-info objects of the types that a call of `__cxa_begin_catch` or `__cxa_get_exception_ptr` may be given; empty:
/// any, as `catch (...)` is.
llvm::SmallVector<const llvm::Value *, 2> caughtTypes(const llvm::CallBase &call);

/// If a handler of `caught` takes exceptions of type `thrown`: the offset of what it gets in the exception, in bytes.
/// Of types whose bases are outside of the program any may be a base.
std::optional<int64_t> caughtAs(const llvm::Value *thrown, const llvm::Value *caught);

}  // namespace transect

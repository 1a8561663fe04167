// Which structure type of the code is one of the debug information.
#pragma once

#include "program_variables.h"

#include "llvm/IR/DataLayout.h"
#include "llvm/IR/DerivedTypes.h"

namespace transect {

/// Whether a type of the code is the structure that has `member`, by name and by place, or else by its fields.
bool isStructureOf(llvm::StructType &type, const ProgramVariable &member, const llvm::DataLayout &layout);

}  // namespace transect

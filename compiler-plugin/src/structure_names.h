// Structure types as the source has them, through the link: it makes one type of all structures with the same fields,
// under the name of the first. Structures of one tag, declared in several places, are several.
#pragma once

#include "llvm/IR/DerivedTypes.h"
#include "llvm/IR/GlobalVariable.h"
#include "llvm/IR/PassManager.h"

#include <string>
#include <vector>

namespace transect {

/// Before the link: notes the names of structures where addresses in them are computed and where they are variables.
struct NameStructuresPass : llvm::PassInfoMixin<NameStructuresPass> {
  llvm::PreservedAnalyses run(llvm::Module &module, llvm::ModuleAnalysisManager &);
  static bool isRequired() { return true; }
};

/// After the link: address computations and local variables have structures of their own names again.
void restoreStructures(llvm::Module &module);

/// A structure's name in the source: without `struct.`, and where it is declared, if another one has its tag (else empty).
struct StructureName {
  llvm::StringRef tag, place;
};
StructureName structureName(const llvm::StructType &type);

/// A type's name as a source would say it: without anonymous namespaces.
std::string writtenName(llvm::StringRef name);

/// The type of a global variable in the source.
llvm::Type *sourceType(const llvm::GlobalVariable &global);

/// All structures with a name; those too that only a global variable's type in the source has.
std::vector<llvm::StructType *> namedStructures(const llvm::Module &module);

}  // namespace transect

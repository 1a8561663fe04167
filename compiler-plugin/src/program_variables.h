// The variables of a program as its debug information describes them.
#pragma once

#include "llvm/ADT/DenseMap.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/Module.h"

#include <string>
#include <vector>

namespace transect {

/// A variable or field of the source.
struct ProgramVariable {
  enum class Kind { Global, Local, Member } kind;
  std::string name, qualified;  ///< `qualified`: with namespaces and classes.
  std::string function;         ///< Of a local variable or a static one in a function.
  std::string linkageFunction;
  std::string path;  ///< Whole path of its file.
  unsigned line = 0;
  /// Of globals and locals; of a member of a structure without a name, `memory` is the global variables that are one.
  std::vector<llvm::Value *> memory, values;
  /// Of references and of parameters that are passed by address: memory that holds the variable's address, or an
  /// argument that is the address.
  std::vector<llvm::Value *> addresses;
  uint64_t referred = 0;                            ///< Bytes of what lies there.
  const llvm::DICompositeType *pointee = nullptr;  ///< The structure that a pointer or reference to one points to.
  const llvm::DICompositeType *type = nullptr;  ///< Of members.
  /// Names of the member's type: tag and typedefs, and variables that are a structure without a name.
  std::vector<std::string> tags;
  uint64_t bitOffset = 0;
  unsigned bits = 0;  ///< Of a bit field, else 0.
  struct Part {
    uint64_t bitOffset;
    unsigned bits;
  };
  std::vector<Part> parts;  ///< Of a field that is a structure: its scalars, as `bitOffset` and `bits`.

  /// For messages: `name (file.c:12)`.
  std::string described() const;
};

std::vector<ProgramVariable> programVariables(llvm::Module &module);

/// The structure that a type is, without typedefs and qualifiers, or null.
const llvm::DICompositeType *structureOf(const llvm::DIType *type);

/// Without typedefs, qualifiers and arrays.
const llvm::DIType *elementType(const llvm::DIType *type);

/// A name with its namespaces and classes.
std::string qualifiedName(const llvm::DIScope *scope, llvm::StringRef name);

/// Where a structure is declared, to tell it from others of its name. Copies of one header are one place.
std::string declarationPlace(const llvm::DICompositeType &type);

/// Whether a file is no unit of its own.
bool isHeader(llvm::StringRef path);

/// Whether `path` ends in the components of `wanted` ("gzip.c", "src/xz/args.c").
bool endsInPath(llvm::StringRef path, llvm::StringRef wanted);

}  // namespace transect

// What library functions outside of the program do to data.
#pragma once

#include "dependence.h"

#include "llvm/IR/Function.h"
#include "llvm/IR/InstrTypes.h"

namespace transect {

/// Numbers are of arguments, -1: none. A function that isn't known does nothing and returns new memory or a value of
/// its own: results of input and output don't carry the features of their arguments.
struct ExternalFunction {
  int returnsArgument = -1;           ///< The result points where this argument points.
  int returnsPointee = -1;            ///< The result is a pointer that this argument points to.
  bool continues = false;             ///< The result points into what any call of this kind was given.
  bool valueOfArguments = false;      ///< The result is computed from the arguments and the memory they point to.
  bool compares = false;              ///< Of these: it tells only how they compare.
  int copyTo = -1, copyFrom = -1;     ///< Memory is copied.
  int fillTo = -1, fillFirst = -1;    ///< Arguments from `fillFirst` on are written into memory as text or bytes,
  int fillLast = -1;                  ///< up to this one, if not -1,
  Dependence fillAs = Dependence::Computed;  ///< and what is read there depends on them so.
  bool duplicates = false;            ///< The result is new memory with a copy of argument `copyFrom`'s.
  int inputTo = -1;                   ///< Data from outside are written into memory.
  int readFrom = -1, readFirst = -1;  ///< Text of an argument is written where arguments from `readFirst` on point,
  int readLast = -1;                  ///< up to this one, if not -1.
  bool throws = false;                ///< Argument 0 is the memory of an exception, argument 1 its type's information.
  bool catches = false;               ///< The result is the memory of an exception that was thrown.
  /// Pointer `value` is written `offset` bytes into the memory to which `memory` points.
  struct Link {
    int memory;
    int64_t offset;
    int value;
  };
  llvm::ArrayRef<Link> links;
  llvm::ArrayRef<int64_t> returnsFields;  ///< The result is a pointer so many bytes into argument 0's memory.
  int ownMemory = -1;                     ///< So many bytes into the result a pointer to more memory of its own lies.
};

/// In place of an argument: the call's result.
constexpr int kCallResult = -2;

ExternalFunction externalFunction(const llvm::Function &function);

/// A function of the program that an external function calls.
struct Callback {
  int function;   ///< Argument that is the function.
  int parameter;  ///< First parameter that is given arguments.
  int argument;   ///< Argument that is given on there (-1: none), and those behind it if `rest`.
  bool rest;
};

/// Callbacks of an external function; entries of one function in a row are one call's.
llvm::ArrayRef<Callback> callbacksOf(const llvm::Function &function);

/// What it returns is the C library's table of characters: `isdigit` and the like read it.
bool tellsCharacters(const llvm::Function &function);

/// `std::thread`'s start: its second argument points to a pointer to a state whose `_M_run` runs.
bool startsThreadState(const llvm::Function &function);

}  // namespace transect

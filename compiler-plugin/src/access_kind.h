// What kind of place code reads and writes: a variable, or one of many places, whose contents are data.
#pragma once

#include "llvm/IR/DataLayout.h"
#include "llvm/IR/DerivedTypes.h"
#include "llvm/IR/Value.h"

namespace transect {

enum class AccessKind { Variable, Element, Unknown };

/// Whether an address is that of one of many places, as an index tells. Unknown: a walking pointer, or one to a variable.
AccessKind accessKind(const llvm::Value *pointer);

/// Whether a scalar that is no part of an array lies at a byte of a type.
bool isScalarAt(llvm::Type *type, uint64_t offset, const llvm::DataLayout &layout);

/// What memory holds, in parts that a read tells apart by its type: a number of less than eight bytes is no address. Without that,
/// where a pointer may lead anywhere, reads of addresses would depend on all options that are numbers.
namespace part {
constexpr unsigned kNumbers = 1, kAddresses = 2, kAll = kNumbers | kAddresses;
}
/// The parts of memory that a value of this type is read from and written to; null: all.
unsigned partsOf(const llvm::Type *type);
/// Those of what lies at a byte of a type.
unsigned partsAt(llvm::Type *type, uint64_t offset, const llvm::DataLayout &layout);

/// A number that becomes a byte of a buffer is put out: what is read there later is data, not the option. Bytes that
/// are copied from place to place are not such numbers.
bool isCutToByte(const llvm::Value *value);

/// The result tells the same as the operand that carries something: conversions, comparisons, single bits, logic of truth
/// values. All else computes something new.
bool isCopyOrComparison(const llvm::Instruction &instruction);

/// Arithmetic with two variable operands, also of an address that is not that of a variable.
bool mixesData(const llvm::Instruction &instruction);

}  // namespace transect

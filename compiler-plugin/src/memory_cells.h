// The cells of memory that loads and stores reach, for the taint analysis.
#pragma once

#include "points_to.h"

#include "llvm/IR/DerivedTypes.h"

#include <map>
#include <vector>

namespace transect {

/// Locations of the points-to analysis are cells of the same numbers. Where it does not know what a pointer points to
/// (memory from outside of the program), the field that the address is stands for all such memory.
class MemoryCells {
public:
  MemoryCells(const llvm::Module &module, const PointsTo &pointsTo);

  /// Cells of `size` bytes at `pointer`; equal lists are one and have one number.
  unsigned access(const llvm::Value *pointer, uint64_t size);
  const std::vector<unsigned> &cells(unsigned access) const { return accesses[access]; }
  unsigned accessCount() const { return accesses.size(); }
  unsigned cellCount() const { return count; }

  /// Cells that copying `length` bytes connects, as two accesses: each cell of `to` takes what any of `from` holds.
  struct Copied {
    unsigned from, to;
  };
  std::vector<Copied> copied(const llvm::Value *to, const llvm::Value *from, uint64_t length);

  /// The cell of all memory from outside that is this field.
  unsigned fieldCell(llvm::StructType *type, uint64_t offset);

private:
  using Range = std::pair<unsigned, uint64_t>;

  unsigned intern(std::vector<unsigned> cells);
  unsigned starts(const llvm::Value *pointer);
  unsigned within(unsigned starts, uint64_t size);
  unsigned holding(unsigned starts, uint64_t length);
  unsigned behind(unsigned starts, uint64_t distance);
  const std::vector<std::pair<uint64_t, unsigned>> &byDistance(unsigned starts, uint64_t length);

  const llvm::DataLayout &layout;
  const PointsTo &pointsTo;
  unsigned count;
  std::vector<std::vector<unsigned>> accesses;
  std::map<std::vector<unsigned>, unsigned> numbers;
  std::map<std::pair<llvm::StructType *, uint64_t>, unsigned> fields;
  // Many pointers point to the same: what follows is kept by the access that is the cells where they point.
  llvm::DenseMap<const llvm::Value *, unsigned> startsOf;
  llvm::DenseMap<Range, unsigned> ranges, shifted, filtered;
  llvm::DenseMap<std::pair<const llvm::Value *, uint64_t>, unsigned> outside;
  std::map<Range, std::vector<std::pair<uint64_t, unsigned>>> sources;
};

}  // namespace transect

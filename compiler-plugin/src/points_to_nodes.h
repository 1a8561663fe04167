// What the parts of the points-to analysis share: its nodes, and what an address adds.
#pragma once

#include "points_to.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/IR/Operator.h"

namespace transect {

/// Pointers, structures with pointers, and integers that may hold one.
bool carriesPointers(llvm::Type *type);

/// What computing an address adds to a pointer.
struct Step {
  bool isExact;
  int64_t all;             ///< With all that is constant.
  int64_t exact;           ///< With all array elements told apart, but for those that a pointer walks over.
  int64_t field;           ///< Elements of arrays count as the first one.
  llvm::StructType *seen;  ///< The structure that the pointer is taken for; null: none that has a name.
  uint64_t inside;         ///< Where in it the step leads.
  bool isOnlyRead;         ///< What is there is read, and the address kept nowhere.
};

Step stepOf(const llvm::GEPOperator &address, const llvm::DataLayout &layout);

/// What one instruction copies from memory to memory. Between the sides stands a node for each distance from the
/// start, so that m sources and n targets take m + n edges.
struct PointsTo::Transfer {
  uint64_t length;
  std::map<uint64_t, unsigned> between;
  std::vector<unsigned> to;
  llvm::DenseSet<unsigned> from, known;  ///< Locations that are sources, targets already.
};

/// A call of a virtual function: the object's own table says which one is entered with that object.
struct PointsTo::Dispatch {
  const llvm::CallBase *call;
  uint64_t slot;    ///< Bytes from where the object's pointer to the table points.
  bool isSure;      ///< That it is such a call, as the type of an access tells.
  unsigned object;  ///< The location that it is called for; among `receivers` of no meaning.
};

struct PointsTo::Node {
  Set targets, done, edges;
  std::vector<unsigned> loads, stores;
  std::vector<std::pair<unsigned, Step>> addresses;
  std::vector<const llvm::CallBase *> calls;
  std::vector<Dispatch> receivers, tables;  ///< Whose object this points to, whose table.
  std::vector<unsigned> transfersFrom, transfersTo;  ///< Of which this is the source's, the target's address.
  bool queued = false;
};

}  // namespace transect

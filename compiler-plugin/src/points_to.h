// Where pointers point: inclusion-based (Andersen's), told apart by object and byte offset, the same for all contexts.
#pragma once

#include "external_functions.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/SparseBitVector.h"
#include "llvm/IR/InstrTypes.h"
#include "llvm/IR/Module.h"

#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace transect {

struct Step;

/// A call's way into a function of the program.
struct CallTarget {
  llvm::Function *function;
  /// Values given to parameters; to a null parameter: to the variable arguments.
  llvm::SmallVector<std::pair<const llvm::Value *, llvm::Argument *>, 4> arguments;
  bool returns;  ///< The function's result is the call's.
};

class PointsTo {
public:
  using Set = llvm::SparseBitVector<>;

  /// Memory that is told apart from other memory: a variable, or what one call allocates.
  struct Object {
    const llvm::Value *origin;  ///< Global, alloca, allocating call or function; null: variable arguments.
    llvm::Type *type;           ///< Null: not known.
    uint64_t size;              ///< 0: not known.
    bool whole;                 ///< Its offsets are not told apart.
    llvm::Type *element;        ///< Of what memory of unknown size holds any number; null: not known.
    bool isTable;               ///< Of a class' virtual functions: an array whose elements are told apart.
    bool isReadOnly;
    std::map<uint64_t, unsigned> locations;
  };
  struct Location {
    unsigned object;
    uint64_t offset;
  };

  /// `readOnly`: constants of the source, to which nothing is written.
  PointsTo(llvm::Module &module, const llvm::DenseSet<const llvm::Value *> &readOnly);
  ~PointsTo();

  /// Locations that a pointer of the module may hold.
  const Set &targets(const llvm::Value *pointer) const;
  /// The function at a location: code, which is no memory of the program's.
  llvm::Function *functionAt(unsigned number) const;
  const Location &location(unsigned number) const { return locations[number]; }
  const Object &object(unsigned number) const { return objects[number]; }
  unsigned objectCount() const { return objects.size(); }
  unsigned locationCount() const { return locations.size(); }
  /// Whether so many bytes from a location on can be its object's; a length that is not known may be any.
  bool hasBytes(unsigned location, uint64_t length) const;
  /// The location of an object that holds a byte, -1: none of it was ever pointed to.
  int locationIn(unsigned object, int64_t offset) const;
  /// The object of a global variable or alloca, if it has one.
  const Object *objectOf(const llvm::Value *origin) const;
  /// Functions of the program that a call may enter.
  const std::vector<CallTarget> &calls(const llvm::CallBase *call) const;
  /// External functions that a call may enter.
  const std::vector<llvm::Function *> &externals(const llvm::CallBase *call) const;
  /// Object of a function's variable arguments, as a location.
  int variableArguments(const llvm::Function *function) const;
  /// False: time was up before all was known.
  bool complete() const { return isComplete; }

private:
  struct Node;
  struct Transfer;
  struct Dispatch;
  class Builder;
  friend class Builder;

  unsigned nodeOf(const llvm::Value *value);
  unsigned find(unsigned node) const;
  unsigned newObject(const llvm::Value *origin, llvm::Type *type, bool whole);
  bool mayHold(const Object &object, uint64_t offset, const Step &step) const;
  unsigned locationAt(unsigned object, int64_t offset);
  uint64_t canonical(const Object &object, int64_t offset) const;
  void addTarget(unsigned node, unsigned location);
  void addCopy(unsigned from, unsigned to);
  void addTransfer(unsigned toNode, unsigned fromNode, uint64_t length);
  void transferFrom(unsigned transfer, unsigned location, uint64_t place, unsigned number);
  unsigned newNode();
  void wake(unsigned node);
  void bind(const llvm::CallBase *call, CallTarget target);
  void enter(const llvm::CallBase *call, llvm::Function *function);
  void dispatch(unsigned node, const Set &memory);
  void callByPointer(const llvm::CallBase *call);
  void throwException(const llvm::CallBase &call);
  void catchException(const llvm::CallBase &call);
  void takeException(const llvm::CallBase &handler, const llvm::Value *type, unsigned exceptions);
  unsigned fieldOf(unsigned node, int64_t offset);
  unsigned allocatedBy(const llvm::CallBase *call);
  bool allocates(const llvm::Function &function, unsigned depth = 0);
  void build();
  void solve(double end);
  void collapseCycles();
  void process(unsigned node);

  llvm::Module &module;
  const llvm::DenseSet<const llvm::Value *> &readOnly;
  const llvm::DataLayout &layout;
  mutable std::vector<unsigned> representative;
  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<Object> objects;
  std::vector<Location> locations;
  Set code;                        ///< Locations that are functions.
  std::vector<unsigned> contents;  ///< Node of what a location holds.
  llvm::DenseMap<const llvm::Value *, unsigned> nodeNumbers;
  llvm::DenseMap<const llvm::Value *, unsigned> objectNumbers;
  llvm::DenseMap<const llvm::Function *, unsigned> results, variadic;
  llvm::DenseMap<const llvm::CallBase *, std::vector<CallTarget>> callTargets;
  llvm::DenseMap<const llvm::CallBase *, std::vector<llvm::Function *>> callExternals;
  /// Calls of virtual functions, with the number of the argument that is the object.
  llvm::DenseMap<const llvm::CallBase *, unsigned> virtualCalls;
  llvm::DenseSet<std::pair<const llvm::CallBase *, unsigned>> dispatched;  ///< With the object's location.
  std::vector<Transfer> transfers;
  /// By object: transfers whose source it is, with the location from which they copy.
  std::vector<std::vector<std::pair<unsigned, unsigned>>> transfersFrom;
  llvm::DenseMap<const llvm::Function *, bool> allocators;
  std::vector<unsigned> work;
  /// By type-info object: node of the exceptions thrown. Handlers take what comes later, too.
  llvm::MapVector<const llvm::Value *, unsigned> thrown;
  std::vector<const llvm::CallBase *> handlers;
  std::optional<unsigned> tokens;  ///< Node of all that `strtok` was given.
  bool isComplete = true;
};

}  // namespace transect

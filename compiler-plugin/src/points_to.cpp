// Locations, nodes and what is asked of them.
#include "points_to_nodes.h"

#include "type_layout.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/GlobalIFunc.h"
#include "llvm/IR/Instructions.h"

using namespace llvm;
using namespace transect;

namespace {
/// Memory has at most so many places that are told apart; further ones count as the one before them.
constexpr unsigned kMostPlaces = 128;

/// A class' virtual functions: calls have numbers for them that are constants.
bool isTableOfClass(const Value &value) {
  return isa<GlobalVariable>(value) && (value.getName().starts_with("_ZTV") || value.getName().starts_with("_ZTC"));
}

/// Bytes to a base class or a member, not a walk over text: a structure is seen there, and the pointer is kept nowhere.
bool leadsToMember(const GEPOperator &address, int64_t offset) {
  return offset % 8 == 0 && !address.use_empty() && all_of(address.users(), [](const User *user) {
           const auto *inside = dyn_cast<GEPOperator>(user);
           return inside && inside->getSourceElementType()->isStructTy();
         });
}
}  // namespace

Step transect::stepOf(const GEPOperator &address, const DataLayout &layout) {
  Step step{true, 0, 0, 0, nullptr, 0, false};
  step.isOnlyRead = all_of(address.users(), [](const User *user) { return isa<LoadInst>(user); });
  // Bytes behind a pointer that is a variable: a walk over text, at any place after some turns.
  const bool walks = isa<PHINode>(address.getPointerOperand()) || isa<LoadInst>(address.getPointerOperand());
  Type *type = address.getSourceElementType();
  // Types without a name are calling conventions', not the source's.
  if (auto *structure = dyn_cast<StructType>(type); structure && !structure->isLiteral())
    step.seen = structure;
  bool first = true;
  for (const Use &use : address.indices()) {
    const auto *index = dyn_cast<ConstantInt>(use);
    if (auto *structure = first ? nullptr : dyn_cast<StructType>(type)) {
      uint64_t offset = layout.getStructLayout(structure)->getElementOffset(index->getZExtValue());
      step.all += offset;
      step.exact += offset;
      step.field += offset;
      step.inside += offset;
      type = structure->getElementType(index->getZExtValue());
      continue;
    }
    if (!first) {
      if (auto *array = dyn_cast<ArrayType>(type))
        type = array->getElementType();
      else if (auto *vector = dyn_cast<VectorType>(type))
        type = vector->getElementType();
    }
    if (!index) {
      step.isExact = false;
    } else {
      int64_t offset = index->getSExtValue() * static_cast<int64_t>(layout.getTypeAllocSize(type).getFixedValue());
      step.all += offset;
      // A walk over an array ends where it does; elements count as one anyway.
      if (!first || !walks || type->isIntegerTy(8))
        step.exact += offset;
      // Optimised code has fields as bytes; a step of one byte walks over text.
      if (first && type->isIntegerTy(8) && std::abs(offset) > 1 && (!walks || leadsToMember(address, offset)))
        step.field += offset;
    }
    first = false;
  }
  return step;
}

/// Pointers, structures with pointers, and integers that may hold one.
bool transect::carriesPointers(Type *type) {
  if (type->isPointerTy() || type->isIntegerTy(64))
    return true;
  if (auto *structure = dyn_cast<StructType>(type))
    return any_of(structure->elements(), carriesPointers);
  if (auto *array = dyn_cast<ArrayType>(type))
    return carriesPointers(array->getElementType());
  if (auto *vector = dyn_cast<VectorType>(type))
    return carriesPointers(vector->getElementType());
  return false;
}

PointsTo::~PointsTo() = default;

unsigned PointsTo::find(unsigned node) const {
  while (representative[node] != node) {
    representative[node] = representative[representative[node]];
    node = representative[node];
  }
  return node;
}

unsigned PointsTo::newNode() {
  nodes.push_back(std::make_unique<Node>());
  representative.push_back(nodes.size() - 1);
  return nodes.size() - 1;
}

/// A node's constraints are worked on anew with all that it points to.
void PointsTo::wake(unsigned node) {
  nodes[node]->done.clear();
  if (!nodes[node]->queued) {
    nodes[node]->queued = true;
    work.push_back(node);
  }
}

unsigned PointsTo::newObject(const Value *origin, Type *type, bool whole) {
  const bool isTable = origin && isTableOfClass(*origin);
  Object object{origin, type, 0, whole, nullptr, isTable, isTable || readOnly.contains(origin), {}};
  if (type && type->isSized() && !isa<ScalableVectorType>(type))
    object.size = layout.getTypeAllocSize(type);
  objects.push_back(std::move(object));
  transfersFrom.emplace_back();
  if (origin)
    objectNumbers[origin] = objects.size() - 1;
  return objects.size() - 1;
}

uint64_t PointsTo::canonical(const Object &object, int64_t offset) const {
  if (object.whole || (object.type && object.size == 0))
    return 0;
  if (!object.type) {
    if (offset >= 0 && object.size != 0)
      offset %= static_cast<int64_t>(object.size);
    if (offset < 0)
      return 0;
    if (object.locations.size() < kMostPlaces)
      return offset;
    auto behind = object.locations.upper_bound(offset);
    return behind == object.locations.begin() ? 0 : std::prev(behind)->first;
  }
  int64_t rest = offset % static_cast<int64_t>(object.size);
  if (rest < 0)
    rest += object.size;
  if (object.isTable)
    return rest - rest % layout.getPointerSize();
  uint64_t place = 0, inside = rest;
  Type *type = object.type;
  while (true) {
    if (auto *array = dyn_cast<ArrayType>(type)) {
      type = array->getElementType();
      uint64_t size = layout.getTypeAllocSize(type);
      if (size == 0)
        return place;
      inside %= size;
    } else if (auto *structure = dyn_cast<StructType>(type)) {
      const StructLayout *fields = layout.getStructLayout(structure);
      if (structure->getNumElements() == 0)
        return place;
      if (isStorage(*structure)) {
        if (object.locations.size() < kMostPlaces)
          return place + inside;
        auto behind = object.locations.upper_bound(place + inside);
        return behind == object.locations.begin() ? place : std::max(std::prev(behind)->first, place);
      }
      unsigned element = fields->getElementContainingOffset(inside);
      place += fields->getElementOffset(element);
      inside -= fields->getElementOffset(element);
      type = structure->getElementType(element);
    } else {
      return place;
    }
  }
}

bool PointsTo::hasBytes(unsigned location, uint64_t length) const {
  auto [number, offset] = locations[location];
  const Object &object = objects[number];
  return object.size == 0 || object.whole || length == ~0ull || offset + length <= object.size;
}

unsigned PointsTo::locationAt(unsigned object, int64_t offset) {
  uint64_t place = canonical(objects[object], offset);
  auto [entry, isNew] = objects[object].locations.try_emplace(place, locations.size());
  if (!isNew)
    return entry->second;
  unsigned number = locations.size();
  locations.push_back({object, place});
  contents.push_back(newNode());
  for (unsigned i = 0; i < transfersFrom[object].size(); ++i) {
    auto [transfer, from] = transfersFrom[object][i];
    transferFrom(transfer, from, place, number);
  }
  return number;
}

int PointsTo::locationIn(unsigned object, int64_t offset) const {
  auto place = objects[object].locations.find(canonical(objects[object], offset));
  return place == objects[object].locations.end() ? -1 : static_cast<int>(place->second);
}

void PointsTo::addTarget(unsigned node, unsigned location) {
  node = find(node);
  if (nodes[node]->targets.test_and_set(location) && !nodes[node]->queued) {
    nodes[node]->queued = true;
    work.push_back(node);
  }
}

void PointsTo::addCopy(unsigned from, unsigned to) {
  from = find(from);
  to = find(to);
  if (from == to || !nodes[from]->edges.test_and_set(to))
    return;
  if ((nodes[to]->targets |= nodes[from]->targets) && !nodes[to]->queued) {
    nodes[to]->queued = true;
    work.push_back(to);
  }
}

unsigned PointsTo::nodeOf(const Value *value) {
  auto known = nodeNumbers.find(value);
  if (known != nodeNumbers.end())
    return known->second;
  unsigned node = newNode();
  nodeNumbers[value] = node;
  if (const auto *constant = dyn_cast<Constant>(value)) {
    if (const auto *function = dyn_cast<Function>(constant)) {
      auto object = objectNumbers.find(function);
      unsigned location =
          locationAt(object == objectNumbers.end() ? newObject(function, nullptr, true) : object->second, 0);
      code.set(location);
      addTarget(node, location);
    } else if (const auto *global = dyn_cast<GlobalVariable>(constant)) {
      addTarget(node, locationAt(objectNumbers[global], 0));
    } else if (const auto *alias = dyn_cast<GlobalAlias>(constant)) {
      addCopy(nodeOf(alias->getAliasee()), node);
    } else if (const auto *chosen = dyn_cast<GlobalIFunc>(constant)) {
      // What the loader takes: any of what the resolver returns.
      auto result = results.find(chosen->getResolverFunction());
      if (result != results.end())
        addCopy(result->second, node);
    } else if (const auto *address = dyn_cast<GEPOperator>(constant)) {
      unsigned base = find(nodeOf(address->getPointerOperand()));
      Step step = stepOf(*address, layout);
      step.isOnlyRead = true;  // Where the functions of a class begin.
      nodes[base]->addresses.push_back({node, step});
      wake(base);
    } else if (isa<ConstantExpr>(constant) || isa<ConstantAggregate>(constant)) {
      for (const Use &operand : constant->operands())
        if (carriesPointers(operand->getType()))
          addCopy(nodeOf(operand), node);
    }
  }
  return node;
}

void PointsTo::addTransfer(unsigned to, unsigned from, uint64_t length) {
  to = find(to);
  from = find(from);
  nodes[from]->transfersFrom.push_back(transfers.size());
  nodes[to]->transfersTo.push_back(transfers.size());
  transfers.push_back({length, {}, {}, {}, {}});
  wake(to);
  wake(from);
}

/// One place of a transfer's source, which starts at `location`.
void PointsTo::transferFrom(unsigned transfer, unsigned location, uint64_t place, unsigned number) {
  uint64_t start = locations[location].offset;
  if (place < start || place - start >= transfers[transfer].length)
    return;
  auto [between, isNew] = transfers[transfer].between.try_emplace(place - start, 0);
  if (isNew) {
    unsigned node = between->second = newNode();
    for (size_t i = 0; i < transfers[transfer].to.size(); ++i) {
      auto [object, offset] = locations[transfers[transfer].to[i]];
      addCopy(node, contents[locationAt(object, offset + (place - start))]);
    }
  }
  addCopy(contents[number], transfers[transfer].between[place - start]);
}

const PointsTo::Set &PointsTo::targets(const Value *pointer) const {
  static const Set none;
  auto known = nodeNumbers.find(pointer);
  return known == nodeNumbers.end() ? none : nodes[find(known->second)]->targets;
}

const PointsTo::Object *PointsTo::objectOf(const Value *origin) const {
  auto known = objectNumbers.find(origin);
  return known == objectNumbers.end() ? nullptr : &objects[known->second];
}

const std::vector<CallTarget> &PointsTo::calls(const CallBase *call) const {
  static const std::vector<CallTarget> none;
  auto known = callTargets.find(call);
  return known == callTargets.end() ? none : known->second;
}

const std::vector<Function *> &PointsTo::externals(const CallBase *call) const {
  static const std::vector<Function *> none;
  auto known = callExternals.find(call);
  return known == callExternals.end() ? none : known->second;
}

Function *PointsTo::functionAt(unsigned number) const {
  const Value *origin = objects[locations[number].object].origin;
  return const_cast<Function *>(dyn_cast_or_null<Function>(origin));
}

int PointsTo::variableArguments(const Function *function) const {
  auto known = variadic.find(function);
  return known == variadic.end() ? -1 : static_cast<int>(known->second);
}

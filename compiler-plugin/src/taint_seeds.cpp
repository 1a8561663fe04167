// Where features begin: their variables, and what the analysis has to know of memory before it starts.
#include "taint_flow.h"

#include "access_kind.h"
#include "field_path.h"
#include "structure_names.h"
#include "type_layout.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"

using namespace llvm;
using namespace transect;

void Taint::findCallers() {
  for (const Function &function : module)
    for (const Instruction &instruction : instructions(function)) {
      const auto *call = dyn_cast<CallBase>(&instruction);
      if (call || isa<StoreInst>(instruction) || isa<AtomicRMWInst>(instruction) ||
          isa<AtomicCmpXchgInst>(instruction) || mixesData(instruction))
        sinks[&function].push_back(&instruction);
      if (call)
        for (const CallTarget &target : pointsTo.calls(call))
          callers[target.function].push_back(call);
    }
}

void Taint::findStored() {
  auto isReadOnlyAt = [&](const Value *from) {
    const PointsTo::Set &targets = pointsTo.targets(from);
    for (unsigned location : targets)
      if (!isReadOnly(location))
        return false;
    return !targets.empty();
  };
  for (const Function &function : module)
    for (const Instruction &instruction : instructions(function)) {
      const Value *pointer = nullptr;
      if (const auto *store = dyn_cast<StoreInst>(&instruction)) {
        const Value *to = store->getPointerOperand();
        if (!isa<Constant>(store->getValueOperand()) || accessKind(to) != AccessKind::Variable)
          pointer = to;
      } else if (const auto *copy = dyn_cast<AnyMemTransferInst>(&instruction); copy && isReadOnlyAt(copy->getRawSource()))
        continue;
      else if (const auto *fill = dyn_cast<AnyMemSetInst>(&instruction); fill && isa<Constant>(fill->getValue()))
        continue;
      else if (const auto *exchange = dyn_cast<AtomicRMWInst>(&instruction))
        pointer = exchange->getPointerOperand();
      else if (const auto *transfer = dyn_cast<AnyMemIntrinsic>(&instruction))
        pointer = transfer->getRawDest();
      else if (const auto *call = dyn_cast<CallBase>(&instruction))
        for (const Function *external : pointsTo.externals(call)) {
          ExternalFunction known = externalFunction(*external);
          int to = known.copyTo >= 0 ? known.copyTo : known.fillTo >= 0 ? known.fillTo : known.inputTo;
          if (to >= 0 && static_cast<unsigned>(to) < call->arg_size())
            pointer = call->getArgOperand(to);
        }
      if (pointer)
        for (unsigned location : pointsTo.targets(pointer))
          if (!isReadOnly(location))
            stored.insert(pointsTo.location(location).object);
    }
}

void Taint::seedObject(const PointsTo::Object &object, Id set) {
  for (auto [offset, location] : object.locations)
    seedCell(location, set);
}

void Taint::seedCells(unsigned first, uint64_t bytes, Id set) {
  const auto &places = pointsTo.object(pointsTo.location(first).object).locations;
  const uint64_t start = pointsTo.location(first).offset;
  for (auto place = places.lower_bound(start); place != places.end() && place->first - start < bytes; ++place)
    seedCell(place->second, set);
}

void Taint::seedPlace(unsigned cell, Id set, unsigned parts) {
  if (set == 0)
    return;
  options.insert(cell);
  writeCell(cell, set, parts);
}

void Taint::seedCell(unsigned cell, Id set) {
  seeded.insert(cell);
  seedPlace(cell, set, partsAt(cell));
}

void Taint::seed() {
  contents.resize(cells.cellCount());
  for (auto [global, feature] : copy.globals)
    if (const PointsTo::Object *object = pointsTo.objectOf(global))
      seedObject(*object, sets.single(Label::feature(feature)));
  for (const Function &function : module)
    for (const Instruction &instruction : instructions(function))
      if (auto feature = markedMemory(instruction)) {
        const Value *pointer = cast<CallInst>(instruction).getArgOperand(0);
        Id set = sets.single(Label::feature(*feature));
        const uint64_t bytes = markedBytes(instruction);
        if (bytes != 0 && pointsTo.targets(pointer).empty())
          give(pointer, set);
        for (unsigned location : pointsTo.targets(pointer))
          if (bytes != 0)
            seedCells(location, bytes, set);
          else if (isa<AllocaInst>(pointer) || isa<Argument>(pointer))
            seedObject(pointsTo.object(pointsTo.location(location).object), set);
          else
            seedCell(location, set);
      }
  seedMembers();
  seedBefore();
}

void Taint::seedBefore() {
  MapVector<const Value *, SmallVector<Id, 2>> becomes;
  for (const Function &function : module)
    for (const Instruction &instruction : instructions(function)) {
      const auto *store = dyn_cast<StoreInst>(&instruction);
      const Value *value = store ? store->getValueOperand() : nullptr;
      if (!value || !isa<Argument>(value) || !value->getType()->isPointerTy() || function.getName() == "main")
        continue;
      const auto &places = cells.cells(cells.access(store->getPointerOperand(), sizeOf(value->getType())));
      Id set = 0;
      for (unsigned cell : places)
        set = sets.unite(set, cell < contents.size() ? sets.unite(contents[cell][0], contents[cell][1]) : 0);
      if (all_of(places, [&](unsigned cell) { return options.contains(cell); }) && sets.of(set).size() == 1)
        becomes[value].push_back(set);
    }
  for (const auto &[value, sets] : becomes)
    if (all_equal(sets))
      give(value, sets.front());
}

void Taint::seedMembers() {
  if (copy.members.empty())
    return;
  const DataLayout &layout = module.getDataLayout();
  auto featuresOf = [&](const FieldPlace &place) {
    Id set = 0;
    for (const MemberSeed &seed : copy.members)
      if (seed.bits == 0 && seed.type == place.type && seed.byteOffset == place.offset)
        set = sets.unite(set, sets.single(Label::feature(seed.feature)));
    return set;
  };
  // Where a pointer may lead anywhere, most of that is no such structure.
  constexpr unsigned kFewTargets = 64;
  auto holds = [&](unsigned number, unsigned targets, const FieldPlace &place) {
    const PointsTo::Location &location = pointsTo.location(number);
    const PointsTo::Object &object = pointsTo.object(location.object);
    if (!object.type)
      return targets <= kFewTargets;
    return mayBeSeenAs(object.type, location.offset, place.type, place.offset, layout);
  };
  for (const MemberSeed &seed : copy.members)
    if (seed.bits == 0)
      seedPlace(cells.fieldCell(seed.type, seed.byteOffset), sets.single(Label::feature(seed.feature)),
                transect::partsAt(seed.type, seed.byteOffset, layout));
  for (unsigned number = 0; number < pointsTo.objectCount(); ++number) {
    const PointsTo::Object &object = pointsTo.object(number);
    if (!object.type)
      continue;
    for (auto [offset, location] : object.locations) {
      SmallVector<FieldPlace, 4> places;
      const auto *global = dyn_cast_or_null<GlobalVariable>(object.origin);
      fieldsIn(global ? sourceType(*global) : object.type, offset, layout, places);
      for (const FieldPlace &place : places)
        seedPlace(location, featuresOf(place), transect::partsAt(place.type, place.offset, layout));
    }
  }
  for (const Function &function : module)
    for (const Instruction &instruction : instructions(function))
      if (isa<GetElementPtrInst>(instruction))
        for (const FieldPlace &place : fieldsAt(&instruction, layout))
          if (Id set = featuresOf(place))
            for (unsigned location : pointsTo.targets(&instruction))
              if (holds(location, pointsTo.targets(&instruction).count(), place))
                seedPlace(location, set, transect::partsAt(place.type, place.offset, layout));
}

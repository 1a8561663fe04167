// What memory and parameters carry.
#include "taint_flow.h"

#include "access_kind.h"

using namespace llvm;
using namespace transect;

Taint::Id Taint::total(Id set, const Function *function) {
  return sets.substitute(set, [&](unsigned number) -> LabelSets::Given {
    if (number >= function->arg_size())
      return {0, false, false};
    Id given = carried.lookup(function->getArg(number));
    if (explanation)
      explanation->take(TaintPlace::parameter(function->getArg(number)), given);
    const bool data = holdsDataForAnyCall(function->getArg(number));
    return {given, data, data};
  });
}

void Taint::carry(const Argument *parameter, Id set) {
  Id &place = carried[parameter];
  if (!raise(place, set))
    return;
  if (explanation)
    explanation->arrive(TaintPlace::parameter(parameter), place);
  for (const Instruction *sink : sinks[parameter->getParent()])
    push(sink);
}

/// Of an access and parts, one number.
static unsigned keyOf(unsigned access, unsigned parts) { return access * 4 + parts; }

Taint::Id Taint::memory(unsigned access, unsigned parts) {
  Id result = 0;
  for (unsigned cell : cells.cells(access))
    if (cell < contents.size())
      for (unsigned place = 0; place < 2; ++place)
        if (parts & 1u << place) {
          result = sets.unite(result, contents[cell][place]);
          if (explanation)
            explanation->take(TaintPlace::cell(cell), contents[cell][place]);
        }
  return result;
}

Taint::Id Taint::read(const Instruction *reader, const Value *pointer, uint64_t size, unsigned parts) {
  unsigned access = cells.access(pointer, size);
  const Watch &seen = watch(reader, access, parts);
  return explanation ? memory(access, parts) : seen.contents;
}

Taint::Watch &Taint::watch(const Instruction *reader, unsigned access, unsigned parts) {
  const unsigned key = keyOf(access, parts);
  Watch &watch = watches[key];
  if (watch.readers.empty()) {
    watch.contents = memory(access, parts);
    for (unsigned cell : cells.cells(access)) {
      if (cell >= cellAccesses.size())
        cellAccesses.resize(cell + 1);
      cellAccesses[cell].push_back(key);
    }
  }
  if (watched.insert({reader, key}).second)
    watch.readers.push_back(reader);
  return watch;
}

void Taint::writeCell(unsigned cell, Id set, unsigned parts) {
  if (set == 0 || leadsNowhere || isReadOnly(cell))
    return;
  // What an option holds is the option, wherever it comes from.
  if (options.contains(cell))
    set = sets.withoutData(set);
  if (cell >= contents.size())
    contents.resize(cells.cellCount());
  unsigned changed = 0;
  for (unsigned place = 0; place < 2; ++place)
    if (parts & 1u << place && raise(contents[cell][place], set))
      changed |= 1u << place;
  if (!changed)
    return;
  if (explanation)
    explanation->arrive(TaintPlace::cell(cell), set);
  if (cell >= cellAccesses.size())
    return;
  for (unsigned key : cellAccesses[cell]) {
    if (!(key & changed))
      continue;
    Watch &watch = watches[key];
    if (raise(watch.contents, set))
      for (const Instruction *reader : watch.readers)
        push(reader);
  }
}

bool Taint::isReadOnly(unsigned cell) const {
  if (cell >= pointsTo.locationCount())
    return false;
  return pointsTo.object(pointsTo.location(cell).object).isReadOnly;
}

void Taint::write(unsigned access, Id set, unsigned parts) {
  if (leadsNowhere)
    return;
  if (!raise(written[keyOf(access, parts)], set))
    return;
  for (unsigned cell : cells.cells(access))
    writeCell(cell, set, parts);
}

void Taint::write(const Value *pointer, uint64_t size, Id set, unsigned parts) {
  if (set != 0)
    write(cells.access(pointer, size), set, parts);
}

/// By the scalar that the cell is, as far as that is known.
unsigned Taint::partsAt(unsigned cell) const {
  if (cell >= pointsTo.locationCount())
    return part::kAll;
  const PointsTo::Location &location = pointsTo.location(cell);
  const PointsTo::Object &object = pointsTo.object(location.object);
  return object.whole ? part::kAll : transect::partsAt(object.type, location.offset, module.getDataLayout());
}

void Taint::copyMemory(const Instruction *reader, const Value *to, const Value *from, uint64_t length) {
  auto [place, isNew] = copied.try_emplace(reader);
  // Text that is appended to other text is data from there on.
  const bool appends = length == ~0ull && accessKind(to) == AccessKind::Element;
  const bool elements = isElement(to);
  if (isNew)
    place->second = cells.copied(to, from, length);
  for (const MemoryCells::Copied &range : place->second)
    for (unsigned part : {part::kNumbers, part::kAddresses}) {
      const Watch &seen = watch(reader, range.from, part);
      Id set = explanation ? memory(range.from, part) : seen.contents;
      if (set != 0 && elements)
        set = sets.withoutData(set);
      if (set != 0)
        write(range.to, appends ? sets.weakened(set, Dependence::Content) : set, part);
    }
}

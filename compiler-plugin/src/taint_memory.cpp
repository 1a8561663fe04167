// What memory and parameters carry.
#include "taint_flow.h"

#include "access_kind.h"

using namespace llvm;
using namespace transect;

Taint::Id Taint::total(Id set, const Function *function) {
  return sets.substitute(set, [&](unsigned number) -> Id {
    if (number >= function->arg_size())
      return 0;
    Id given = carried.lookup(function->getArg(number));
    if (explanation)
      explanation->take(TaintPlace::parameter(function->getArg(number)), given);
    return given;
  });
}

void Taint::carry(const Argument *parameter, Id set) {
  Id &place = carried[parameter];
  Id united = sets.unite(place, set);
  if (united == place)
    return;
  place = united;
  if (explanation)
    explanation->arrive(TaintPlace::parameter(parameter), united);
  for (const Instruction *sink : sinks[parameter->getParent()])
    push(sink);
}

Taint::Id Taint::memory(unsigned access) {
  Id result = 0;
  for (unsigned cell : cells.cells(access))
    if (cell < contents.size()) {
      result = sets.unite(result, contents[cell]);
      if (explanation)
        explanation->take(TaintPlace::cell(cell), contents[cell]);
    }
  return result;
}

Taint::Id Taint::read(const Instruction *reader, const Value *pointer, uint64_t size) {
  unsigned access = cells.access(pointer, size);
  watch(reader, access);
  return explanation ? memory(access) : watches[access].contents;
}

void Taint::watch(const Instruction *reader, unsigned access) {
  Watch &watch = watches[access];
  if (watch.readers.empty()) {
    watch.contents = memory(access);
    for (unsigned cell : cells.cells(access)) {
      if (cell >= cellAccesses.size())
        cellAccesses.resize(cell + 1);
      cellAccesses[cell].push_back(access);
    }
  }
  if (watched.insert({reader, access}).second)
    watch.readers.push_back(reader);
}

void Taint::writeCell(unsigned cell, Id set) {
  if (set == 0 || leadsNowhere)
    return;
  if (cell >= contents.size())
    contents.resize(cells.cellCount());
  Id united = sets.unite(contents[cell], set);
  if (united == contents[cell])
    return;
  contents[cell] = united;
  if (explanation)
    explanation->arrive(TaintPlace::cell(cell), united);
  if (cell >= cellAccesses.size())
    return;
  for (unsigned access : cellAccesses[cell]) {
    Watch &watch = watches[access];
    Id read = sets.unite(watch.contents, united);
    if (read == watch.contents)
      continue;
    watch.contents = read;
    for (const Instruction *reader : watch.readers)
      push(reader);
  }
}

bool Taint::isReadOnly(unsigned cell) const {
  return cell < pointsTo.locationCount() &&
         copy.readOnly.contains(pointsTo.object(pointsTo.location(cell).object).origin);
}

void Taint::write(unsigned access, Id set) {
  if (leadsNowhere)
    return;
  Id &before = written[access];
  Id united = sets.unite(before, set);
  if (united == before)
    return;
  before = united;
  for (unsigned cell : cells.cells(access))
    if (!isReadOnly(cell))
      writeCell(cell, set);
}

void Taint::write(const Value *pointer, uint64_t size, Id set) {
  if (set != 0)
    write(cells.access(pointer, size), set);
}

void Taint::copyMemory(const Instruction *reader, const Value *to, const Value *from, uint64_t length) {
  auto [place, isNew] = copied.try_emplace(reader);
  // Text that is appended to other text is data from there on.
  const bool appends = length == ~0ull && accessKind(to) == AccessKind::Element;
  if (isNew) {
    place->second = cells.copied(to, from, length);
    for (const MemoryCells::Copied &range : place->second)
      watch(reader, range.from);
  }
  for (const MemoryCells::Copied &range : place->second)
    if (Id set = explanation ? memory(range.from) : watches[range.from].contents)
      write(range.to, appends ? sets.weakened(set, Dependence::Content) : set);
}

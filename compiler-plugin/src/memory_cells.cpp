#include "memory_cells.h"

#include "field_path.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/Constants.h"

#include <algorithm>
#include <iterator>

using namespace llvm;
using namespace transect;

MemoryCells::MemoryCells(const Module &module, const PointsTo &pointsTo)
    : layout(module.getDataLayout()), pointsTo(pointsTo), count(pointsTo.locationCount()) {}

unsigned MemoryCells::intern(std::vector<unsigned> cells) {
  std::sort(cells.begin(), cells.end());
  cells.erase(std::unique(cells.begin(), cells.end()), cells.end());
  auto [place, isNew] = numbers.try_emplace(cells, accesses.size());
  if (isNew)
    accesses.push_back(std::move(cells));
  return place->second;
}

unsigned MemoryCells::fieldCell(StructType *type, uint64_t offset) {
  auto [place, isNew] = fields.try_emplace({type, offset}, count);
  if (isNew)
    ++count;
  return place->second;
}

unsigned MemoryCells::starts(const Value *pointer) {
  auto seen = startsOf.find(pointer);
  if (seen != startsOf.end())
    return seen->second;
  std::vector<unsigned> cells;
  for (unsigned number : pointsTo.targets(pointer))
    if (!pointsTo.functionAt(number))
      cells.push_back(number);
  return startsOf[pointer] = intern(std::move(cells));
}

/// The cells of `size` bytes from each of the starts on.
unsigned MemoryCells::within(unsigned starts, uint64_t size) {
  auto seen = ranges.find({starts, size});
  if (seen != ranges.end())
    return seen->second;
  std::vector<unsigned> cells;
  for (unsigned number : accesses[starts]) {
    auto [object, offset] = pointsTo.location(number);
    const auto &places = pointsTo.object(object).locations;
    for (auto place = places.lower_bound(offset); place != places.end() && place->first - offset < size; ++place)
      cells.push_back(place->second);
  }
  return ranges[{starts, size}] = intern(std::move(cells));
}

unsigned MemoryCells::access(const Value *pointer, uint64_t size) {
  const unsigned from = starts(pointer), inside = within(from, size);
  if ((!accesses[from].empty() && pointsTo.complete()) || isa<ConstantPointerNull>(pointer))
    return inside;
  auto seen = outside.find({pointer, size});
  if (seen != outside.end())
    return seen->second;
  std::vector<unsigned> cells = accesses[inside];
  if (auto places = fieldsAt(pointer, layout); !places.empty())
    cells.push_back(fieldCell(places.front().type, places.front().offset));
  return outside[{pointer, size}] = intern(std::move(cells));
}

/// The cells at one distance from the starts.
unsigned MemoryCells::behind(unsigned starts, uint64_t distance) {
  auto seen = shifted.find({starts, distance});
  if (seen != shifted.end())
    return seen->second;
  std::vector<unsigned> cells;
  for (unsigned number : accesses[starts]) {
    auto [object, start] = pointsTo.location(number);
    if (int cell = pointsTo.locationIn(object, static_cast<int64_t>(start + distance)); cell >= 0)
      cells.push_back(cell);
  }
  return shifted[{starts, distance}] = intern(std::move(cells));
}

/// Those starts behind which so many bytes may be.
unsigned MemoryCells::holding(unsigned starts, uint64_t length) {
  auto seen = filtered.find({starts, length});
  if (seen != filtered.end())
    return seen->second;
  std::vector<unsigned> cells;
  copy_if(accesses[starts], std::back_inserter(cells),
          [&](unsigned number) { return pointsTo.hasBytes(number, length); });
  return filtered[{starts, length}] = intern(std::move(cells));
}

/// The cells of `length` bytes from the starts on, as one access for each distance.
const std::vector<std::pair<uint64_t, unsigned>> &MemoryCells::byDistance(unsigned starts, uint64_t length) {
  auto [known, isNew] = sources.try_emplace({starts, length});
  if (!isNew)
    return known->second;
  std::map<uint64_t, std::vector<unsigned>> groups;
  for (unsigned number : accesses[starts]) {
    auto [object, offset] = pointsTo.location(number);
    const auto &places = pointsTo.object(object).locations;
    for (auto place = places.lower_bound(offset); place != places.end() && place->first - offset < length; ++place)
      groups[place->first - offset].push_back(place->second);
  }
  for (auto &[distance, cells] : groups)
    known->second.push_back({distance, intern(std::move(cells))});
  return known->second;
}

std::vector<MemoryCells::Copied> MemoryCells::copied(const Value *to, const Value *from, uint64_t length) {
  std::vector<Copied> result;
  const unsigned into = holding(starts(to), length);
  for (auto [distance, source] : byDistance(holding(starts(from), length), length))
    if (unsigned target = behind(into, distance); !accesses[target].empty())
      result.push_back({source, target});
  return result;
}

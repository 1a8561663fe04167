#include "type_layout.h"

using namespace llvm;
using namespace transect;

namespace {

/// By its name one of C++, which the link gives to no union of its shape in practice.
bool isClass(const Type *type) {
  const auto *structure = dyn_cast<StructType>(type);
  const StringRef name = structure && structure->hasName() ? structure->getName() : "";
  return name.starts_with("class.") || name.starts_with("struct.std::");
}

/// Clang's shape of a union: its most aligned member, and padding. The link may take a union's name away.
bool mayBeUnion(const StructType &type) {
  if (type.getNumElements() == 1)
    return !isClass(&type) && !isClass(type.getElementType(0));
  if (type.getNumElements() != 2)
    return false;
  const auto *padding = dyn_cast<ArrayType>(type.getElementType(1));
  return padding && padding->getElementType()->isIntegerTy(8);
}

/// Whether the fields of `seen`, which starts `place` bytes into `type`, are the same there up to byte `last`.
bool agrees(Type *type, uint64_t place, Type *seen, uint64_t start, uint64_t last, const DataLayout &layout) {
  if (start > last)
    return true;
  if (auto *array = dyn_cast<ArrayType>(seen))
    return array->getNumElements() == 0 || agrees(type, place, array->getElementType(), start, last, layout);
  auto *structure = dyn_cast<StructType>(seen);
  if (!structure) {
    if (place + start >= layout.getTypeAllocSize(type))
      return false;
    Type *there = scalarAt(type, place + start, layout);
    return !there || there == seen || seen->isIntegerTy(8);
  }
  // The end of a tree, list or table is the beginning of a node, in the container itself: it has no element.
  if (isStorage(*structure))
    return place + start < layout.getTypeAllocSize(type) && !scalarAt(type, place + start, layout);
  if (mayBeUnion(*structure))
    return true;
  const StructLayout *fields = layout.getStructLayout(structure);
  for (unsigned i = 0; i < structure->getNumElements(); ++i)
    if (!agrees(type, place, structure->getElementType(i), start + fields->getElementOffset(i), last, layout))
      return false;
  return true;
}

enum class Inside { Type, Scalar, Unknown };

/// Goes to the element of `type` that lies at `place`, which becomes the place in that one.
Inside goInside(Type *&type, uint64_t &place, const DataLayout &layout) {
  if (auto *array = dyn_cast<ArrayType>(type)) {
    type = array->getElementType();
    const uint64_t size = layout.getTypeAllocSize(type);
    if (size == 0)
      return Inside::Unknown;
    place %= size;
    return Inside::Type;
  }
  auto *structure = dyn_cast<StructType>(type);
  if (!structure)
    return Inside::Scalar;
  const StructLayout *fields = layout.getStructLayout(structure);
  if (mayBeUnion(*structure) || place >= static_cast<uint64_t>(fields->getSizeInBytes()))
    return Inside::Unknown;
  const unsigned element = fields->getElementContainingOffset(place);
  place -= fields->getElementOffset(element);
  type = structure->getElementType(element);
  return Inside::Type;
}

}  // namespace

bool transect::isStorage(const StructType &type) {
  const StringRef name = type.hasName() ? type.getName() : "";
  return name.contains("__aligned_membuf") || name.contains("__aligned_buffer");
}

Type *transect::scalarAt(Type *type, uint64_t place, const DataLayout &layout) {
  Inside inside;
  while ((inside = goInside(type, place, layout)) == Inside::Type) {
  }
  return inside == Inside::Unknown || type->isIntegerTy(8) ? nullptr : type;
}

bool transect::mayBeSeenAs(Type *type, uint64_t place, StructType *seen, uint64_t field, const DataLayout &layout) {
  Type *around = type;
  for (uint64_t rest = place; around != seen || rest != 0;) {
    const Inside inside = goInside(around, rest, layout);
    if (inside == Inside::Unknown)
      return true;
    if (inside == Inside::Scalar)
      return around->isIntegerTy(8) || agrees(type, place, seen, 0, field, layout);
  }
  return true;
}

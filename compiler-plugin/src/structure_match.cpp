#include "structure_match.h"

#include "structure_names.h"
#include "type_layout.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/BinaryFormat/Dwarf.h"

using namespace llvm;
using namespace transect;

namespace {

/// Whether a scalar of the debug information, without typedefs, may be one of the code: pointers, integers and numbers
/// with a fraction are not each other. What is rarer may be anything.
bool mayBe(const DIType *described, const Type *type) {
  type = type->getScalarType();
  if (described && described->getTag() == dwarf::DW_TAG_pointer_type)
    return type->isPointerTy();
  const auto *basic = dyn_cast_or_null<DIBasicType>(described);
  if (!basic)
    return true;
  switch (basic->getEncoding()) {
  case dwarf::DW_ATE_float:
    return type->isFloatingPointTy();
  case dwarf::DW_ATE_signed:
  case dwarf::DW_ATE_unsigned:
    return type->isIntegerTy() && type->getIntegerBitWidth() == basic->getSizeInBits();
  default:
    return true;
  }
}

/// Whether the fields of a type of the code may be those that the debug information tells.
bool haveSameFields(StructType &type, uint64_t base, const DICompositeType &described, const DataLayout &layout) {
  for (const DINode *element : described.getElements()) {
    const auto *member = dyn_cast_or_null<DIDerivedType>(element);
    if (!member || member->isStaticMember() || member->isBitField() || member->getTag() != dwarf::DW_TAG_member)
      continue;
    const uint64_t place = base + member->getOffsetInBits();
    const DIType *inner = elementType(member->getBaseType());
    if (const DICompositeType *structure = structureOf(inner)) {
      if (inner->getTag() != dwarf::DW_TAG_union_type && !haveSameFields(type, place, *structure, layout))
        return false;
    } else if (Type *there = scalarAt(&type, place / 8, layout); there && !mayBe(inner, there)) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool transect::isStructureOf(StructType &type, const ProgramVariable &member, const DataLayout &layout) {
  const DICompositeType &described = *member.type;
  auto [tag, place] = structureName(type);
  if (tag.empty() || type.isOpaque() || (!place.empty() && place != declarationPlace(described)))
    return false;
  const bool hasItsSize = layout.getTypeAllocSizeInBits(&type) == described.getSizeInBits();
  auto isIt = [&](StringRef name) {
    return any_of(member.tags, [&](StringRef wanted) {
      // A template's instances have one name in the code and their own ones in the debug information.
      return name == wanted || (name == wanted.split('<').first && hasItsSize);
    });
  };
  const std::string written = writtenName(tag);
  // The linker numbers types of one name; the suffix `.base` is a class without its tail padding.
  bool isBase = false;
  StringRef bare = written;
  while (!isIt(bare)) {
    auto [head, tail] = bare.rsplit('.');
    if (tail.empty() || (tail != "base" && !all_of(tail, isDigit)))
      return false;
    isBase |= tail == "base";
    bare = head;
  }
  if (!place.empty())
    return true;
  return (hasItsSize || isBase) && (described.getTag() == dwarf::DW_TAG_union_type ||
                                    haveSameFields(type, 0, described, layout));
}

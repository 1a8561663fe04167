#include "field_path.h"

#include "structure_names.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/GlobalVariable.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Operator.h"

#include <algorithm>

using namespace llvm;
using namespace transect;

void transect::fieldsIn(Type *type, uint64_t offset, const DataLayout &layout, SmallVectorImpl<FieldPlace> &result) {
  while (true) {
    if (auto *structure = dyn_cast<StructType>(type)) {
      if (structure->isOpaque() || structure->getNumElements() == 0)
        return;
      result.push_back({structure, offset});
      const StructLayout *fields = layout.getStructLayout(structure);
      if (offset >= static_cast<uint64_t>(fields->getSizeInBytes()))
        return;
      unsigned element = fields->getElementContainingOffset(offset);
      offset -= fields->getElementOffset(element);
      type = structure->getElementType(element);
    } else if (auto *array = dyn_cast<ArrayType>(type)) {
      type = array->getElementType();
      uint64_t size = layout.getTypeAllocSize(type);
      if (size == 0)
        return;
      offset %= size;
    } else {
      return;
    }
  }
}

SmallVector<FieldPlace, 4> transect::fieldsAt(const Value *pointer, const DataLayout &layout) {
  SmallVector<FieldPlace, 4> result;
  uint64_t behind = 0;
  for (unsigned steps = 0; steps < 32; ++steps) {
    // Not stripPointerCasts: it takes the address of a first field for that of its structure.
    if (isa<BitCastOperator>(pointer) || isa<AddrSpaceCastOperator>(pointer)) {
      pointer = cast<Operator>(pointer)->getOperand(0);
      continue;
    }
    const auto *address = dyn_cast<GEPOperator>(pointer);
    if (!address)
      break;
    SmallVector<FieldPlace, 4> levels;
    uint64_t inside = 0;
    Type *type = address->getSourceElementType();
    auto index = address->idx_begin();
    const auto *first = dyn_cast<ConstantInt>(*index);
    if (first && type->isIntegerTy(8))
      inside = first->getSExtValue();
    for (++index; index != address->idx_end(); ++index) {
      if (auto *structure = dyn_cast<StructType>(type)) {
        unsigned element = cast<ConstantInt>(*index)->getZExtValue();
        levels.push_back({structure, inside});
        inside += layout.getStructLayout(structure)->getElementOffset(element);
        type = structure->getElementType(element);
      } else if (auto *array = dyn_cast<ArrayType>(type)) {
        type = array->getElementType();
      } else if (auto *vector = dyn_cast<VectorType>(type)) {
        type = vector->getElementType();
      }
    }
    // A constant address in a global variable: the variable tells its structures by their names in the source.
    const auto *global = isa<Constant>(address) ? dyn_cast<GlobalVariable>(address->getPointerOperand()) : nullptr;
    if (global && global->getValueType() == address->getSourceElementType())
      levels.clear();
    for (auto level = levels.rbegin(); level != levels.rend(); ++level)
      result.push_back({level->type, inside - level->offset + behind});
    behind += inside;
    pointer = address->getPointerOperand();
  }
  Type *type = nullptr;
  if (const auto *global = dyn_cast<GlobalVariable>(pointer))
    type = sourceType(*global);
  else if (const auto *local = dyn_cast<AllocaInst>(pointer))
    type = local->getAllocatedType();
  if (type) {
    SmallVector<FieldPlace, 4> inner;
    fieldsIn(type, behind, layout, inner);
    result.append(inner.rbegin(), inner.rend());
  }
  return result;
}

#include "access_kind.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Operator.h"

using namespace llvm;
using namespace transect;

AccessKind transect::accessKind(const Value *pointer) {
  for (unsigned steps = 0; steps < 8; ++steps) {
    if (isa<PHINode>(pointer) || isa<LoadInst>(pointer))
      return AccessKind::Unknown;
    const auto *address = dyn_cast<GEPOperator>(pointer);
    if (!address)
      return AccessKind::Variable;
    if (!address->hasAllConstantIndices())
      return AccessKind::Element;
    // A field of what the pointer points to is a variable, whichever object that is.
    if (address->getSourceElementType()->isStructTy())
      return AccessKind::Variable;
    pointer = address->getPointerOperand();
  }
  return AccessKind::Variable;
}

bool transect::isScalarAt(Type *type, uint64_t offset, const DataLayout &layout) {
  while (auto *structure = dyn_cast_or_null<StructType>(type)) {
    const StructLayout *fields = layout.getStructLayout(structure);
    if (structure->isOpaque() || offset >= static_cast<uint64_t>(fields->getSizeInBytes()))
      return false;
    unsigned element = fields->getElementContainingOffset(offset);
    offset -= fields->getElementOffset(element);
    type = structure->getElementType(element);
  }
  return type && type->isSingleValueType();
}

bool transect::isCutToByte(const Value *value) {
  const auto *cut = dyn_cast<TruncInst>(value);
  if (!cut || !cut->getType()->isIntegerTy(8))
    return false;
  const Value *wide = cut->getOperand(0);
  return !isa<ZExtInst>(wide) && !isa<SExtInst>(wide);
}

bool transect::isCopyOrComparison(const Instruction &instruction) {
  if (isa<CastInst>(instruction) || isa<CmpInst>(instruction) || isa<FreezeInst>(instruction) ||
      isa<ExtractValueInst>(instruction) || isa<InsertValueInst>(instruction) || instruction.getType()->isIntegerTy(1))
    return true;
  if (const auto *address = dyn_cast<GetElementPtrInst>(&instruction))
    return address->hasAllConstantIndices();
  if (const auto *intrinsic = dyn_cast<IntrinsicInst>(&instruction))
    return intrinsic->getIntrinsicID() == Intrinsic::expect || intrinsic->getIntrinsicID() == Intrinsic::ssa_copy;
  const auto *operation = dyn_cast<BinaryOperator>(&instruction);
  if (!operation || (!isa<ConstantInt>(operation->getOperand(0)) && !isa<ConstantInt>(operation->getOperand(1))))
    return false;
  // A bit, or a field of bits.
  return operation->isShift() || operation->getOpcode() == Instruction::And || operation->getOpcode() == Instruction::Xor;
}

bool transect::mixesData(const Instruction &instruction) {
  if (const auto *address = dyn_cast<GetElementPtrInst>(&instruction)) {
    const Value *base = address->getPointerOperand()->stripInBoundsOffsets();
    return !address->hasAllConstantIndices() && !isa<Constant>(base) && !isa<AllocaInst>(base);
  }
  const auto *operation = dyn_cast<BinaryOperator>(&instruction);
  return operation && !operation->getType()->isIntegerTy(1) && !operation->isBitwiseLogicOp() &&
         !isa<Constant>(operation->getOperand(0)) && !isa<Constant>(operation->getOperand(1));
}

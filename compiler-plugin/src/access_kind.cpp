#include "access_kind.h"

#include "type_layout.h"

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

namespace {

/// The scalar that is no part of an array and lies at a byte of a type, or null.
Type *variableAt(Type *type, uint64_t offset, const DataLayout &layout) {
  while (auto *structure = dyn_cast_or_null<StructType>(type)) {
    const StructLayout *fields = layout.getStructLayout(structure);
    if (structure->isOpaque() || offset >= static_cast<uint64_t>(fields->getSizeInBytes()))
      return nullptr;
    unsigned element = fields->getElementContainingOffset(offset);
    offset -= fields->getElementOffset(element);
    type = structure->getElementType(element);
  }
  return type && type->isSingleValueType() ? type : nullptr;
}

}  // namespace

bool transect::isScalarAt(Type *type, uint64_t offset, const DataLayout &layout) {
  return variableAt(type, offset, layout);
}

unsigned transect::partsOf(const Type *type) {
  if (!type || !type->isSingleValueType() || type->isVectorTy())
    return part::kAll;
  if (type->isIntegerTy() && type->getIntegerBitWidth() >= 64)
    return part::kAll;
  return type->isPointerTy() ? part::kAddresses : part::kNumbers;
}

unsigned transect::partsAt(Type *type, uint64_t offset, const DataLayout &layout) {
  if (!type)
    return part::kAll;
  if (const Type *scalar = scalarAt(type, offset, layout))
    return partsOf(scalar);
  // Unions and buffers may hold anything, but for one byte that is a variable.
  const Type *variable = variableAt(type, offset, layout);
  return variable && variable->isIntegerTy(8) ? part::kNumbers : part::kAll;
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

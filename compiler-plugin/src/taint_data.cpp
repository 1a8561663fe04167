// Which values hold data: numbers that no option tells, such as sizes of input and positions in it.
#include "access_kind.h"
#include "taint_flow.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/Operator.h"

using namespace llvm;
using namespace transect;

bool Taint::holdsDataForAnyCall(const Value *value) const {
  const Id own = before.values.lookup(value);
  if (sets.hasData(own))
    return true;
  const auto *parameter = dyn_cast<Argument>(value);
  const auto *instruction = dyn_cast<Instruction>(value);
  const Function *function = parameter ? parameter->getParent() : instruction ? instruction->getFunction() : nullptr;
  return function && any_of(sets.of(own), [&](Label label) {
           return label.isParameter() && !label.isWithoutData() && label.hops() == 0 && label.number() < function->arg_size() &&
                  sets.hasData(before.carried.lookup(function->getArg(label.number())));
         });
}

bool Taint::isArithmetic(const Instruction &instruction) {
  if (const auto *address = dyn_cast<GetElementPtrInst>(&instruction))
    return !address->hasAllConstantIndices() || (!address->getSourceElementType()->isAggregateType() && !address->hasAllZeroIndices());
  const auto *operation = dyn_cast<BinaryOperator>(&instruction);
  return operation && !operation->getType()->isIntegerTy(1) && !operation->isBitwiseLogicOp() && !isCopyOrComparison(instruction);
}

/// Whether arithmetic goes on from its own last result: `count += n`, `position++`. Of what memory holds it may.
static bool isCount(const Instruction &instruction) {
  for (const Value *operand : instruction.operand_values()) {
    while (isa<CastInst>(operand))
      operand = cast<CastInst>(operand)->getOperand(0);
    if (isa<LoadInst>(operand))
      return true;
    SmallVector<const Value *, 8> ways = {operand};
    for (size_t i = 0; i < ways.size() && ways.size() < 32; ++i)
      if (const auto *phi = dyn_cast<PHINode>(ways[i]))
        for (const Value *way : phi->incoming_values()) {
          if (way == &instruction)
            return true;
          if (!is_contained(ways, way))
            ways.push_back(way);
        }
  }
  return false;
}

bool Taint::isComputedData(const Instruction *instruction) {
  if (!dataPass)
    return false;
  if (dataPass > 1)
    return holdsData(instruction);
  const Dependence weakest = isCount(*instruction) ? Dependence::Computed : Dependence::Stored;
  auto tells = [=](Label label) { return !label.isParameter() && label.dependence() <= weakest; };
  const Function *function = instruction->getFunction();
  return none_of(sets.of(before.values.lookup(instruction)), [&](Label label) {
    return tells(label) || (label.isParameter() && label.dependence() <= weakest && label.number() < function->arg_size() &&
                            any_of(sets.of(before.carried.lookup(function->getArg(label.number()))), tells));
  });
}

/// `state == 1`, where 1 is one of the constants that the ways here choose among. Nothing or zero is a count, too.
static bool isChosenConstant(const CmpInst &comparison) {
  const auto *constant = dyn_cast<Constant>(comparison.getOperand(1));
  const auto *phi = dyn_cast<PHINode>(comparison.getOperand(0));
  return comparison.isEquality() && constant && !constant->isNullValue() && phi && is_contained(phi->incoming_values(), constant);
}

Taint::Id Taint::compared(const Value *operand) {
  // Bits that are set in a word are told apart from the others.
  const auto *operation = dyn_cast<BinaryOperator>(operand);
  const bool bits = operation && operation->getOpcode() == Instruction::And;
  return sets.compared(labels(operand), holdsData(operand), holdsDataForAnyCall(operand), true, bits);
}

Taint::Id Taint::compared(const Instruction *comparison) {
  const Value *left = comparison->getOperand(0), *right = comparison->getOperand(1);
  // A pointer may be none because an option chose that, but not where memory holds others, too.
  if ((isa<ConstantPointerNull>(right) && !isa<LoadInst>(left)) || isChosenConstant(*cast<CmpInst>(comparison)))
    return sets.withoutData(labels(left));
  return sets.unite(compared(left), compared(right));
}

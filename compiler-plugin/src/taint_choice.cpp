// Values that are computed from features, or chosen by them.
#include "taint_flow.h"

#include "access_kind.h"
#include "flag_bits.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Operator.h"

using namespace llvm;
using namespace transect;

Taint::Id Taint::labelsBesideOwn(const Value *value, const StoreInst &store, unsigned depth) {
  const auto *instruction = dyn_cast<Instruction>(value);
  const Value *place = store.getPointerOperand();
  if (!instruction || depth > 6 || !isa<LoadInst>(place))
    return labels(value);
  if (const auto *load = dyn_cast<LoadInst>(instruction))
    return isSameAddress(load->getPointerOperand(), place) ? 0 : labels(value);
  auto besideOwn = [&](const Value *part) { return labelsBesideOwn(part, store, depth + 1); };
  if (isa<CastInst>(instruction) || isa<CmpInst>(instruction) || isa<BinaryOperator>(instruction)) {
    Id result = 0;
    for (const Value *operand : instruction->operand_values())
      result = sets.unite(result, besideOwn(operand));
    return isCopyOrComparison(*instruction) ? result : sets.weakened(result, Dependence::Computed);
  }
  if (const auto *select = dyn_cast<SelectInst>(instruction))
    return selected(*select, besideOwn);
  if (const auto *phi = dyn_cast<PHINode>(instruction)) {
    Id result = 0;
    for (const Value *incoming : phi->incoming_values())
      result = sets.unite(result, besideOwn(incoming));
    return sets.unite(result, chosen(phi, besideOwn));
  }
  const auto *call = dyn_cast<CallBase>(instruction);
  if (!call || isa<IntrinsicInst>(call) || !call->getCalledFunction() || call->getCalledFunction()->isDeclaration())
    return labels(value);
  const Id result = returned.lookup(call->getCalledFunction());
  if (explanation)
    explanation->take(TaintPlace::result(call->getCalledFunction()), sets.features(result));
  return sets.substitute(result, [&](unsigned number) {
    const Value *argument = number < call->arg_size() ? call->getArgOperand(number) : nullptr;
    return argument ? LabelSets::Given{besideOwn(argument), holdsData(argument), holdsDataForAnyCall(argument)} : LabelSets::Given{0, false, false};
  });
}

bool Taint::isData(const Value *value) {
  if (isa<Constant>(value))
    return false;
  if (holdsDataForAnyCall(value))
    return true;
  const Id own = values.lookup(value);
  // A position in data is data, however it was computed.
  const bool isPosition = value->getType()->isPointerTy() || isa<PtrToIntInst>(value);
  auto isNumber = [=](Label label) {
    return !label.isData() && label.dependence() < Dependence::Stored && !(isPosition && label.isMixed());
  };
  auto isFeature = [=](Label label) { return !label.isParameter() && isNumber(label); };
  if (any_of(sets.of(own), isFeature))
    return false;
  const auto *instruction = dyn_cast<Instruction>(value);
  const auto *parameter = dyn_cast<Argument>(value);
  const Function *function = parameter ? parameter->getParent() : instruction ? instruction->getFunction() : nullptr;
  for (Label label : sets.of(own))
    if (label.isParameter() && isNumber(label) && function &&
        label.number() < function->arg_size() &&
        any_of(sets.of(carried.lookup(function->getArg(label.number()))), isFeature))
      return false;
  return true;
}

Taint::Id Taint::mixed(const Instruction *instruction) {
  Id result = 0;
  for (const Use &own : instruction->operands()) {
    const bool data = any_of(instruction->operands(), [&](const Use &other) { return &other != &own && isData(other); });
    result = sets.unite(result, data ? sets.mixed(labels(own)) : sets.weakened(labels(own), Dependence::Computed));
  }
  return result;
}

Taint::Id Taint::derived(const Instruction *instruction, Id set) {
  if (const auto *operation = dyn_cast<BinaryOperator>(instruction); operation && !operation->getType()->isIntegerTy(1)) {
    const auto *word = dyn_cast<ConstantInt>(operation->getOperand(1));
    if (operation->getOpcode() == Instruction::And && word && word->getBitWidth() <= 64)
      return sets.inBits(set, word->getZExtValue());
    if (operation->isBitwiseLogicOp())
      return isCopyOrComparison(*instruction) ? set : sets.weakenedBits(set, Dependence::Computed);
  }
  // Of the sign further bits are copies.
  if (isa<SExtInst>(instruction)) {
    const unsigned width = instruction->getOperand(0)->getType()->getScalarSizeInBits();
    return width < 2 || sets.inBits(set, ~(1ull << (width - 1))) != set ? sets.ofAnyBit(set) : set;
  }
  if (!isa<ZExtInst>(instruction) && !isa<TruncInst>(instruction) && !isa<FreezeInst>(instruction))
    set = sets.ofAnyBit(set);
  if (mixesData(*instruction))
    return mixed(instruction);
  return isCopyOrComparison(*instruction) ? set : sets.weakened(set, Dependence::Computed);
}

bool Taint::isDataOtherwise(const Instruction *instruction) const {
  const auto *phi = dyn_cast<PHINode>(instruction);
  return phi && any_of(phi->incoming_values(), [&](const Value *value) {
           while (const auto *cast = dyn_cast<CastInst>(value))
             value = cast->getOperand(0);
           const auto *load = dyn_cast<LoadInst>(value);
           return load && load->getType()->isIntegerTy() && isElement(load->getPointerOperand());
         });
}

Taint::Id Taint::chosen(const Instruction *instruction) {
  return chosen(instruction, [this](const Value *condition) { return labels(condition); });
}

Taint::Id Taint::chosen(const Instruction *instruction, LabelsOf labelsOf) {
  Id result = 0;
  if (explanation)
    explanation->chosen(true);
  for (const Value *condition : dependences.of(instruction)) {
    Id set = labelsOf(condition);
    result = sets.unite(result, isLogicalValue(instruction) ? set : sets.implicit(set));
  }
  if (isDataOtherwise(instruction))
    result = sets.weakened(result, Dependence::Content);
  if (result != 0)
    result = sets.ofBits(result, dependences.bitsOf(instruction));
  if (explanation)
    explanation->chosen(false);
  return result;
}

Taint::Id Taint::selected(const SelectInst &select, LabelsOf labelsOf) {
  Id set = sets.unite(labelsOf(select.getTrueValue()), labelsOf(select.getFalseValue()));
  const bool constant = isa<Constant>(select.getTrueValue()) || isa<Constant>(select.getFalseValue());
  if (select.getType()->isIntegerTy(1))
    set = sets.unite(set, labelsOf(select.getCondition()));
  else if (implicit == ImplicitFlow::All || (implicit == ImplicitFlow::Constant && constant))
    set = sets.unite(set, sets.ofBits(sets.implicit(labelsOf(select.getCondition())),
                                      bitsChosen({select.getTrueValue(), select.getFalseValue()})));
  return set;
}

bool Taint::isTable(const Value *pointer) const {
  const PointsTo::Set &targets = pointsTo.targets(pointer);
  for (unsigned location : targets)
    if (stored.count(pointsTo.location(location).object))
      return false;
  return !targets.empty() || (pointsTo.complete() && !isa<Constant>(pointer));
}

bool Taint::isCharacterTable(const Value *pointer) {
  const auto *address = dyn_cast<GEPOperator>(pointer);
  const auto *table = address ? dyn_cast<LoadInst>(address->getPointerOperand()) : nullptr;
  const auto *call = table ? dyn_cast<CallBase>(table->getPointerOperand()) : nullptr;
  return call && call->getCalledFunction() && tellsCharacters(*call->getCalledFunction());
}

bool Taint::isFeatureText(const LoadInst &load) const {
  const auto *text = dyn_cast<LoadInst>(load.getPointerOperand()->stripInBoundsOffsets());
  if (!load.getType()->isIntegerTy(8) || !text)
    return false;
  // A field of a structure that happens to be a byte is none.
  for (unsigned place : pointsTo.targets(load.getPointerOperand())) {
    Type *type = pointsTo.object(pointsTo.location(place).object).type;
    while (auto *array = dyn_cast_or_null<ArrayType>(type))
      type = array->getElementType();
    if (type && !type->isIntegerTy(8))
      return false;
  }
  for (unsigned cell : pointsTo.targets(text->getPointerOperand()))
    if (seeded.contains(cell))
      return true;
  return false;
}

bool Taint::isElement(const Value *pointer) const {
  const AccessKind kind = accessKind(pointer);
  if (kind != AccessKind::Unknown)
    return kind == AccessKind::Element;
  const PointsTo::Set &targets = pointsTo.targets(pointer);
  for (unsigned number : targets) {
    const PointsTo::Location &location = pointsTo.location(number);
    const PointsTo::Object &object = pointsTo.object(location.object);
    if (object.whole || !isScalarAt(object.type, location.offset, module.getDataLayout()))
      return true;
  }
  return targets.empty();
}

bool Taint::isPutOut(const Value *value, const Argument *parameter) const {
  return parameter && isCutToByte(value) && all_of(parameter->users(), [&](const User *user) {
           const auto *store = dyn_cast<StoreInst>(user);
           return store && store->getValueOperand() == parameter && isElement(store->getPointerOperand());
         });
}

#include "label_writer.h"

#include "implicit_flow.h"

using namespace llvm;
using namespace transect;

namespace {

/// The first place behind a value's definition at which it can be used.
Instruction *placeBehind(Value &value) {
  if (auto *argument = dyn_cast<Argument>(&value))
    return &*argument->getParent()->getEntryBlock().getFirstInsertionPt();
  auto *instruction = dyn_cast<Instruction>(&value);
  if (!instruction || instruction->isTerminator())
    return nullptr;
  return isa<PHINode>(instruction) ? &*instruction->getParent()->getFirstInsertionPt() : instruction->getNextNode();
}

}  // namespace

LabelWriter::LabelWriter(Module &module) : module(module) {
  LLVMContext &context = module.getContext();
  number = Type::getInt32Ty(context);
  word = Type::getInt64Ty(context);
  pointer = PointerType::getUnqual(context);
  Type *none = Type::getVoidTy(context);
  auto function = [&](const char *name, Type *result, ArrayRef<Type *> arguments) {
    FunctionCallee callee = module.getOrInsertFunction(name, FunctionType::get(result, arguments, /*isVarArg=*/false));
    cast<Function>(callee.getCallee())->setDoesNotThrow();
    return callee;
  };
  label = function("transect_confirm_label", word, {word, number});
  load = function("transect_confirm_load", word, {word, pointer, number});
  copy = function("transect_confirm_copy", none, {pointer, pointer, word});
  choice = function("transect_confirm_choice", word, {word, word});
  decide = function("transect_confirm_decision", none, {number, word});
}

bool LabelWriter::fits(const Type *type) const {
  return (type->isPointerTy() && type->getPointerAddressSpace() == 0) ||
         (type->isIntegerTy() && type->getIntegerBitWidth() <= 64) || type->isFloatTy() || type->isDoubleTy();
}

Value *LabelWriter::toWord(IRBuilder<> &build, Value *value) {
  Type *type = value->getType();
  if (type->isPointerTy())
    return build.CreatePtrToInt(value, word);
  if (!type->isIntegerTy())
    value = build.CreateBitCast(value, build.getIntNTy(type->getPrimitiveSizeInBits()));
  return build.CreateZExt(value, word);
}

Value *LabelWriter::fromWord(IRBuilder<> &build, Value *value, Type *type) {
  if (type->isPointerTy())
    return build.CreateIntToPtr(value, type);
  if (type->isIntegerTy())
    return build.CreateTrunc(value, type);
  return build.CreateBitCast(build.CreateTrunc(value, build.getIntNTy(type->getPrimitiveSizeInBits())), type);
}

Value *LabelWriter::latest(Value &value) const {
  Value *last = &value;
  for (auto next = current.find(last); next != current.end(); next = current.find(last))
    last = next->second;
  return last;
}

void LabelWriter::wrap(Value &value, FunctionCallee function, Arguments more) {
  Value *last = latest(value);
  Instruction *place = placeBehind(*last);
  if (!place || !fits(last->getType()))
    return;
  std::vector<Use *> uses;
  for (Use &use : last->uses())
    uses.push_back(&use);
  IRBuilder<> build(place);
  SmallVector<Value *, 3> arguments{toWord(build, last)};
  arguments.append(more(build));
  Value *marked = fromWord(build, build.CreateCall(function, arguments), last->getType());
  for (Use *use : uses)
    use->set(marked);
  current[last] = marked;
}

void LabelWriter::markValue(Value &value, unsigned which) {
  wrap(value, label, [&](IRBuilder<> &) { return SmallVector<Value *, 2>{ConstantInt::get(number, which)}; });
}

void LabelWriter::markStore(StoreInst &store, unsigned which) {
  Value *value = store.getValueOperand();
  if (!fits(value->getType()))
    return;
  IRBuilder<> build(&store);
  store.setOperand(0, fromWord(build, build.CreateCall(label, {toWord(build, value), ConstantInt::get(number, which)}),
                               value->getType()));
}

void LabelWriter::markLoad(LoadInst &from, bool always) {
  wrap(from, load, [&](IRBuilder<> &) {
    return SmallVector<Value *, 2>{from.getPointerOperand(), ConstantInt::get(number, always)};
  });
}

void LabelWriter::markCopy(MemTransferInst &transfer) {
  IRBuilder<> build(transfer.getNextNode());
  build.CreateCall(
      copy, {transfer.getRawDest(), transfer.getRawSource(), build.CreateZExtOrTrunc(transfer.getLength(), word)});
}

const DominatorTree &LabelWriter::dominatorsOf(Function &function) {
  if (dominated != &function) {
    dominators.emplace(function);
    dominated = &function;
  }
  return *dominators;
}

void LabelWriter::markChoice(Instruction &instruction, Value &condition) {
  Value *last = latest(condition);
  if (!fits(last->getType()))
    return;
  Instruction *place = isa<PHINode>(instruction) ? placeBehind(instruction) : &instruction;
  if (!place || !dominatorsOf(*instruction.getFunction()).dominates(last, place))
    return;
  if (isa<PHINode>(instruction)) {
    wrap(instruction, choice, [&](IRBuilder<> &build) { return SmallVector<Value *, 2>{toWord(build, last)}; });
    return;
  }
  Value *value = isa<StoreInst, ReturnInst>(instruction) ? instruction.getOperand(0) : nullptr;
  if (!value || !fits(value->getType()))
    return;
  IRBuilder<> build(&instruction);
  instruction.setOperand(
      0, fromWord(build, build.CreateCall(choice, {toWord(build, value), toWord(build, last)}), value->getType()));
}

void LabelWriter::count(Instruction &decision, unsigned which) {
  Value *condition = const_cast<Value *>(conditionOf(&decision));
  if (const auto *call = dyn_cast<CallBase>(&decision))
    condition = call->getCalledOperand();
  if (!condition || !fits(condition->getType()))
    return;
  IRBuilder<> build(&decision);
  build.CreateCall(decide, {ConstantInt::get(number, which), toWord(build, condition)});
}

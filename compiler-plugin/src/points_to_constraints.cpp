// The constraints of the program's code and data.
#include "points_to_nodes.h"

#include "analysis_copy.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"

using namespace llvm;
using namespace transect;

namespace {
/// `n * sizeof(T)`: a number of objects that may hold pointers. Any other number of bytes is one of text or data, which
/// hold none, though the pointers to it often may point to all kinds of memory.
bool isMultiple(const Value &length) {
  const Value *value = &length;
  while (isa<CastInst>(value))
    value = cast<CastInst>(value)->getOperand(0);
  const auto *product = dyn_cast<BinaryOperator>(value);
  if (!product)
    return false;
  const auto *size = dyn_cast<ConstantInt>(product->getOperand(1));
  if (!size)
    size = dyn_cast<ConstantInt>(product->getOperand(0));
  return size && ((product->getOpcode() == Instruction::Mul && size->getZExtValue() % 8 == 0) ||
                  (product->getOpcode() == Instruction::Shl && size->getZExtValue() >= 3));
}

/// By the type of an access, as far as compilers keep it: those to an object's pointer to its functions have one of their own.
bool isTablePointer(const LoadInst &load) {
  const MDNode *tag = load.getMetadata(LLVMContext::MD_tbaa);
  const auto *type = tag && tag->getNumOperands() > 1 ? dyn_cast<MDNode>(tag->getOperand(1)) : nullptr;
  const auto *name = type && type->getNumOperands() > 0 ? dyn_cast<MDString>(type->getOperand(0)) : nullptr;
  return name && name->getString() == "vtable pointer";
}

/// The difference of two addresses is none.
bool isDistance(const Instruction &instruction) {
  return instruction.getOpcode() == Instruction::Sub && isa<PtrToIntInst>(instruction.getOperand(0)) &&
         isa<PtrToIntInst>(instruction.getOperand(1));
}
}  // namespace

/// Constraints of the program's code and data.
class PointsTo::Builder {
public:
  explicit Builder(PointsTo &all) : all(all) {}

  void run() {
    for (GlobalVariable &global : all.module.globals())
      all.newObject(&global, global.getValueType(), false);
    for (Function &function : all.module) {
      if (function.isDeclaration())
        continue;
      all.results[&function] = all.newNode();
      if (function.isVarArg())
        all.variadic[&function] = all.locationAt(all.newObject(nullptr, nullptr, true), 0);
    }
    for (GlobalVariable &global : all.module.globals())
      if (global.hasInitializer())
        data(all.objectNumbers[&global], global.getInitializer(), 0);
    for (Function &function : all.module)
      for (Instruction &instruction : instructions(function))
        code(instruction);
  }

private:
  void data(unsigned object, const Constant *value, uint64_t offset) {
    if (value->getType()->isPointerTy()) {
      if (!isa<ConstantPointerNull>(value) && !isa<UndefValue>(value))
        all.addCopy(all.nodeOf(value), all.contents[all.locationAt(object, offset)]);
      return;
    }
    if (!isa<ConstantAggregate>(value)) {
      if (isa<ConstantExpr>(value) && carriesPointers(value->getType()))
        all.addCopy(all.nodeOf(value), all.contents[all.locationAt(object, offset)]);
      return;
    }
    for (unsigned i = 0; i < value->getNumOperands(); ++i) {
      uint64_t place = offset;
      if (auto *structure = dyn_cast<StructType>(value->getType()))
        place += all.layout.getStructLayout(structure)->getElementOffset(i);
      else if (auto *array = dyn_cast<ArrayType>(value->getType()))
        place += i * all.layout.getTypeAllocSize(array->getElementType());
      data(object, cast<Constant>(value->getOperand(i)), place);
    }
  }

  void load(const Value *pointer, unsigned into) { all.nodes[all.find(all.nodeOf(pointer))]->loads.push_back(into); }

  void store(const Value *pointer, const Value *value) {
    unsigned node = all.nodeOf(value);
    all.nodes[all.find(all.nodeOf(pointer))]->stores.push_back(node);
  }

  void code(Instruction &instruction) {
    for (const Use &operand : instruction.operands())
      if (isa<GlobalValue>(operand) || (isa<ConstantExpr>(operand) && operand->getType()->isPointerTy()))
        all.nodeOf(operand);
    if (auto *local = dyn_cast<AllocaInst>(&instruction)) {
      all.addTarget(all.nodeOf(local), all.locationAt(variable(*local), 0));
    } else if (auto *read = dyn_cast<LoadInst>(&instruction)) {
      if (carriesPointers(read->getType()))
        load(read->getPointerOperand(), all.nodeOf(read));
    } else if (auto *write = dyn_cast<StoreInst>(&instruction)) {
      if (carriesPointers(write->getValueOperand()->getType()) && !isa<ConstantData>(write->getValueOperand()))
        store(write->getPointerOperand(), write->getValueOperand());
    } else if (auto *address = dyn_cast<GEPOperator>(&instruction)) {
      unsigned into = all.nodeOf(address), base = all.nodeOf(address->getPointerOperand());
      all.nodes[all.find(base)]->addresses.push_back({into, stepOf(*address, all.layout)});
    } else if (auto *exchange = dyn_cast<AtomicRMWInst>(&instruction)) {
      if (carriesPointers(exchange->getType())) {
        load(exchange->getPointerOperand(), all.nodeOf(exchange));
        store(exchange->getPointerOperand(), exchange->getValOperand());
      }
    } else if (auto *exchange = dyn_cast<AtomicCmpXchgInst>(&instruction)) {
      if (carriesPointers(exchange->getType())) {
        load(exchange->getPointerOperand(), all.nodeOf(exchange));
        store(exchange->getPointerOperand(), exchange->getNewValOperand());
      }
    } else if (auto *end = dyn_cast<ReturnInst>(&instruction)) {
      if (end->getReturnValue() && carriesPointers(end->getReturnValue()->getType()))
        all.addCopy(all.nodeOf(end->getReturnValue()), all.results[instruction.getFunction()]);
    } else if (auto *call = dyn_cast<CallBase>(&instruction)) {
      this->call(*call);
    } else if (!isa<BinaryOperator>(instruction) && !isa<CmpInst>(instruction) &&
               carriesPointers(instruction.getType())) {
      // Phi, select, casts, parts of aggregates.
      for (const Use &operand : instruction.operands())
        if (carriesPointers(operand->getType()) && !isa<ConstantData>(operand) && !isa<BasicBlock>(operand))
          all.addCopy(all.nodeOf(operand), all.nodeOf(&instruction));
    } else if (isa<BinaryOperator>(instruction) && instruction.getType()->isIntegerTy(64) && !isDistance(instruction)) {
      for (const Use &operand : instruction.operands())
        if (isa<PtrToIntInst>(operand))
          all.addCopy(all.nodeOf(operand), all.nodeOf(&instruction));
    }
  }

  /// The object of a local variable, which may be an array of any length.
  unsigned variable(const AllocaInst &local) {
    Type *type = local.getAllocatedType();
    if (!local.isArrayAllocation())
      return all.newObject(&local, type, false);
    if (const auto *count = dyn_cast<ConstantInt>(local.getArraySize()))
      return all.newObject(&local, ArrayType::get(type, count->getZExtValue()), false);
    const unsigned object = all.newObject(&local, nullptr, false);
    all.objects[object].element = type->isIntegerTy(8) ? nullptr : type;
    return object;
  }

  void call(CallBase &call) {
    if (markedValue(call) || isa<InlineAsm>(call.getCalledOperand())) {
      if (call.arg_size() > 0 && carriesPointers(call.getType()))
        all.addCopy(all.nodeOf(call.getArgOperand(0)), all.nodeOf(&call));
      return;
    }
    if (auto *transfer = dyn_cast<MemTransferInst>(&call)) {
      const auto *length = dyn_cast<ConstantInt>(transfer->getLength());
      uint64_t bytes = length ? length->getZExtValue() : ~0ull;
      unsigned to = all.nodeOf(transfer->getRawDest()), from = all.nodeOf(transfer->getRawSource());
      if (length || isMultiple(*transfer->getLength()))
        all.addTransfer(to, from, bytes);
      return;
    }
    if (auto *intrinsic = dyn_cast<IntrinsicInst>(&call)) {
      switch (intrinsic->getIntrinsicID()) {
      case Intrinsic::vastart:
        startVariadic(*intrinsic);
        break;
      case Intrinsic::vacopy: {
        unsigned to = all.nodeOf(call.getArgOperand(0)), from = all.nodeOf(call.getArgOperand(1));
        all.addTransfer(to, from, ~0ull);
        break;
      }
      default:
        if (carriesPointers(call.getType()) && call.arg_size() > 0)
          all.addCopy(all.nodeOf(call.getArgOperand(0)), all.nodeOf(&call));
      }
      return;
    }
    if (auto *function = dyn_cast<Function>(call.getCalledOperand()->stripPointerCastsAndAliases())) {
      all.enter(&call, function);
      return;
    }
    if (!dispatches(call))
      all.nodes[all.find(all.nodeOf(call.getCalledOperand()))]->calls.push_back(&call);
  }

  /// `(*(*object + slot))(object)`
  bool dispatches(const CallBase &call) {
    const auto *function = dyn_cast<LoadInst>(call.getCalledOperand());
    if (!function)
      return false;
    const Value *place = function->getPointerOperand();
    APInt slot(all.layout.getIndexTypeSizeInBits(place->getType()), 0);
    const auto *table = dyn_cast<LoadInst>(place->stripAndAccumulateConstantOffsets(all.layout, slot, true));
    if (!table)
      return false;
    const Value *object = table->getPointerOperand();
    for (unsigned i = 0; i < 2 && i < call.arg_size(); ++i)
      if (call.getArgOperand(i) == object) {
        all.virtualCalls[&call] = i;
        all.nodes[all.find(all.nodeOf(object))]->receivers.push_back({&call, slot.getZExtValue(), isTablePointer(*table), 0});
        return true;
      }
    return false;
  }

  /// A `va_list` of x86-64 holds two pointers to the arguments.
  void startVariadic(IntrinsicInst &start) {
    auto place = all.variadic.find(start.getFunction());
    if (place == all.variadic.end())
      return;
    unsigned holder = all.newNode();
    all.addTarget(holder, place->second);
    unsigned base = all.find(all.nodeOf(start.getArgOperand(0)));
    for (int64_t offset : {0, 8, 16}) {
      unsigned field = all.newNode();
      all.nodes[field]->stores.push_back(holder);
      all.nodes[base]->addresses.push_back({field, Step{true, offset, offset, offset, nullptr, 0, false}});
    }
  }

  PointsTo &all;
};

void PointsTo::build() { Builder(*this).run(); }

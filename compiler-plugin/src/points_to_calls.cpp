// What a call binds: arguments, results, memory that it makes, and what functions outside of the program do.
#include "points_to_nodes.h"

#include "analysis_copy.h"
#include "exceptions.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/Instructions.h"

#include <algorithm>

using namespace llvm;
using namespace transect;

/// Whether calls of a function are as good as calls of `malloc`: all that it returns is new memory or null.
bool PointsTo::allocates(const Function &function, unsigned depth) {
  if (function.isDeclaration() || !function.getReturnType()->isPointerTy() || depth > 4)
    return false;
  auto known = allocators.find(&function);
  if (known != allocators.end())
    return known->second;
  bool any = false, all = true;
  SmallVector<const Value *, 4> values;
  for (const BasicBlock &block : function)
    if (const auto *end = dyn_cast<ReturnInst>(block.getTerminator()))
      values.push_back(end->getReturnValue());
  for (unsigned i = 0; i < values.size() && all; ++i) {
    if (const auto *phi = dyn_cast<PHINode>(values[i])) {
      for (const Use &use : phi->incoming_values())
        if (!is_contained(values, use.get()))
          values.push_back(use);
      all = values.size() <= 16;
    } else if (const auto *call = dyn_cast<CallBase>(values[i])) {
      const Function *callee = call->getCalledFunction();
      all = callee && (callee->isDeclaration() ? callee->returnDoesNotAlias() && !externalFunction(*callee).duplicates
                                               : allocates(*callee, depth + 1));
      any |= all;
    } else {
      all = isa<ConstantPointerNull>(values[i]) || isa<UndefValue>(values[i]);
    }
    // What is written there before callers have it would be another object's.
    if (!isa<Constant>(values[i]))
      all &= llvm::all_of(values[i]->users(), [](const User *user) {
        const auto *call = dyn_cast<CallBase>(user);
        return isa<ReturnInst>(user) || isa<CmpInst>(user) || isa<PHINode>(user) ||
               (call && call->getCalledFunction() && call->getCalledFunction()->getName() == "free");
      });
  }
  return allocators[&function] = any && all;
}

/// Bytes that a call allocates, 0: not known.
static uint64_t allocatedBytes(const CallBase &call) {
  uint64_t size = 1;
  auto times = [&](const Value *factor) {
    const auto *constant = dyn_cast<ConstantInt>(factor);
    size *= constant ? std::min<uint64_t>(constant->getZExtValue(), 1u << 30) : 0;
  };
  if (Attribute known = call.getFnAttr(Attribute::AllocSize); known.isValid()) {
    auto [bytes, count] = known.getAllocSizeArgs();
    times(call.getArgOperand(bytes));
    if (count)
      times(call.getArgOperand(*count));
    return size;
  }
  // Of other allocators, as large as their constant arguments say.
  bool any = false;
  for (const Use &argument : call.args())
    if (argument->getType()->isIntegerTy()) {
      times(argument);
      any = true;
    }
  return any && size >= 16 ? size : 0;
}

/// Where the function computes the address to which it stores.
static SmallVector<const Value *, 8> sameAddresses(const StoreInst &store) {
  const Value *place = store.getPointerOperand();
  const auto *address = dyn_cast<GetElementPtrInst>(place);
  if (!address || !address->hasAllConstantIndices())
    return {place};
  SmallVector<const Value *, 8> result;
  for (const User *user : address->getPointerOperand()->users())
    if (const auto *other = dyn_cast<GetElementPtrInst>(user); other && other->isIdenticalTo(address))
      result.push_back(other);
  return result;
}

/// The object that a constructor is called for, as the constructor knows it; null: `call` calls none.
static const Argument *objectConstructed(const CallBase &call) {
  const Function *callee = call.getCalledFunction();
  if (!callee || callee->isDeclaration() || callee->arg_empty() || !callee->getName().starts_with("_ZN"))
    return nullptr;
  const StringRef name = callee->getName();
  return name.contains("C1E") || name.contains("C2E") ? callee->getArg(0) : nullptr;
}

/// The one structure that new memory is used as where it is made; null: none or several. `constructed`: by constructors,
/// too.
static StructType *structureMade(const CallBase &call, uint64_t size, const DataLayout &layout, bool constructed) {
  StructType *found = nullptr;
  SmallVector<const Value *, 8> pointers{&call};
  auto follow = [&](const Value *value) {
    if (pointers.size() < 32 && !is_contained(pointers, value))
      pointers.push_back(value);
  };
  for (unsigned i = 0; i < pointers.size(); ++i)
    for (const User *user : pointers[i]->users()) {
      if (isa<PHINode>(user) || isa<SelectInst>(user))
        follow(user);
      // `*place = malloc(); made = *place;`
      if (const auto *store = dyn_cast<StoreInst>(user); store && store->getValueOperand() == pointers[i])
        for (const Value *place : sameAddresses(*store))
          for (const User *other : place->users())
            if (const auto *load = dyn_cast<LoadInst>(other); load && load->getFunction() == call.getFunction())
              follow(load);
      if (const auto *other = dyn_cast<CallBase>(user); other && constructed && other->arg_size() > 0)
        if (const Argument *object = objectConstructed(*other); object && other->getArgOperand(0) == pointers[i])
          follow(object);
      const auto *address = dyn_cast<GEPOperator>(user);
      auto *type = address ? dyn_cast<StructType>(address->getSourceElementType()) : nullptr;
      if (!type || type->isLiteral() || (size != 0 && layout.getTypeAllocSize(type) != size) || type == found)
        continue;
      if (found)
        return nullptr;
      found = type;
    }
  return found;
}

/// The memory that a call makes; one object, however many allocators the call may enter.
unsigned PointsTo::allocatedBy(const CallBase *call) {
  auto known = objectNumbers.find(call);
  if (known != objectNumbers.end())
    return known->second;
  unsigned number = newObject(call, nullptr, false);
  Object &object = objects[number];
  object.size = allocatedBytes(*call);
  // So that `malloc(sizeof(T))` has T's places.
  StructType *made = structureMade(*call, object.size, layout, false);
  if (!made && object.size != 0)
    made = structureMade(*call, object.size, layout, true);
  if (object.size != 0)
    object.type = made;
  else
    object.element = made;
  return number;
}

/// A node that points so many bytes behind where `node` points.
unsigned PointsTo::fieldOf(unsigned node, int64_t offset) {
  const unsigned field = newNode();
  nodes[find(node)]->addresses.push_back({field, Step{true, offset, offset, offset, nullptr, 0, false}});
  wake(find(node));
  return field;
}

/// What is thrown comes to the handlers of its type, whichever of the two the solver meets first.
void PointsTo::throwException(const CallBase &call) {
  if (call.arg_size() < 2)
    return;
  const Value *type = call.getArgOperand(1)->stripPointerCasts();
  auto [place, isNew] = thrown.insert({type, 0});
  if (isNew)
    place->second = newNode();
  const unsigned exceptions = place->second;
  addCopy(nodeOf(call.getArgOperand(0)), exceptions);
  if (isNew)
    for (const CallBase *handler : handlers)
      takeException(*handler, type, exceptions);
}

void PointsTo::catchException(const CallBase &call) {
  handlers.push_back(&call);
  for (auto [type, exceptions] : thrown)
    takeException(call, type, exceptions);
}

void PointsTo::takeException(const CallBase &handler, const Value *type, unsigned exceptions) {
  const auto types = caughtTypes(handler);
  if (types.empty())
    addCopy(exceptions, nodeOf(&handler));
  for (const Value *caught : types)
    if (auto offset = caughtAs(type, caught))
      addCopy(*offset == 0 ? exceptions : fieldOf(exceptions, *offset), nodeOf(&handler));
}

/// Objects enter only those functions that their own tables hold.
void PointsTo::dispatch(unsigned node, const Set &memory) {
  for (size_t i = 0; i < nodes[node]->receivers.size(); ++i) {
    const Dispatch call = nodes[node]->receivers[i];
    for (unsigned object : memory)
      if (dispatched.insert({call.call, object}).second) {
        const unsigned table = find(contents[object]);
        nodes[table]->tables.push_back({call.call, call.slot, call.isSure, object});
        wake(table);
      }
  }
  for (size_t i = 0; i < nodes[node]->tables.size(); ++i) {
    const Dispatch call = nodes[node]->tables[i];
    for (unsigned table : memory) {
      auto [number, offset] = locations[table];
      if (!objects[number].isTable) {
        if (!call.isSure)
          callByPointer(call.call);
        continue;
      }
      const unsigned slot = contents[locationAt(number, static_cast<int64_t>(offset + call.slot))];
      const Set entered = nodes[find(slot)]->targets;
      for (unsigned location : entered)
        if (Function *function = functionAt(location)) {
          enter(call.call, function);
          const auto own = virtualCalls.find(call.call);
          if (own != virtualCalls.end() && !function->isDeclaration() && own->second < function->arg_size())
            addTarget(nodeOf(function->getArg(own->second)), call.object);
        }
    }
  }
}

/// What looked like a call of a virtual function is one through a pointer in memory.
void PointsTo::callByPointer(const CallBase *call) {
  const auto own = virtualCalls.find(call);
  if (own == virtualCalls.end())
    return;
  const unsigned number = own->second;
  virtualCalls.erase(own);
  for (const CallTarget &target : callTargets[call])
    if (number < target.function->arg_size())
      addCopy(nodeOf(call->getArgOperand(number)), nodeOf(target.function->getArg(number)));
  const unsigned callee = find(nodeOf(call->getCalledOperand()));
  nodes[callee]->calls.push_back(call);
  wake(callee);
}

void PointsTo::bind(const CallBase *call, CallTarget target) {
  Function *function = target.function;
  const auto dispatched = virtualCalls.find(call);
  for (auto [value, parameter] : target.arguments) {
    if (!carriesPointers(value->getType()))
      continue;
    if (dispatched != virtualCalls.end() && parameter && parameter->getArgNo() == dispatched->second)
      continue;
    if (parameter)
      addCopy(nodeOf(value), nodeOf(parameter));
    else if (auto place = variadic.find(function); place != variadic.end())
      addCopy(nodeOf(value), contents[place->second]);
  }
  if (target.returns && carriesPointers(call->getType())) {
    auto result = results.find(function);
    if (allocates(*function))
      addTarget(nodeOf(call), locationAt(allocatedBy(call), 0));
    else if (result != results.end())
      addCopy(result->second, nodeOf(call));
  }
  callTargets[call].push_back(std::move(target));
}

void PointsTo::enter(const CallBase *call, Function *function) {
  for (const CallTarget &known : callTargets[call])
    if (known.function == function && known.returns)
      return;
  if (!function->isDeclaration()) {
    CallTarget target{function, {}, true};
    unsigned parameters = function->arg_size();
    for (unsigned i = 0; i < call->arg_size(); ++i)
      if (i < parameters)
        target.arguments.push_back({call->getArgOperand(i), function->getArg(i)});
      else if (function->isVarArg())
        target.arguments.push_back({call->getArgOperand(i), nullptr});
    if (call->arg_size() >= parameters)
      bind(call, std::move(target));
    return;
  }
  std::vector<Function *> &externals = callExternals[call];
  if (is_contained(externals, function))
    return;
  externals.push_back(function);
  ExternalFunction known = externalFunction(*function);
  if (known.throws)
    throwException(*call);
  if (known.catches)
    catchException(*call);
  auto argument = [&](int number) {
    return nodeOf(call->getArgOperand(std::min<unsigned>(number, call->arg_size() - 1)));
  };
  auto has = [&](int number) { return number >= 0 && static_cast<unsigned>(number) < call->arg_size(); };
  for (const ExternalFunction::Link &link : known.links)
    if (has(link.memory) && has(link.value))
      nodes[fieldOf(argument(link.memory), link.offset)]->stores.push_back(argument(link.value));
  for (int64_t offset : known.returnsFields)
    nodes[fieldOf(argument(0), offset)]->loads.push_back(nodeOf(call));
  if (known.ownMemory >= 0) {
    const unsigned memory = newNode();
    addTarget(memory, locationAt(newObject(nullptr, nullptr, false), 0));
    nodes[fieldOf(nodeOf(call), known.ownMemory)]->stores.push_back(memory);
  }
  if (call->getType()->isPointerTy()) {
    if (has(known.returnsArgument))
      addCopy(argument(known.returnsArgument), nodeOf(call));
    if (has(known.returnsPointee)) {
      unsigned node = find(argument(known.returnsPointee));
      nodes[node]->loads.push_back(nodeOf(call));
      wake(node);
      return;
    }
    if (known.continues) {
      if (!tokens)
        tokens = newNode();
      addCopy(argument(0), *tokens);
      addCopy(*tokens, nodeOf(call));
      return;
    }
    if (known.returnsArgument < 0 || function->getName().contains("alloc"))
      addTarget(nodeOf(call), locationAt(allocatedBy(call), 0));
  }
  // A view of a string.
  if (call->getType()->isStructTy() && has(known.returnsArgument))
    addCopy(argument(known.returnsArgument), nodeOf(call));
  if (has(known.copyTo) && has(known.copyFrom))
    addTransfer(argument(known.copyTo), argument(known.copyFrom), ~0ull);
  for (const Callback &callback : callbacksOf(*function)) {
    if (!has(callback.function))
      continue;
    // What is passed may be a pointer variable: its functions are looked up when known.
    unsigned node = find(argument(callback.function));
    nodes[node]->calls.push_back(call);
    wake(node);
  }
  if (startsThreadState(*function) && has(1)) {
    for (Function &run : module)
      if (!run.isDeclaration() && run.arg_size() == 1 && run.getName().ends_with("6_M_runEv")) {
        CallTarget target{&run, {}, false};
        callTargets[call].push_back(target);
        unsigned node = find(argument(1));
        nodes[node]->loads.push_back(nodeOf(run.getArg(0)));
        wake(node);
      }
  }
}

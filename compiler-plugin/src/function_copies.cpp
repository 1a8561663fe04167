#include "function_copies.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Transforms/Utils/Cloning.h"

#include <vector>

using namespace llvm;
using namespace transect;

namespace {

/// Functions to which a `va_list` is passed on, one by the other.
constexpr unsigned kMostLevels = 4;

class Copies {
public:
  explicit Copies(uint64_t budget) : budget(budget) {}

  /// Has a call enter a copy of `callee` of its own, unless it is the only one. Null: there is no room for it.
  Function *copyFor(CallBase &call, Function &callee) {
    if (callee.hasOneUse())
      return &callee;
    const uint64_t size = callee.getInstructionCount();
    if (size > budget)
      return nullptr;
    budget -= size;
    // Copied code is that of the same source; its debug information need not be copied.
    DISubprogram *described = callee.getSubprogram();
    callee.setSubprogram(nullptr);
    ValueToValueMapTy map;
    Function *copy = CloneFunction(&callee, map);
    callee.setSubprogram(described);
    copy->setLinkage(GlobalValue::InternalLinkage);
    copy->setComdat(nullptr);
    call.setCalledFunction(copy);
    return copy;
  }

  /// Callees that get the `va_list` at which `lists` point get copies, too.
  void copyConsumers(Function &function, SmallVector<const Value *, 4> lists, unsigned level) {
    if (level == kMostLevels)
      return;
    std::vector<CallBase *> calls;
    for (Instruction &instruction : instructions(function)) {
      if (auto *start = dyn_cast<VAStartInst>(&instruction))
        lists.push_back(start->getArgList()->stripInBoundsOffsets());
      else if (auto *copied = dyn_cast<VACopyInst>(&instruction))
        lists.push_back(copied->getDest()->stripInBoundsOffsets());
      if (auto *call = dyn_cast<CallBase>(&instruction))
        calls.push_back(call);
    }
    for (CallBase *call : calls) {
      Function *callee = call->getCalledFunction();
      if (!callee || callee->isDeclaration() || callee == &function)
        continue;
      SmallVector<unsigned, 2> passed;
      for (unsigned i = 0; i < call->arg_size() && i < callee->arg_size(); ++i)
        if (is_contained(lists, call->getArgOperand(i)->stripInBoundsOffsets()))
          passed.push_back(i);
      if (passed.empty())
        continue;
      if (Function *copy = copyFor(*call, *callee)) {
        SmallVector<const Value *, 4> inside;
        for (unsigned i : passed)
          inside.push_back(copy->getArg(i));
        copyConsumers(*copy, inside, level + 1);
      }
    }
  }

private:
  uint64_t budget;
};

}  // namespace

void transect::copyVariadicFunctions(Module &module, uint64_t budget) {
  std::vector<Function *> variadic;
  for (Function &function : module)
    if (!function.isDeclaration() && function.isVarArg())
      variadic.push_back(&function);
  Copies copies(budget);
  for (Function *function : variadic) {
    std::vector<CallBase *> calls;
    for (const Use &use : function->uses())
      if (auto *call = dyn_cast<CallBase>(use.getUser()); call && call->isCallee(&use) && call->getFunction() != function)
        calls.push_back(call);
    for (CallBase *call : calls)
      if (Function *copy = copies.copyFor(*call, *function))
        copies.copyConsumers(*copy, {}, 0);
  }
}

#include "unwinding.h"

#include "external_functions.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

using namespace llvm;
using namespace transect;

void transect::splitAfterSetjmp(Module &module) {
  for (Function &function : module) {
    std::vector<CallInst *> calls;
    for (Instruction &instruction : instructions(function))
      if (auto *call = dyn_cast<CallInst>(&instruction); call && call->hasFnAttr(Attribute::ReturnsTwice))
        calls.push_back(call);
    for (CallInst *call : calls)
      SplitBlock(call->getParent(), call->getNextNode());
  }
}

std::vector<Function *> transect::functionsThatMayUnwindRegions(Module &module, const std::vector<Region> &regions) {
  std::vector<Function *> result;
  if (regions.empty())
    return result;
  DenseMap<Function *, SmallPtrSet<Function *, 4>> callers;
  SmallPtrSet<Function *, 16> callsUnknown;
  for (Function &function : module)
    for (Instruction &instruction : instructions(function)) {
      auto *call = dyn_cast<CallBase>(&instruction);
      if (!call || isa<IntrinsicInst>(call) || call->isInlineAsm())
        continue;
      auto *callee = dyn_cast<Function>(call->getCalledOperand()->stripPointerCastsAndAliases());
      if (!callee || (callee->isDeclaration() && any_of(call->args(), [](const Use &argument) {
                        return isa<Function>(argument->stripPointerCasts());
                      })))
        callsUnknown.insert(&function);
      else
        callers[callee].insert(&function);
    }
  SmallPtrSet<Function *, 32> found;
  std::vector<Function *> work;
  auto add = [&](Function *function) {
    if (found.insert(function).second)
      work.push_back(function);
  };
  for (const Region &region : regions)
    add(region.function);
  bool unknownAdded = false;
  while (!work.empty()) {
    Function *function = work.back();
    work.pop_back();
    for (Function *caller : callers[function])
      add(caller);
    if (!unknownAdded && function->hasAddressTaken()) {
      unknownAdded = true;
      for (Function *caller : callsUnknown)
        add(caller);
    }
  }
  for (Function &function : module)
    if (found.contains(&function))
      result.push_back(&function);
  return result;
}

#include "analysis_copy.h"

#include "bit_fields.h"
#include "field_path.h"
#include "function_copies.h"
#include "standard_library.h"

#include "llvm/ADT/SCCIterator.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Analysis/CallGraph.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Transforms/Scalar/SROA.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "llvm/Transforms/Utils/Local.h"
#include "llvm/Transforms/Utils/ValueMapper.h"

using namespace llvm;
using namespace transect;

namespace {

constexpr const char *kDecision = "transect.decision";
constexpr const char *kMemory = "transect.memory";
constexpr const char *kValue = "transect.value";
constexpr const char *kIgnoredFunction = "transect-ignored";

/// Functions up to this size, once their variables are values, become part of their callers.
constexpr unsigned kSmallFunction = 48;
/// So do those of the C++ library's headers, whose containers would share their memory otherwise, and functions that make
/// what they return, up to these sizes.
constexpr unsigned kLibraryFunction = 300, kMakingFunction = 200;
/// So do functions that a constant argument selects from, up to this size; two comparisons with constants make a
/// choice.
constexpr unsigned kLargeFunction = 4000, kSelections = 2;
/// Calls that such a call brings along.
constexpr unsigned kMostInARow = 16;
/// The copy may grow by inlining to this many times its size, and by this many instructions in any case.
constexpr unsigned kGrowth = 2, kGrowthAlways = 20000;
/// And by this part of its size by copies of variadic functions.
constexpr unsigned kCopies = 4;

/// A function of the C++ library's headers.
bool isOfLibrary(const Function &function) {
  const StringRef name = function.getName();
  return name.starts_with("_ZNSt") || name.starts_with("_ZNKSt") || name.starts_with("_ZSt") ||
         name.starts_with("_ZN9__gnu_cxx") || name.starts_with("_ZNK9__gnu_cxx");
}

/// Whether a function returns a pointer and makes new memory, most likely to return it.
bool makesMemory(const Function &function) {
  return function.getReturnType()->isPointerTy() && any_of(instructions(function), [](const Instruction &instruction) {
           const auto *call = dyn_cast<CallBase>(&instruction);
           const Function *callee = call ? call->getCalledFunction() : nullptr;
           return callee && callee->isDeclaration() &&
                  (callee->returnDoesNotAlias() || callee->getName() == "realloc");
         });
}

/// Whether a function moves pointers from place to place in memory that its callers give it, as a sort or a queue does.
bool movesPointers(const Function &function) {
  auto isGiven = [](const Value *place) { return isa<Argument>(getUnderlyingObject(place)); };
  return any_of(instructions(function), [&](const Instruction &instruction) {
    const auto *store = dyn_cast<StoreInst>(&instruction);
    const auto *load = store ? dyn_cast<LoadInst>(store->getValueOperand()) : nullptr;
    return load && load->getType()->isPointerTy() && isGiven(store->getPointerOperand()) && isGiven(load->getPointerOperand());
  });
}

bool isDecision(const Instruction &instruction) {
  if (const auto *branch = dyn_cast<BranchInst>(&instruction))
    return branch->isConditional();
  if (isa<SwitchInst>(instruction) || isa<IndirectBrInst>(instruction))
    return true;
  const auto *call = dyn_cast<CallBase>(&instruction);
  return call && call->isIndirectCall();
}

Instruction *placeAfter(Value *value) {
  if (auto *argument = dyn_cast<Argument>(value))
    return &*argument->getParent()->getEntryBlock().getFirstInsertionPt();
  auto *instruction = cast<Instruction>(value);
  if (isa<PHINode>(instruction))
    return &*instruction->getParent()->getFirstInsertionPt();
  if (auto *invoke = dyn_cast<InvokeInst>(instruction)) {
    BasicBlock *normal = invoke->getNormalDest();
    return normal->getSinglePredecessor() ? &*normal->getFirstInsertionPt() : nullptr;
  }
  return instruction->isTerminator() ? nullptr : instruction->getNextNode();
}

class Copier {
public:
  Copier(Module &program, const FeatureVariables &variables) : program(program), variables(variables) {
    builder.registerModuleAnalyses(moduleAnalyses);
    builder.registerCGSCCAnalyses(sccAnalyses);
    builder.registerFunctionAnalyses(functionAnalyses);
    builder.registerLoopAnalyses(loopAnalyses);
    builder.crossRegisterProxies(loopAnalyses, functionAnalyses, sccAnalyses, moduleAnalyses);
  }

  AnalysisCopy run() {
    number();
    ValueToValueMapTy map;
    copy.module = CloneModule(program, map);
    for (Instruction *decision : copy.decisions)
      decision->setMetadata(kDecision, nullptr);
    simplify();
    mark(map);
    for (Function &function : *copy.module)
      if (!function.isDeclaration() && standardLibraryFunction(function))
        function.deleteBody();
    inlineSmallFunctions();
    copyVariadicFunctions(*copy.module, copy.module->getInstructionCount() / kCopies + kGrowthAlways);
    return std::move(copy);
  }

private:
  void number() {
    LLVMContext &context = program.getContext();
    Type *type = Type::getInt32Ty(context);
    for (Function &function : program)
      for (Instruction &instruction : instructions(function))
        if (isDecision(instruction)) {
          auto *number = ConstantAsMetadata::get(ConstantInt::get(type, copy.decisions.size()));
          instruction.setMetadata(kDecision, MDNode::get(context, number));
          copy.decisions.push_back(&instruction);
        }
  }

  void simplify() {
    for (Function &function : *copy.module) {
      for (Instruction &instruction : make_early_inc_range(instructions(function))) {
#if LLVM_VERSION_MAJOR >= 19
        instruction.dropDbgRecords();
#endif
        if (isa<DbgInfoIntrinsic>(instruction) || isa<LifetimeIntrinsic>(instruction))
          instruction.eraseFromParent();
        // Tells whose variable it is when the function has become part of its callers.
        else if (isa<AllocaInst>(instruction) && !instruction.getDebugLoc() && function.getSubprogram())
          instruction.setDebugLoc(DILocation::get(function.getContext(), 0, 0, function.getSubprogram()));
      }
    }
    // A variable with a known value is still the user's to change by the model's account.
    for (GlobalVariable &global : copy.module->globals()) {
      if (global.isConstant())
        copy.readOnly.insert(&global);
      if (!global.getName().starts_with("llvm.") && !global.hasPrivateLinkage())
        global.setConstant(false);
    }
  }

  void mark(ValueToValueMapTy &map) {
    for (auto [memory, feature] : variables.memory) {
      Value *mapped = map.lookup(memory);
      if (!mapped)
        mapped = memory;
      if (auto *global = dyn_cast<GlobalVariable>(mapped))
        copy.globals.push_back({global, feature});
      else if (!isa<Constant>(mapped))
        markMemory(mapped, feature);
    }
    for (auto [holder, bytes, feature] : variables.addresses)
      if (Value *mapped = map.lookup(holder)) {
        std::vector<User *> users(mapped->user_begin(), mapped->user_end());
        if (isa<Argument>(mapped)) {
          markMemory(mapped, feature, bytes);
          continue;
        }
        for (User *user : users)
          if (auto *load = dyn_cast<LoadInst>(user))
            markMemory(load, feature, bytes);
          // Of a parameter passed by address the holder is there for debuggers only.
          else if (auto *store = dyn_cast<StoreInst>(user); store && isa<Argument>(store->getValueOperand()))
            markMemory(store->getValueOperand(), feature, bytes);
      }
    for (auto [value, feature] : variables.values)
      if (Value *mapped = map.lookup(value))
        markValue(mapped, feature);
    copy.members = variables.members;
    for (Function *function : variables.ignoredFunctions)
      if (auto *mapped = dyn_cast_or_null<Function>(map.lookup(function)))
        mapped->addFnAttr(kIgnoredFunction);
    if (!copy.members.empty() || !variables.ignoredFields.empty())
      for (Function &function : *copy.module)
        markFields(function);
    if (any_of(copy.members, [](const MemberSeed &seed) { return seed.bits != 0; })) {
      const BitFields fields(copy.members, variables.holders, map, copy.module->getDataLayout());
      for (Function &function : *copy.module)
        markBitFields(function, fields);
    }
  }

  /// `bytes`: 0 if it is all of the object.
  void markMemory(Value *memory, unsigned feature, uint64_t bytes = 0) {
    Instruction *place = placeAfter(memory);
    if (!place || !memory->getType()->isPointerTy())
      return;
    LLVMContext &context = copy.module->getContext();
    Type *number = Type::getInt32Ty(context);
    FunctionCallee marker =
        copy.module->getOrInsertFunction(kMemory, Type::getVoidTy(context), memory->getType(), number, number);
    CallInst::Create(marker, {memory, ConstantInt::get(number, feature), ConstantInt::get(number, bytes)}, "", place);
  }

  void markValue(Value *value, unsigned feature) {
    Instruction *place = placeAfter(value);
    Type *type = value->getType();
    if (!place || type->isVoidTy() || type->isTokenTy())
      return;
    std::string name;
    raw_string_ostream(name) << kValue << "." << *type;
    Type *number = Type::getInt32Ty(copy.module->getContext());
    FunctionCallee marker = copy.module->getOrInsertFunction(name, type, type, number);
    auto *marked = CallInst::Create(marker, {value, ConstantInt::get(number, feature)}, "", place);
    value->replaceUsesWithIf(marked, [&](Use &use) { return use.getUser() != marked; });
  }

  void markFields(Function &function) {
    const DataLayout &layout = copy.module->getDataLayout();
    std::vector<LoadInst *> loads;
    for (Instruction &instruction : instructions(function))
      if (auto *load = dyn_cast<LoadInst>(&instruction))
        loads.push_back(load);
    for (LoadInst *load : loads) {
      SmallPtrSet<void *, 4> done;
      const auto places = fieldsAt(load->getPointerOperand(), layout);
      if (any_of(places, [&](const FieldPlace &place) {
            return is_contained(variables.ignoredFields, std::pair(place.type, place.offset));
          })) {
        markValue(load, kIgnored);
        continue;
      }
      for (const FieldPlace &place : places)
        for (const MemberSeed &seed : copy.members)
          if (seed.type == place.type && seed.bits == 0 && done.insert(const_cast<MemberSeed *>(&seed)).second &&
              seed.byteOffset == place.offset)
            markValue(load, seed.feature);
    }
  }

  void markBitFields(Function &function, const BitFields &fields) {
    std::vector<std::pair<Instruction *, unsigned>> reads;
    for (Instruction &instruction : instructions(function))
      if (auto *load = dyn_cast<LoadInst>(&instruction))
        fields.findReads(*load, reads);
    for (auto [value, feature] : reads)
      markValue(value, feature);
  }

  void promote(Function &function) {
    removeUnreachableBlocks(function);
    SROAPass(SROAOptions::PreserveCFG).run(function, functionAnalyses);
    functionAnalyses.clear(function, function.getName());
  }

  static bool canBePartOfCallers(Function &function) {
    if (isIgnored(function) || function.isVarArg() || function.getName() == "main" || function.hasFnAttribute(Attribute::Naked))
      return false;
    for (Instruction &instruction : instructions(function)) {
      if (isa<IndirectBrInst>(instruction) || isa<CallBrInst>(instruction))
        return false;
      if (auto *call = dyn_cast<CallBase>(&instruction))
        if (call->hasFnAttr(Attribute::ReturnsTwice) || call->getCalledOperand()->stripPointerCasts() == &function)
          return false;
    }
    return true;
  }

  /// `set(state, LEVEL, value)`: a constant selects what the function does, so each call is another function.
  static bool selects(const CallBase &call, const Function &callee) {
    for (const Argument &parameter : callee.args()) {
      if (parameter.getArgNo() >= call.arg_size() || !isa<ConstantInt>(call.getArgOperand(parameter.getArgNo())))
        continue;
      unsigned comparisons = 0;
      for (const User *user : parameter.users()) {
        if (isa<SwitchInst>(user))
          return true;
        const auto *comparison = dyn_cast<ICmpInst>(user);
        comparisons += comparison && comparison->isEquality() && isa<ConstantInt>(comparison->getOperand(1));
      }
      if (comparisons >= kSelections)
        return true;
    }
    return false;
  }

  /// Makes a call's code part of its caller; of what constants rule out nothing is copied.
  void inlineCall(CallBase *first, const SmallPtrSetImpl<Function *> &parts, uint64_t &budget) {
    SmallVector<CallBase *, 8> calls{first};
    for (unsigned done = 0; !calls.empty() && done < kMostInARow; ++done) {
      CallBase *call = calls.pop_back_val();
      Function *callee = call->getCalledFunction(), *caller = call->getFunction();
      const uint64_t before = caller->getInstructionCount();
      if (callee->getInstructionCount() > kLargeFunction || budget < kSmallFunction)
        continue;
      InlineFunctionInfo info;
      if (!InlineFunction(*call, info).isSuccess())
        continue;
      const uint64_t after = caller->getInstructionCount();
      budget -= std::min(budget, after > before ? after - before : 0);
      for (CallBase *next : info.InlinedCallSites)
        if (Function *inner = next->getCalledFunction(); inner && parts.contains(inner) && selects(*next, *inner))
          calls.push_back(next);
    }
  }

  void inlineSmallFunctions() {
    std::vector<std::pair<Function *, bool>> order;
    {
      CallGraph graph(*copy.module);
      for (auto scc = scc_begin(&graph); !scc.isAtEnd(); ++scc)
        for (CallGraphNode *node : *scc)
          if (Function *function = node->getFunction(); function && !function->isDeclaration())
            order.push_back({function, scc->size() > 1});
    }
    uint64_t size = 0;
    for (auto [function, recursive] : order)
      size += function->getInstructionCount();
    uint64_t budget = size * (kGrowth - 1) + kGrowthAlways, budgetOfLarge = budget;
    SmallPtrSet<Function *, 32> small, large, parts;
    for (auto [function, recursive] : order) {
      std::vector<CallBase *> calls;
      for (Instruction &instruction : instructions(*function))
        if (auto *call = dyn_cast<CallBase>(&instruction))
          if (Function *callee = call->getCalledFunction())
            if (small.contains(callee) || large.contains(callee) || (parts.contains(callee) && selects(*call, *callee)))
              calls.push_back(call);
      for (CallBase *call : calls)
        inlineCall(call, parts, large.contains(call->getCalledFunction()) ? budgetOfLarge : budget);
      promote(*function);
      if (recursive || !canBePartOfCallers(*function))
        continue;
      parts.insert(function);
      const uint64_t own = function->getInstructionCount();
      if (own <= kSmallFunction)
        small.insert(function);
      else if ((own <= kLibraryFunction && isOfLibrary(*function)) || (own <= kMakingFunction && (makesMemory(*function) || movesPointers(*function))))
        large.insert(function);
    }
  }

  Module &program;
  const FeatureVariables &variables;
  AnalysisCopy copy;
  LoopAnalysisManager loopAnalyses;
  FunctionAnalysisManager functionAnalyses;
  CGSCCAnalysisManager sccAnalyses;
  ModuleAnalysisManager moduleAnalyses;
  PassBuilder builder;
};

std::optional<unsigned> marker(const Instruction &instruction, StringRef name) {
  const auto *call = dyn_cast<CallInst>(&instruction);
  const Function *callee = call ? call->getCalledFunction() : nullptr;
  if (!callee || !callee->getName().starts_with(name))
    return std::nullopt;
  return cast<ConstantInt>(call->getArgOperand(1))->getZExtValue();
}

}  // namespace

AnalysisCopy transect::copyForAnalysis(Module &program, const FeatureVariables &variables) {
  return Copier(program, variables).run();
}

bool transect::isIgnored(const Function &function) { return function.hasFnAttribute(kIgnoredFunction); }

std::optional<unsigned> transect::decisionOf(const Instruction &instruction) {
  const MDNode *node = instruction.getMetadata(kDecision);
  if (!node)
    return std::nullopt;
  return mdconst::extract<ConstantInt>(node->getOperand(0))->getZExtValue();
}

std::optional<unsigned> transect::markedMemory(const Instruction &instruction) { return marker(instruction, kMemory); }

uint64_t transect::markedBytes(const Instruction &instruction) {
  return cast<ConstantInt>(cast<CallInst>(instruction).getArgOperand(2))->getZExtValue();
}

std::optional<unsigned> transect::markedValue(const Instruction &instruction) { return marker(instruction, kValue); }

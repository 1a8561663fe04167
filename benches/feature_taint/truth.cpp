// What a run itself tells of data flow: every read of a feature's variable is given the feature's label, every decision
// shows its condition to the runtime. DataFlowSanitizer, which runs behind this pass, carries the labels.
#include "variables.h"

#include "field_path.h"
#include "model.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Passes/PassPlugin.h"

using namespace llvm;
using namespace transect;

namespace {

class Truth {
public:
  Truth(Module &module, const FeatureVariables &variables) : module(module), variables(variables) {
    LLVMContext &context = module.getContext();
    number = Type::getInt32Ty(context);
    word = Type::getInt64Ty(context);
    label = module.getOrInsertFunction("transect_truth_label", word, word, number);
    decide = module.getOrInsertFunction("transect_truth_decision", Type::getVoidTy(context), number, word);
  }

  void run() {
    unsigned next = 0;
    std::vector<std::pair<Instruction *, unsigned>> decisions;
    SetVector<std::pair<Instruction *, unsigned>> reads;
    for (Function &function : module)
      for (Instruction &instruction : instructions(function)) {
        // The plugin numbers decisions in the same order.
        const auto *branch = dyn_cast<BranchInst>(&instruction);
        const auto *call = dyn_cast<CallBase>(&instruction);
        if ((branch && branch->isConditional()) || isa<SwitchInst>(instruction) || isa<IndirectBrInst>(instruction) ||
            (call && call->isIndirectCall()))
          decisions.push_back({&instruction, next++});
        if (const auto *load = dyn_cast<LoadInst>(&instruction)) {
          const Value *from = load->getPointerOperand()->stripInBoundsConstantOffsets();
          for (auto [memory, feature] : variables.memory)
            if (from == memory)
              reads.insert({&instruction, feature});
          for (const FieldPlace &place : fieldsAt(load->getPointerOperand(), module.getDataLayout()))
            for (const MemberSeed &seed : variables.members)
              if (seed.bits == 0 && seed.type == place.type && seed.byteOffset == place.offset)
                reads.insert({&instruction, seed.feature});
        }
      }
    for (auto [read, feature] : reads)
      mark(read, feature);
    for (auto [decision, id] : decisions)
      show(decision, id);
  }

private:
  bool fits(Type *type) {
    return type->isPointerTy() || (type->isIntegerTy() && type->getIntegerBitWidth() <= 64) || type->isFloatTy() ||
           type->isDoubleTy();
  }

  Value *toWord(IRBuilder<> &build, Value *value) {
    Type *type = value->getType();
    if (type->isPointerTy())
      return build.CreatePtrToInt(value, word);
    if (!type->isIntegerTy())
      value = build.CreateBitCast(value, build.getIntNTy(type->getPrimitiveSizeInBits()));
    return build.CreateZExt(value, word);
  }

  void mark(Instruction *value, unsigned feature) {
    Type *type = value->getType();
    if (!fits(type))
      return;
    std::vector<Use *> uses;
    for (Use &use : value->uses())
      uses.push_back(&use);
    IRBuilder<> build(value->getNextNode());
    Value *marked = build.CreateCall(label, {toWord(build, value), ConstantInt::get(number, feature)});
    if (type->isPointerTy())
      marked = build.CreateIntToPtr(marked, type);
    else if (type->isIntegerTy())
      marked = build.CreateTrunc(marked, type);
    else
      marked = build.CreateBitCast(build.CreateTrunc(marked, build.getIntNTy(type->getPrimitiveSizeInBits())), type);
    for (Use *use : uses)
      use->set(marked);
  }

  void show(Instruction *decision, unsigned id) {
    IRBuilder<> build(decision);
    Value *condition = nullptr;
    if (auto *branch = dyn_cast<BranchInst>(decision))
      condition = branch->getCondition();
    else if (auto *choice = dyn_cast<SwitchInst>(decision))
      condition = choice->getCondition();
    else if (auto *jump = dyn_cast<IndirectBrInst>(decision))
      condition = jump->getAddress();
    else
      condition = cast<CallBase>(decision)->getCalledOperand();
    if (fits(condition->getType()))
      build.CreateCall(decide, {ConstantInt::get(number, id), toWord(build, condition)});
  }

  Module &module;
  const FeatureVariables &variables;
  Type *number, *word;
  FunctionCallee label, decide;
};

struct TruthPass : PassInfoMixin<TruthPass> {
  PreservedAnalyses run(Module &module, ModuleAnalysisManager &) {
    FeatureModel model;
    std::string error;
    const char *path = std::getenv("TRANSECT_FEATURE_MODEL");
    if (auto read = readFeatureModel(path ? path : "", error))
      model = std::move(*read);
    RegionSet found;
    FeatureVariables variables = findVariables(module, model, found);
    if (!error.empty() || !found.errors.empty())
      module.getContext().emitError("model: " + (error.empty() ? found.errors.front() : error));
    Truth(module, variables).run();
    return PreservedAnalyses::none();
  }
  static bool isRequired() { return true; }
};

}  // namespace

extern "C" __attribute__((visibility("default"))) PassPluginLibraryInfo llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "transect-truth", "1", [](PassBuilder &builder) {
            builder.registerPipelineParsingCallback(
                [](StringRef name, ModulePassManager &passes, ArrayRef<PassBuilder::PipelineElement>) {
                  if (name != "transect-truth")
                    return false;
                  passes.addPass(TruthPass());
                  return true;
                });
          }};
}

#include "confirmation.h"

#include "carry_labels.h"
#include "external_functions.h"
#include "feature_reads.h"
#include "implicit_flow.h"
#include "label_writer.h"
#include "sections.h"

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Support/xxhash.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"

#include <cstdio>
#include <numeric>
#include <optional>
#include <set>

using namespace llvm;
using namespace transect;

namespace {

std::string joined(ArrayRef<unsigned> numbers) {
  std::string text;
  for (unsigned number : numbers)
    text += (text.empty() ? "" : ",") + std::to_string(number);
  return text;
}

/// Features that any decision has, in the order of their labels.
std::vector<unsigned> labelledFeatures(const std::vector<CountedDecision> &decisions) {
  std::set<unsigned> features;
  for (const CountedDecision &decision : decisions)
    features.insert(decision.features.begin(), decision.features.end());
  return {features.begin(), features.end()};
}

/// Whether a variable is never written: only read, or the start of addresses that are.
bool isNeverWritten(const Value &address, SmallPtrSetImpl<const Value *> &seen) {
  if (!seen.insert(&address).second)
    return true;
  return all_of(address.users(), [&](const User *user) {
    if (isa<LoadInst>(user) || isa<ICmpInst>(user))
      return true;
    if (isa<GEPOperator>(user) || isa<BitCastOperator>(user))
      return isNeverWritten(*user, seen);
    const auto *copy = dyn_cast<MemTransferInst>(user);
    return copy && copy->getRawDest() != &address;
  });
}

bool isTable(const GlobalVariable &global) {
  if (!global.hasInitializer() || global.isThreadLocal() || global.getName().starts_with("llvm.") ||
      !global.getValueType()->isSized())
    return false;
  SmallPtrSet<const Value *, 16> seen;
  return global.isConstant() || (global.hasLocalLinkage() && isNeverWritten(global, seen));
}

/// Emits what the runtime and the readers of the binary need to know.
void describe(Module &module, const std::vector<CountedDecision> &decisions, ArrayRef<unsigned> labels) {
  std::string body;
  for (const CountedDecision &decision : decisions)
    body += "D\tregion=" + std::to_string(decision.region) + "\tfeatures=" + joined(decision.features) +
            "\tdata=" + joined(decision.dataFeatures) + "\n";
  uint64_t identity = xxHash64(body);
  if (const GlobalVariable *table = module.getGlobalVariable("transect_region_table", /*AllowInternal=*/true))
    if (const auto *text = dyn_cast<ConstantDataArray>(table->getInitializer()))
      identity ^= xxHash64(text->getRawDataValues()) * 0x9e3779b97f4a7c15;
  char hash[17];
  std::snprintf(hash, sizeof hash, "%016llx", static_cast<unsigned long long>(identity));
  LLVMContext &context = module.getContext();
  const std::string head = std::string("C\tversion=1\tidentity=") + hash +
                           "\tdecisions=" + std::to_string(decisions.size()) + "\tlabels=" + joined(labels) +
                           "\tlibrary=" + libraryWithoutLabels(module) + "\n";
  Constant *text = ConstantDataArray::getString(context, head + body, /*AddNull=*/false);
  auto *section =
      new GlobalVariable(module, text->getType(), true, GlobalValue::InternalLinkage, text, "transect_decision_table");
  section->setSection(kDecisionsSection);
  section->setAlignment(Align(1));

  Type *word = Type::getInt64Ty(context), *pointer = PointerType::getUnqual(context);
  StructType *range = StructType::get(pointer, word);
  std::vector<Constant *> tables;
  for (GlobalVariable &global : module.globals())
    if (&global != section && isTable(global))
      tables.push_back(ConstantStruct::get(
          range, {&global, ConstantInt::get(word, module.getDataLayout().getTypeAllocSize(global.getValueType()))}));
  auto *ranges = ArrayType::get(range, tables.size());
  Constant *program =
      ConstantStruct::getAnon({ConstantInt::get(word, identity), ConstantInt::get(word, decisions.size()),
                               ConstantInt::get(word, tables.size()), ConstantArray::get(ranges, tables)});
  auto *variable =
      new GlobalVariable(module, program->getType(), true, GlobalValue::ExternalLinkage, program, kConfirmedProgram);
  variable->setVisibility(GlobalValue::HiddenVisibility);
  appendToUsed(module, {section, variable});
}

/// Text to which a feature's variable points, and the C library's tables of characters: labels of their addresses
/// count.
bool isReadByAddress(const LoadInst &load, const FeatureReads &reads) {
  const auto *from = dyn_cast<LoadInst>(load.getPointerOperand()->stripInBoundsOffsets());
  if (!from)
    return false;
  if (const auto *call = dyn_cast<CallBase>(from->getPointerOperand()))
    return call->getCalledFunction() && tellsCharacters(*call->getCalledFunction());
  return load.getType()->isIntegerTy(8) && any_of(reads.values, [&](auto &read) { return read.first == from; });
}

/// What is put in: places are found in the code as it is, then written.
struct Places {
  FeatureReads reads;
  std::vector<std::pair<LoadInst *, bool>> loads;  ///< Through pointers; whether labels of the address always count.
  std::vector<MemTransferInst *> copies;
  std::vector<std::pair<Instruction *, Value *>> choices;
};

Places findPlaces(Module &module, ImplicitFlow implicit, const FeatureVariables &variables) {
  Places places{featureReads(module, variables), {}, {}, {}};
  DenseSet<const Value *> readOnly;
  for (const GlobalVariable &global : module.globals())
    if (global.isConstant())
      readOnly.insert(&global);
  const ImplicitDependences dependences(module, implicit, readOnly);
  for (Function &function : module)
    for (Instruction &instruction : instructions(function)) {
      if (auto *load = dyn_cast<LoadInst>(&instruction)) {
        const Value *from = load->getPointerOperand()->stripInBoundsConstantOffsets();
        if (!isa<AllocaInst>(from) && !isa<GlobalVariable>(from))
          places.loads.push_back({load, isReadByAddress(*load, places.reads)});
      } else if (auto *copy = dyn_cast<MemTransferInst>(&instruction))
        places.copies.push_back(copy);
      for (const Value *condition : dependences.of(&instruction))
        places.choices.push_back({&instruction, const_cast<Value *>(condition)});
    }
  return places;
}

}  // namespace

std::vector<CountedDecision> transect::regionDecisions(const RegionSet &regions) {
  std::vector<CountedDecision> decisions;
  for (const Region &region : regions.regions)
    for (const Decider &decider : region.deciders) {
      CountedDecision &decision = decisions.emplace_back();
      decision.instruction = decider.instruction;
      decision.region = region.number;
      for (FeatureUse use : decider.features) {
        decision.features.push_back(use.feature);
        if (use.dependence != Dependence::Stored)
          decision.dataFeatures.push_back(use.feature);
      }
    }
  return decisions;
}

std::vector<CountedDecision> transect::allDecisions(const RegionSet &regions) {
  std::vector<unsigned> features(regions.features.size());
  std::iota(features.begin(), features.end(), 0);
  std::vector<CountedDecision> decisions;
  for (Instruction *instruction : regions.decisions)
    decisions.push_back({instruction, 0, features, features});
  return decisions;
}

void transect::confirmDecisions(Module &module, const RegionSet &regions, const std::vector<CountedDecision> &decisions,
                                const FeatureVariables &variables) {
  const std::vector<unsigned> labels = labelledFeatures(decisions);
  describe(module, decisions, labels);
  const ImplicitFlow implicit = regions.implicit == "none"  ? ImplicitFlow::None
                                : regions.implicit == "all" ? ImplicitFlow::All
                                                            : ImplicitFlow::Constant;
  const Places places = findPlaces(module, implicit, variables);
  LabelWriter writer(module);
  auto labelOf = [&](unsigned feature) -> std::optional<unsigned> {
    auto place = llvm::find(labels, feature);
    return place == labels.end() ? std::nullopt : std::optional<unsigned>(place - labels.begin());
  };
  for (auto [load, always] : places.loads)
    writer.markLoad(*load, always);
  for (MemTransferInst *copy : places.copies)
    writer.markCopy(*copy);
  for (auto [value, feature] : places.reads.values)
    if (auto label = labelOf(feature))
      writer.markValue(*value, *label);
  for (auto [store, feature] : places.reads.stores)
    if (auto label = labelOf(feature))
      writer.markStore(*store, *label);
  for (auto [instruction, condition] : places.choices)
    writer.markChoice(*instruction, *condition);
  for (size_t number = 0; number < decisions.size(); ++number)
    writer.count(*decisions[number].instruction, number);
}

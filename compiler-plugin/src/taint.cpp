#include "taint.h"

#include "access_kind.h"
#include "cuts.h"
#include "taint_flow.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/InstIterator.h"

#include <algorithm>
#include <map>
#include <utility>

using namespace llvm;
using namespace transect;

std::vector<FeatureUses> Taint::run() {
  findCallers();
  findStored();
  // Which variables hold data is known when the features' way is followed for the last time.
  for (unsigned number = 0; number < 3; ++number)
    pass(number);
  return decide();
}

void Taint::pass(unsigned number) {
  dataPass = number;
  leadsNowhere = isUncalled = false;
  before.values = std::exchange(values, decltype(values)());
  before.carried = std::exchange(carried, decltype(carried)());
  returned.clear();
  contents.clear();
  watches.clear();
  written.clear();
  watched.clear();
  cellAccesses.clear();
  tokens = 0;
  tokenCalls.clear();
  if (question.out && number == 2)
    explanation.emplace(sets, pointsTo);
  seed();
  for (const Function &function : module) {
    for (const Argument &parameter : function.args())
      give(&parameter, sets.single(Label::parameter(parameter.getArgNo())));
    for (const Instruction &instruction : instructions(function))
      push(&instruction);
  }
  while (!work.empty()) {
    std::vector<const Instruction *> round;
    round.swap(work);
    for (const Instruction *instruction : round) {
      queued.erase(instruction);
      transfer(instruction);
    }
  }
}

Taint::Id Taint::labels(const Value *value) {
  auto known = values.find(value);
  Id set = known == values.end() ? 0 : known->second;
  if (explanation)
    explanation->take(TaintPlace::value(value), set);
  return set;
}

void Taint::give(const Value *value, Id set) {
  if (set == 0)
    return;
  Id &place = values[value];
  if (!raise(place, set))
    return;
  if (explanation)
    explanation->arrive(TaintPlace::value(value), place);
  for (const User *user : value->users())
    if (const auto *instruction = dyn_cast<Instruction>(user))
      push(instruction);
  for (const Instruction *dependent : dependences.on(value))
    push(dependent);
}

Taint::Id Taint::operands(const Instruction *instruction) {
  Id result = 0;
  for (const Use &operand : instruction->operands())
    result = sets.unite(result, labels(operand));
  return result;
}

void Taint::transfer(const Instruction *instruction) {
  const Function *function = instruction->getFunction();
  leadsNowhere = isIgnored(*function);
  isUncalled = function->arg_size() > 0 && function->getName() != "main" && callers.lookup(function).empty();
  if (explanation)
    explanation->begin(instruction);
  if (const auto *load = dyn_cast<LoadInst>(instruction)) {
    Id set = read(load, load->getPointerOperand(), sizeOf(load->getType()), partsOf(load->getType()));
    // What is read from one of many places is data, whatever was written there.
    if (dataPass && !isTable(load->getPointerOperand()) && isElement(load->getPointerOperand()))
      set = sets.unite(set, data(true));
    Id address = labels(load->getPointerOperand());
    if (address && isFeatureText(*load))
      set = sets.unite(sets.withoutData(set), address);
    else if (address && (isTable(load->getPointerOperand()) || isCharacterTable(load->getPointerOperand())))
      set = sets.unite(set, sets.weakened(address, Dependence::Computed));
    give(load, set);
  } else if (const auto *store = dyn_cast<StoreInst>(instruction)) {
    const bool element = isElement(store->getPointerOperand());
    Id set = element && isCutToByte(store->getValueOperand()) ? 0 : labelsBesideOwn(store->getValueOperand(), *store, 0);
    if (element)
      set = sets.weakened(sets.withoutData(set), Dependence::Content);
    // Of the elements of a buffer none is a variable that a reader would say is chosen.
    if (!element || implicit == ImplicitFlow::All)
      set = sets.unite(set, chosen(store));
    Type *type = store->getValueOperand()->getType();
    set = total(set, function);
    // A number beside data that is kept for others is data to them.
    if (!element && sets.isMixed(set))
      set = sets.unite(set, data(true));
    write(store->getPointerOperand(), sizeOf(type), set, partsOf(type));
  } else if (const auto *exchange = dyn_cast<AtomicRMWInst>(instruction)) {
    uint64_t size = sizeOf(exchange->getType());
    write(exchange->getPointerOperand(), size, total(labels(exchange->getValOperand()), function));
    give(exchange, read(exchange, exchange->getPointerOperand(), size));
  } else if (const auto *exchange = dyn_cast<AtomicCmpXchgInst>(instruction)) {
    uint64_t size = sizeOf(exchange->getNewValOperand()->getType());
    write(exchange->getPointerOperand(), size, total(labels(exchange->getNewValOperand()), function));
    give(exchange, read(exchange, exchange->getPointerOperand(), size));
  } else if (const auto *phi = dyn_cast<PHINode>(instruction)) {
    // What it was computed from explains more than what chose.
    const Id own = operands(phi);
    give(phi, sets.unite(own, chosen(phi)));
  } else if (const auto *select = dyn_cast<SelectInst>(instruction)) {
    give(select, selected(*select, [this](const Value *value) { return labels(value); }));
  } else if (const auto *end = dyn_cast<ReturnInst>(instruction)) {
    if (end->getReturnValue())
      giveBack(function, sets.unite(chosen(end), labels(end->getReturnValue())));
  } else if (const auto *call = dyn_cast<CallBase>(instruction)) {
    transferCall(call);
  } else if (!isa<AllocaInst>(instruction) && !instruction->isTerminator()) {
    Id set = 0;
    if (isa<CmpInst>(instruction))
      set = compared(instruction);
    else
      set = derived(instruction, operands(instruction));
    if (instruction->getType()->isIntegerTy(1))
      set = sets.withoutData(set);
    else if (isArithmetic(*instruction))
      set = sets.unite(sets.withoutData(set), data(isComputedData(instruction)));
    give(instruction, set);
  }
}

std::vector<FeatureUses> Taint::decide() {
  std::vector<std::map<unsigned, Dependence>> found(copy.decisions.size());
  std::optional<Cuts> cuts;
  if (question.cuts)
    cuts.emplace(*copy.module, *explanation);
  for (const Function &function : module)
    for (const Instruction &instruction : instructions(function)) {
      auto number = decisionOf(instruction);
      if (!number)
        continue;
      Id set = 0;
      if (const Value *condition = conditionOf(&instruction))
        set = isa<SwitchInst>(instruction) ? compared(condition) : labels(condition);
      else if (const auto *call = dyn_cast<CallBase>(&instruction))
        set = call->isIndirectCall() ? calleeLabels(call) : 0;
      for (Label label : sets.of(sets.withoutData(total(set, &function)))) {
        auto [use, isNew] = found[*number].try_emplace(label.number(), label.dependence());
        use->second = std::min(use->second, label.dependence());
        if (!isNew)
          continue;
        if (explanation && question.asksFor(instruction))
          explanation->print(instruction, conditionOf(&instruction), label.number(),
                             question.features[label.number()], *question.out);
        if (cuts && label.dependence() <= kDefaultDependence)
          cuts->add(instruction, conditionOf(&instruction), label.number());
      }
    }
  if (cuts)
    cuts->print(question.features, *question.out);
  std::vector<FeatureUses> result(found.size());
  for (size_t i = 0; i < found.size(); ++i)
    for (auto [feature, dependence] : found[i])
      result[i].push_back({feature, dependence});
  return result;
}

std::vector<FeatureUses> transect::decisionFeatures(const AnalysisCopy &copy, const PointsTo &pointsTo,
                                                    ImplicitFlow implicit, const TaintQuestion &question) {
  return Taint(copy, pointsTo, implicit, question).run();
}

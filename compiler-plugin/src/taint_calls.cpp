// What calls hand on.
#include "taint_flow.h"

#include "access_kind.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/IntrinsicInst.h"

using namespace llvm;
using namespace transect;

void Taint::giveBack(const Function *function, Id set) {
  if (leadsNowhere)
    return;
  Id &place = returned[function];
  if (!raise(place, set))
    return;
  if (explanation)
    explanation->arrive(TaintPlace::result(function), place);
  for (const CallBase *caller : callers[function])
    push(caller);
}

void Taint::transferCall(const CallBase *call) {
  const Function *function = call->getFunction();
  if (auto feature = markedValue(*call)) {
    if (*feature == kIgnored)
      return;
    give(call, sets.unite(sets.withoutData(labels(call->getArgOperand(0))), sets.single(Label::feature(*feature))));
    return;
  }
  if (const auto *transfer = dyn_cast<AnyMemTransferInst>(call)) {
    const auto *length = dyn_cast<ConstantInt>(transfer->getLength());
    copyMemory(call, transfer->getRawDest(), transfer->getRawSource(), length ? length->getZExtValue() : ~0ull);
    // Text to which an option points, and tables.
    if (Id address = labels(transfer->getRawSource()); address && isTable(transfer->getRawSource()))
      write(transfer->getRawDest(), length ? length->getZExtValue() : ~0ull,
            sets.weakened(total(address, function),
                          isElement(transfer->getRawDest()) ? Dependence::Content : Dependence::Computed));
    if (length && !isElement(transfer->getRawDest()))
      write(transfer->getRawDest(), length->getZExtValue(), total(chosen(transfer), function));
    return;
  }
  if (const auto *fill = dyn_cast<AnyMemSetInst>(call)) {
    const auto *length = dyn_cast<ConstantInt>(fill->getLength());
    write(fill->getRawDest(), length ? length->getZExtValue() : ~0ull, total(labels(fill->getValue()), function));
    if (length && !isElement(fill->getRawDest()))
      write(fill->getRawDest(), length->getZExtValue(), total(chosen(fill), function));
    return;
  }
  if (isa<IntrinsicInst>(call) || isa<InlineAsm>(call->getCalledOperand())) {
    if (!call->getType()->isVoidTy()) {
      Id set = 0;
      for (const Use &argument : call->args())
        set = sets.unite(set, labels(argument));
      give(call, derived(call, set));
    }
    return;
  }
  for (const CallTarget &target : pointsTo.calls(call)) {
    for (auto [value, parameter] : target.arguments) {
      Id set = isPutOut(value, parameter) ? 0 : total(labels(value), function);
      if (parameter)
        carry(parameter, set);
      else if (int place = pointsTo.variableArguments(target.function); place >= 0)
        writeCell(place, set, partsOf(value->getType()));
    }
    if (target.returns) {
      Id result = returned.lookup(target.function);
      if (explanation)
        explanation->take(TaintPlace::result(target.function), sets.features(result));
      give(call, sets.substitute(result, [&](unsigned number) {
        return number < call->arg_size() ? given(call->getArgOperand(number)) : LabelSets::Given{0, false, false};
      }));
    }
  }
  for (const Function *external : pointsTo.externals(call))
    transferExternal(call, externalFunction(*external));
}

void Taint::transferExternal(const CallBase *call, const ExternalFunction &known) {
  const Function *function = call->getFunction();
  // Results from outside are data, but not new memory.
  if (dataPass && !call->getType()->isVoidTy() && !known.valueOfArguments && known.returnsArgument < 0 && known.returnsPointee < 0 &&
      !known.continues && !known.duplicates && !known.catches && known.returnsFields.empty() && known.ownMemory < 0 && !call->returnDoesNotAlias())
    give(call, data(true));
  auto has = [&](int number) { return number >= 0 && static_cast<unsigned>(number) < call->arg_size(); };
  auto whole = [&](const Value *argument) {
    Id set = labels(argument);
    if (argument->getType()->isPointerTy())
      set = sets.unite(set, read(call, argument, kString));
    return set;
  };
  if (known.valueOfArguments)
    for (const Use &argument : call->args())
      give(call, known.compares ? whole(argument) : sets.weakened(whole(argument), Dependence::Computed));
  if (has(known.returnsArgument))
    give(call, labels(call->getArgOperand(known.returnsArgument)));
  if (has(known.copyTo) && has(known.copyFrom)) {
    const Value *to = call->getArgOperand(known.copyTo), *from = call->getArgOperand(known.copyFrom);
    copyMemory(call, to, from, ~0ull);
    write(to, kString, total(whole(from), function));
  }
  if (known.continues && has(0)) {
    Id united = sets.unite(tokens, total(whole(call->getArgOperand(0)), function));
    if (tokenCalls.insert(call).second || united != tokens)
      for (const Instruction *other : tokenCalls)
        push(other);
    tokens = united;
    give(call, tokens);
  }
  if (has(known.returnsPointee))
    give(call, read(call, call->getArgOperand(known.returnsPointee), kString));
  if (known.duplicates && has(known.copyFrom)) {
    const Value *from = call->getArgOperand(known.copyFrom);
    write(call, kString, read(call, from, kString));
    give(call, labels(from));
  }
  if (has(known.fillTo))
    for (unsigned i = known.fillFirst; i < call->arg_size() && (known.fillLast < 0 || i <= unsigned(known.fillLast)); ++i)
      write(call->getArgOperand(known.fillTo), kString,
            sets.weakened(total(whole(call->getArgOperand(i)), function), known.fillAs));
  if (has(known.readFrom))
    for (unsigned i = known.readFirst; i < call->arg_size() && (known.readLast < 0 || i <= unsigned(known.readLast)); ++i)
      write(call->getArgOperand(i), kString,
            sets.weakened(total(whole(call->getArgOperand(known.readFrom)), function), Dependence::Computed));
}

Taint::Id Taint::calleeLabels(const CallBase *call) {
  if (pointsTo.calls(call).size() + pointsTo.externals(call).size() == 1)
    return 0;
  const Value *value = call->getCalledOperand();
  Id set = labels(value);
  for (unsigned level = 0; level < 2; ++level) {
    const auto *load = dyn_cast<LoadInst>(value);
    if (!load)
      break;
    // The index into a table of functions, too.
    set = sets.unite(set, labels(load->getPointerOperand()));
    value = load->getPointerOperand()->stripInBoundsOffsets();
    set = sets.unite(set, labels(value));
  }
  return set;
}

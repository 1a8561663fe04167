#include "explanation.h"

#include "taint.h"

#include "llvm/Demangle/Demangle.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/GlobalVariable.h"
#include "llvm/IR/Instructions.h"
#include "llvm/Support/Path.h"

using namespace llvm;
using namespace transect;

namespace {

const char *kindOf(const Value *value) {
  if (isa<LoadInst>(value))
    return "value read";
  if (isa<CallBase>(value))
    return "result of the call";
  if (isa<PHINode>(value) || isa<SelectInst>(value))
    return "value that depends on the way";
  if (isa<CmpInst>(value))
    return "comparison";
  return "value computed";
}

}  // namespace

std::string transect::placeInSource(const Instruction &instruction) {
  std::string text;
  raw_string_ostream out(text);
  const DILocation *place = instruction.getDebugLoc().get();
  if (!place)
    return "in " + demangle(instruction.getFunction()->getName().str());
  out << sys::path::filename(place->getFilename()) << ":" << place->getLine() << " in ";
  const DISubprogram *function = place->getScope()->getSubprogram();
  out << (function ? function->getName() : instruction.getFunction()->getName());
  for (const DILocation *outer = place->getInlinedAt(); outer; outer = outer->getInlinedAt())
    out << ", called at " << sys::path::filename(outer->getFilename()) << ":" << outer->getLine();
  return out.str();
}

void Explanation::arrive(TaintPlace place, LabelSets::Id set) {
  for (Label label : sets.of(set)) {
    auto [cause, isNew] = causes.try_emplace(keyOf(place, label.use()));
    if (!isNew)
      continue;
    cause->second = {place, label.use(), step, true, false};
    for (const Taken &part : taken) {
      if (part.place.what == place.what && part.place.kind == place.kind)
        continue;
      std::optional<Label> from;
      for (Label known : sets.of(part.set))
        if (known.origin() == label.origin() && known.dependence() <= label.dependence() &&
            (!from || known.dependence() < from->dependence()))
          from = known;
      if (from) {
        cause->second = {part.place, from->use(), step, false, part.isChosen};
        break;
      }
    }
  }
}

std::optional<uint32_t> Explanation::strongest(TaintPlace place, uint32_t source) const {
  for (unsigned dependence = 0; dependence <= static_cast<unsigned>(Dependence::Content); ++dependence) {
    const Label plain = Label{source}.by(0, static_cast<Dependence>(dependence), false);
    for (Label label : {plain, plain.withoutData(), plain.compared(false), plain.compared(true)}) {
      if (causes.count(keyOf(place, label.bits)))
        return label.bits;
      for (unsigned bit = 0; bit < Label::kWordBits; ++bit)
        if (const uint32_t one = label.of(bit).bits; causes.count(keyOf(place, one)))
          return one;
    }
  }
  return std::nullopt;
}

std::string Explanation::described(TaintPlace place) const {
  std::string text;
  raw_string_ostream out(text);
  switch (place.kind) {
  case TaintPlace::Kind::Value: {
    const auto *value = static_cast<const Value *>(place.what);
    if (const auto *parameter = dyn_cast<Argument>(value)) {
      out << "parameter " << parameter->getArgNo() + 1 << " of " << demangle(parameter->getParent()->getName().str());
    } else if (const auto *instruction = dyn_cast<Instruction>(value)) {
      out << kindOf(value) << " at " << placeInSource(*instruction);
    } else {
      out << "constant";
    }
    break;
  }
  case TaintPlace::Kind::Cell: {
    unsigned number = reinterpret_cast<uintptr_t>(place.what) - 1;
    if (number >= pointsTo.locationCount()) {
      out << "a field of memory from outside";
      break;
    }
    const PointsTo::Location &location = pointsTo.location(number);
    const PointsTo::Object &object = pointsTo.object(location.object);
    if (const auto *global = dyn_cast_or_null<GlobalValue>(object.origin))
      out << "variable " << global->getName();
    else if (const auto *call = dyn_cast_or_null<CallBase>(object.origin))
      out << "memory allocated at " << placeInSource(*call);
    else if (const auto *local = dyn_cast_or_null<AllocaInst>(object.origin))
      out << "local variable " << local->getName() << " of " << local->getFunction()->getName();
    else
      out << "variable arguments";
    if (location.offset)
      out << ", offset " << location.offset;
    break;
  }
  case TaintPlace::Kind::Parameter: {
    const auto *parameter = static_cast<const Argument *>(place.what);
    out << "parameter " << parameter->getArgNo() + 1 << " of " << demangle(parameter->getParent()->getName().str());
    break;
  }
  case TaintPlace::Kind::Result:
    out << "result of " << demangle(static_cast<const Function *>(place.what)->getName().str());
    break;
  }
  return out.str();
}

void Explanation::follow(const Instruction &decision, const Value *condition, unsigned feature,
                         function_ref<void(const WayStep &)> visit) const {
  constexpr unsigned kLongest = 200;
  if (!condition)
    return;
  TaintPlace place = TaintPlace::value(condition);
  const uint32_t wanted = Label::feature(feature).source();
  std::optional<uint32_t> begin = strongest(place, wanted);
  // Through parameters: the condition carries the parameter, and what calls give to that carries the feature.
  for (const Argument &parameter : decision.getFunction()->args()) {
    auto own = strongest(place, Label::parameter(parameter.getArgNo()).source());
    auto given = strongest(TaintPlace::parameter(&parameter), wanted);
    const auto weaker = [](uint32_t a, uint32_t b) { return std::max(Label{a}.dependence(), Label{b}.dependence()); };
    if (own && given && (!begin || weaker(*own, *given) < Label{*begin}.dependence()))
      begin = own;
  }
  if (!begin)
    return;
  uint32_t label = *begin;
  for (unsigned steps = 0; steps < kLongest; ++steps) {
    const Dependence dependence = Label{label}.dependence();
    if (place.kind == TaintPlace::Kind::Value && Label{label}.isParameter())
      if (const auto *parameter = dyn_cast<Argument>(static_cast<const Value *>(place.what))) {
        visit({place, dependence, nullptr, false, false});
        place = TaintPlace::parameter(parameter);
        label = strongest(place, wanted).value_or(label);
        continue;
      }
    auto known = causes.find(keyOf(place, label));
    if (known == causes.end() || known->second.isSeed)
      return visit({place, dependence, nullptr, true, false});
    const Cause &cause = known->second;
    visit({place, dependence, cause.step, false, cause.isChosen});
    place = cause.from;
    label = cause.label;
  }
}

std::string Explanation::described(const WayStep &step) const {
  std::string text = described(step.place);
  if (step.isVariable)
    return text + ": the feature's variable";
  if (step.place.kind != TaintPlace::Kind::Value && step.setAt)
    text += ", set at " + placeInSource(*step.setAt);
  if (step.isChosen)
    text += ", a constant chosen by";
  return text;
}

void Explanation::print(const Instruction &decision, const Value *condition, unsigned feature, const std::string &name,
                        raw_ostream &out) const {
  out << "transect: " << name << " reaches the decision at " << placeInSource(decision) << "\n";
  follow(decision, condition, feature, [&](const WayStep &step) { out << "transect:   " << described(step) << "\n"; });
}

TaintQuestion TaintQuestion::read(StringRef text, bool cuts, std::vector<std::string> features, raw_ostream &out) {
  TaintQuestion question;
  if (text.empty() && !cuts)
    return question;
  auto [where, line] = text.rsplit(':');
  if (line.empty() || line.getAsInteger(10, question.line))
    where = text;
  question.function = where.str();
  question.cuts = cuts;
  question.features = std::move(features);
  question.out = &out;
  return question;
}

bool TaintQuestion::asksFor(const Instruction &decision) const {
  const DILocation *place = decision.getDebugLoc().get();
  if (!out || !place || (line != 0 && place->getLine() != line))
    return false;
  const DISubprogram *scope = place->getScope()->getSubprogram();
  return (scope && scope->getName() == function) || sys::path::filename(place->getFilename()) == function;
}

#include "taint.h"

#include "access_kind.h"
#include "cuts.h"
#include "explanation.h"
#include "field_path.h"
#include "implicit_flow.h"
#include "labels.h"
#include "memory_cells.h"
#include "structure_names.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Operator.h"

#include <algorithm>
#include <map>
#include <optional>

using namespace llvm;
using namespace transect;

namespace {

/// Constants stored under a branch carry its features; what is stored under a branch on such a constant does not.
constexpr unsigned kMostHops = 1;
constexpr uint64_t kString = 1;

class Taint {
public:
  Taint(const AnalysisCopy &copy, const PointsTo &pointsTo, ImplicitFlow implicit, const TaintQuestion &question)
      : copy(copy), module(*copy.module), pointsTo(pointsTo), implicit(implicit), question(question),
        cells(module, pointsTo), dependences(module, implicit, copy.readOnly), sets(kMostHops, implicit == ImplicitFlow::All) {
    if (question.out)
      explanation.emplace(sets, pointsTo);
  }

  std::vector<FeatureUses> run() {
    findCallers();
    findStored();
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
    return decide();
  }

private:
  using Id = LabelSets::Id;

  /// An access that is read: what is read, and by what.
  struct Watch {
    Id contents = 0;
    std::vector<const Instruction *> readers;
  };

  void push(const Instruction *instruction) {
    if (queued.insert(instruction).second)
      work.push_back(instruction);
  }

  Id labels(const Value *value) {
    auto known = values.find(value);
    Id set = known == values.end() ? 0 : known->second;
    if (explanation)
      explanation->take(TaintPlace::value(value), set);
    return set;
  }

  void give(const Value *value, Id set) {
    if (set == 0)
      return;
    Id &place = values[value];
    Id united = sets.unite(place, set);
    if (united == place)
      return;
    place = united;
    if (explanation)
      explanation->arrive(TaintPlace::value(value), united);
    for (const User *user : value->users())
      if (const auto *instruction = dyn_cast<Instruction>(user))
        push(instruction);
    for (const Instruction *dependent : dependences.on(value))
      push(dependent);
  }

  /// Features only: parameters' labels become what all call sites together give.
  Id total(Id set, const Function *function) {
    return sets.substitute(set, [&](unsigned number) -> Id {
      if (number >= function->arg_size())
        return 0;
      Id given = carried.lookup(function->getArg(number));
      if (explanation)
        explanation->take(TaintPlace::parameter(function->getArg(number)), given);
      return given;
    });
  }

  void carry(const Argument *parameter, Id set) {
    Id &place = carried[parameter];
    Id united = sets.unite(place, set);
    if (united == place)
      return;
    place = united;
    if (explanation)
      explanation->arrive(TaintPlace::parameter(parameter), united);
    for (const Instruction *sink : sinks[parameter->getParent()])
      push(sink);
  }

  /// What any of an access' cells holds.
  Id memory(unsigned access) {
    Id result = 0;
    for (unsigned cell : cells.cells(access))
      if (cell < contents.size()) {
        result = sets.unite(result, contents[cell]);
        if (explanation)
          explanation->take(TaintPlace::cell(cell), contents[cell]);
      }
    return result;
  }

  Id read(const Instruction *reader, const Value *pointer, uint64_t size) {
    unsigned access = cells.access(pointer, size);
    watch(reader, access);
    return explanation ? memory(access) : watches[access].contents;
  }

  void watch(const Instruction *reader, unsigned access) {
    Watch &watch = watches[access];
    if (watch.readers.empty()) {
      watch.contents = memory(access);
      for (unsigned cell : cells.cells(access)) {
        if (cell >= cellAccesses.size())
          cellAccesses.resize(cell + 1);
        cellAccesses[cell].push_back(access);
      }
    }
    if (watched.insert({reader, access}).second)
      watch.readers.push_back(reader);
  }

  void writeCell(unsigned cell, Id set) {
    if (set == 0 || leadsNowhere)
      return;
    if (cell >= contents.size())
      contents.resize(cells.cellCount());
    Id united = sets.unite(contents[cell], set);
    if (united == contents[cell])
      return;
    contents[cell] = united;
    if (explanation)
      explanation->arrive(TaintPlace::cell(cell), united);
    if (cell >= cellAccesses.size())
      return;
    for (unsigned access : cellAccesses[cell]) {
      Watch &watch = watches[access];
      Id read = sets.unite(watch.contents, united);
      if (read == watch.contents)
        continue;
      watch.contents = read;
      for (const Instruction *reader : watch.readers)
        push(reader);
    }
  }

  bool isReadOnly(unsigned cell) const {
    return cell < pointsTo.locationCount() &&
           copy.readOnly.contains(pointsTo.object(pointsTo.location(cell).object).origin);
  }

  void write(unsigned access, Id set) {
    if (leadsNowhere)
      return;
    Id &before = written[access];
    Id united = sets.unite(before, set);
    if (united == before)
      return;
    before = united;
    for (unsigned cell : cells.cells(access))
      if (!isReadOnly(cell))
        writeCell(cell, set);
  }

  void write(const Value *pointer, uint64_t size, Id set) {
    if (set != 0)
      write(cells.access(pointer, size), set);
  }

  void findCallers() {
    for (const Function &function : module)
      for (const Instruction &instruction : instructions(function)) {
        const auto *call = dyn_cast<CallBase>(&instruction);
        if (call || isa<StoreInst>(instruction) || isa<AtomicRMWInst>(instruction) ||
            isa<AtomicCmpXchgInst>(instruction) || mixesData(instruction))
          sinks[&function].push_back(&instruction);
        if (call)
          for (const CallTarget &target : pointsTo.calls(call))
            callers[target.function].push_back(call);
      }
  }

  /// Memory that the program never writes is a table: what is read from it depends on where. So is an array of constants
  /// that are put in one by one, or all at once.
  void findStored() {
    auto isReadOnlyAt = [&](const Value *from) {
      const PointsTo::Set &targets = pointsTo.targets(from);
      for (unsigned location : targets)
        if (!isReadOnly(location))
          return false;
      return !targets.empty();
    };
    for (const Function &function : module)
      for (const Instruction &instruction : instructions(function)) {
        const Value *pointer = nullptr;
        if (const auto *store = dyn_cast<StoreInst>(&instruction)) {
          const Value *to = store->getPointerOperand();
          if (!isa<Constant>(store->getValueOperand()) || accessKind(to) != AccessKind::Variable)
            pointer = to;
        } else if (const auto *copy = dyn_cast<AnyMemTransferInst>(&instruction); copy && isReadOnlyAt(copy->getRawSource()))
          continue;
        else if (const auto *fill = dyn_cast<AnyMemSetInst>(&instruction); fill && isa<Constant>(fill->getValue()))
          continue;
        else if (const auto *exchange = dyn_cast<AtomicRMWInst>(&instruction))
          pointer = exchange->getPointerOperand();
        else if (const auto *transfer = dyn_cast<AnyMemIntrinsic>(&instruction))
          pointer = transfer->getRawDest();
        else if (const auto *call = dyn_cast<CallBase>(&instruction))
          for (const Function *external : pointsTo.externals(call)) {
            ExternalFunction known = externalFunction(*external);
            int to = known.copyTo >= 0 ? known.copyTo : known.fillTo >= 0 ? known.fillTo : known.inputTo;
            if (to >= 0 && static_cast<unsigned>(to) < call->arg_size())
              pointer = call->getArgOperand(to);
          }
        if (pointer)
          for (unsigned location : pointsTo.targets(pointer))
            if (!isReadOnly(location))
              stored.insert(pointsTo.location(location).object);
      }
  }

  void seedObject(const PointsTo::Object &object, Id set) {
    for (auto [offset, location] : object.locations)
      seedCell(location, set);
  }

  void seedCells(unsigned first, uint64_t bytes, Id set) {
    const auto &places = pointsTo.object(pointsTo.location(first).object).locations;
    const uint64_t start = pointsTo.location(first).offset;
    for (auto place = places.lower_bound(start); place != places.end() && place->first - start < bytes; ++place)
      seedCell(place->second, set);
  }

  void seedCell(unsigned cell, Id set) {
    seeded.insert(cell);
    writeCell(cell, set);
  }

  void seed() {
    contents.resize(cells.cellCount());
    for (auto [global, feature] : copy.globals)
      if (const PointsTo::Object *object = pointsTo.objectOf(global))
        seedObject(*object, sets.single(Label::feature(feature)));
    for (const Function &function : module)
      for (const Instruction &instruction : instructions(function))
        if (auto feature = markedMemory(instruction)) {
          const Value *pointer = cast<CallInst>(instruction).getArgOperand(0);
          Id set = sets.single(Label::feature(*feature));
          const uint64_t bytes = markedBytes(instruction);
          if (bytes != 0 && pointsTo.targets(pointer).empty())
            give(pointer, set);
          for (unsigned location : pointsTo.targets(pointer))
            if (bytes != 0)
              seedCells(location, bytes, set);
            else if (isa<AllocaInst>(pointer) || isa<Argument>(pointer))
              seedObject(pointsTo.object(pointsTo.location(location).object), set);
            else
              seedCell(location, set);
        }
    seedMembers();
  }

  /// Fields whose address is taken are reached without an address computation that tells the type.
  void seedMembers() {
    if (copy.members.empty())
      return;
    const DataLayout &layout = module.getDataLayout();
    auto featuresOf = [&](const FieldPlace &place) {
      Id set = 0;
      for (const MemberSeed &seed : copy.members)
        if (seed.bits == 0 && seed.type == place.type && seed.byteOffset == place.offset)
          set = sets.unite(set, sets.single(Label::feature(seed.feature)));
      return set;
    };
    for (const MemberSeed &seed : copy.members)
      if (seed.bits == 0)
        writeCell(cells.fieldCell(seed.type, seed.byteOffset), sets.single(Label::feature(seed.feature)));
    for (unsigned number = 0; number < pointsTo.objectCount(); ++number) {
      const PointsTo::Object &object = pointsTo.object(number);
      if (!object.type)
        continue;
      for (auto [offset, location] : object.locations) {
        SmallVector<FieldPlace, 4> places;
        const auto *global = dyn_cast_or_null<GlobalVariable>(object.origin);
        fieldsIn(global ? sourceType(*global) : object.type, offset, layout, places);
        for (const FieldPlace &place : places)
          writeCell(location, featuresOf(place));
      }
    }
    for (const Function &function : module)
      for (const Instruction &instruction : instructions(function))
        if (isa<GetElementPtrInst>(instruction))
          for (const FieldPlace &place : fieldsAt(&instruction, layout))
            if (Id set = featuresOf(place))
              for (unsigned location : pointsTo.targets(&instruction))
                writeCell(location, set);
  }

  Id operands(const Instruction *instruction) {
    Id result = 0;
    for (const Use &operand : instruction->operands())
      result = sets.unite(result, labels(operand));
    return result;
  }

  /// `*option->variable = !*option->variable`: of each variable of a table the new value depends on its own old one.
  Id labelsBesideOwn(const Value *value, const StoreInst &store, unsigned depth) {
    const auto *instruction = dyn_cast<Instruction>(value);
    const Value *place = store.getPointerOperand();
    if (!instruction || depth > 6 || !isa<LoadInst>(place))
      return labels(value);
    if (const auto *load = dyn_cast<LoadInst>(instruction))
      return isSameAddress(load->getPointerOperand(), place) ? 0 : labels(value);
    auto besideOwn = [&](const Value *part) { return labelsBesideOwn(part, store, depth + 1); };
    if (isa<CastInst>(instruction) || isa<CmpInst>(instruction) || isa<BinaryOperator>(instruction)) {
      Id result = 0;
      for (const Value *operand : instruction->operand_values())
        result = sets.unite(result, besideOwn(operand));
      return isCopyOrComparison(*instruction) ? result : sets.weakened(result, Dependence::Computed);
    }
    if (const auto *select = dyn_cast<SelectInst>(instruction))
      return selected(*select, besideOwn);
    if (const auto *phi = dyn_cast<PHINode>(instruction)) {
      Id result = 0;
      for (const Value *incoming : phi->incoming_values())
        result = sets.unite(result, besideOwn(incoming));
      return sets.unite(result, chosen(phi, besideOwn));
    }
    const auto *call = dyn_cast<CallBase>(instruction);
    if (!call || isa<IntrinsicInst>(call) || !call->getCalledFunction() || call->getCalledFunction()->isDeclaration())
      return labels(value);
    const Id result = returned.lookup(call->getCalledFunction());
    if (explanation)
      explanation->take(TaintPlace::result(call->getCalledFunction()), sets.features(result));
    return sets.substitute(result, [&](unsigned number) {
      return number < call->arg_size() ? besideOwn(call->getArgOperand(number)) : 0;
    });
  }

  /// What is no constant, and neither a feature nor computed from one.
  bool isData(const Value *value) {
    if (isa<Constant>(value))
      return false;
    const Id own = values.lookup(value);
    auto isFeature = [](Label label) { return !label.isParameter() && label.dependence() < Dependence::Stored; };
    if (any_of(sets.of(own), isFeature))
      return false;
    const auto *instruction = dyn_cast<Instruction>(value);
    const auto *parameter = dyn_cast<Argument>(value);
    const Function *function = parameter ? parameter->getParent() : instruction ? instruction->getFunction() : nullptr;
    for (Label label : sets.of(own))
      if (label.isParameter() && label.dependence() < Dependence::Stored && function &&
          label.number() < function->arg_size() &&
          any_of(sets.of(carried.lookup(function->getArg(label.number()))), isFeature))
        return false;
    return true;
  }

  /// Of arithmetic: chosen constants are still such beside features, but not beside data.
  Id mixed(const Instruction *instruction) {
    Id result = 0;
    for (const Use &own : instruction->operands()) {
      const bool data = any_of(instruction->operands(), [&](const Use &other) { return &other != &own && isData(other); });
      result = sets.unite(result, data ? sets.mixed(labels(own)) : sets.weakened(labels(own), Dependence::Computed));
    }
    return result;
  }

  Id derived(const Instruction *instruction, Id set) {
    if (mixesData(*instruction))
      return mixed(instruction);
    return isCopyOrComparison(*instruction) ? set : sets.weakened(set, Dependence::Computed);
  }

  /// A constant in place of data, as at the end of an input, is data, too.
  bool isDataOtherwise(const Instruction *instruction) const {
    const auto *phi = dyn_cast<PHINode>(instruction);
    return phi && any_of(phi->incoming_values(), [&](const Value *value) {
             while (const auto *cast = dyn_cast<CastInst>(value))
               value = cast->getOperand(0);
             const auto *load = dyn_cast<LoadInst>(value);
             return load && load->getType()->isIntegerTy() && isElement(load->getPointerOperand());
           });
  }

  /// What an instruction that chooses among constants takes from the conditions that choose.
  Id chosen(const Instruction *instruction) {
    return chosen(instruction, [this](const Value *condition) { return labels(condition); });
  }

  template <typename LabelsOf> Id chosen(const Instruction *instruction, LabelsOf labelsOf) {
    Id result = 0;
    if (explanation)
      explanation->chosen(true);
    for (const Value *condition : dependences.of(instruction)) {
      Id set = labelsOf(condition);
      result = sets.unite(result, isLogicalValue(instruction) ? set : sets.implicit(set));
    }
    if (isDataOtherwise(instruction))
      result = sets.weakened(result, Dependence::Content);
    if (explanation)
      explanation->chosen(false);
    return result;
  }

  template <typename LabelsOf> Id selected(const SelectInst &select, LabelsOf labelsOf) {
    Id set = sets.unite(labelsOf(select.getTrueValue()), labelsOf(select.getFalseValue()));
    const bool constant = isa<Constant>(select.getTrueValue()) || isa<Constant>(select.getFalseValue());
    if (select.getType()->isIntegerTy(1))
      set = sets.unite(set, labelsOf(select.getCondition()));
    else if (implicit == ImplicitFlow::All || (implicit == ImplicitFlow::Constant && constant))
      set = sets.unite(set, sets.implicit(labelsOf(select.getCondition())));
    return set;
  }

  uint64_t sizeOf(Type *type) const { return module.getDataLayout().getTypeStoreSize(type).getKnownMinValue(); }

  /// Text that only the system can have written, like the command line, is one, too.
  bool isTable(const Value *pointer) const {
    const PointsTo::Set &targets = pointsTo.targets(pointer);
    for (unsigned location : targets)
      if (stored.count(pointsTo.location(location).object))
        return false;
    return !targets.empty() || (pointsTo.complete() && !isa<Constant>(pointer));
  }

  static bool isCharacterTable(const Value *pointer) {
    const auto *address = dyn_cast<GEPOperator>(pointer);
    const auto *table = address ? dyn_cast<LoadInst>(address->getPointerOperand()) : nullptr;
    const auto *call = table ? dyn_cast<CallBase>(table->getPointerOperand()) : nullptr;
    return call && call->getCalledFunction() && tellsCharacters(*call->getCalledFunction());
  }

  /// A character of the text to which a feature's variable points, whoever wrote it.
  bool isFeatureText(const LoadInst &load) const {
    const auto *text = dyn_cast<LoadInst>(load.getPointerOperand()->stripInBoundsOffsets());
    if (!load.getType()->isIntegerTy(8) || !text)
      return false;
    // A field of a structure that happens to be a byte is none.
    for (unsigned place : pointsTo.targets(load.getPointerOperand())) {
      Type *type = pointsTo.object(pointsTo.location(place).object).type;
      while (auto *array = dyn_cast_or_null<ArrayType>(type))
        type = array->getElementType();
      if (type && !type->isIntegerTy(8))
        return false;
    }
    for (unsigned cell : pointsTo.targets(text->getPointerOperand()))
      if (seeded.contains(cell))
        return true;
    return false;
  }

  /// One of many places: what is written there is data.
  bool isElement(const Value *pointer) const {
    const AccessKind kind = accessKind(pointer);
    if (kind != AccessKind::Unknown)
      return kind == AccessKind::Element;
    const PointsTo::Set &targets = pointsTo.targets(pointer);
    for (unsigned number : targets) {
      const PointsTo::Location &location = pointsTo.location(number);
      const PointsTo::Object &object = pointsTo.object(location.object);
      if (object.whole || !isScalarAt(object.type, location.offset, module.getDataLayout()))
        return true;
    }
    return targets.empty();
  }

  /// A number that becomes a byte, given to a function that does nothing with it but store it in a buffer.
  bool isPutOut(const Value *value, const Argument *parameter) const {
    return parameter && isCutToByte(value) && all_of(parameter->users(), [&](const User *user) {
             const auto *store = dyn_cast<StoreInst>(user);
             return store && store->getValueOperand() == parameter && isElement(store->getPointerOperand());
           });
  }

  void transfer(const Instruction *instruction) {
    const Function *function = instruction->getFunction();
    leadsNowhere = isIgnored(*function);
    if (explanation)
      explanation->begin(instruction);
    if (const auto *load = dyn_cast<LoadInst>(instruction)) {
      Id set = read(load, load->getPointerOperand(), sizeOf(load->getType()));
      Id address = labels(load->getPointerOperand());
      if (address && isFeatureText(*load))
        set = sets.unite(set, address);
      else if (address && (isTable(load->getPointerOperand()) || isCharacterTable(load->getPointerOperand())))
        set = sets.unite(set, sets.weakened(address, Dependence::Computed));
      give(load, set);
    } else if (const auto *store = dyn_cast<StoreInst>(instruction)) {
      const bool element = isElement(store->getPointerOperand());
      Id set = element && isCutToByte(store->getValueOperand()) ? 0 : labelsBesideOwn(store->getValueOperand(), *store, 0);
      if (element)
        set = sets.weakened(set, Dependence::Content);
      // Of the elements of a buffer none is a variable that a reader would say is chosen.
      if (!element || implicit == ImplicitFlow::All)
        set = sets.unite(set, chosen(store));
      write(store->getPointerOperand(), sizeOf(store->getValueOperand()->getType()), total(set, function));
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
      give(instruction, derived(instruction, operands(instruction)));
    }
  }

  void giveBack(const Function *function, Id set) {
    if (leadsNowhere)
      return;
    Id &place = returned[function];
    Id united = sets.unite(place, set);
    if (united == place)
      return;
    place = united;
    if (explanation)
      explanation->arrive(TaintPlace::result(function), united);
    for (const CallBase *caller : callers[function])
      push(caller);
  }

  void transferCall(const CallBase *call) {
    const Function *function = call->getFunction();
    if (auto feature = markedValue(*call)) {
      if (*feature == kIgnored)
        return;
      give(call, sets.unite(labels(call->getArgOperand(0)), sets.single(Label::feature(*feature))));
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
          writeCell(place, set);
      }
      if (target.returns) {
        Id result = returned.lookup(target.function);
        if (explanation)
          explanation->take(TaintPlace::result(target.function), sets.features(result));
        give(call, sets.substitute(result, [&](unsigned number) {
          return number < call->arg_size() ? labels(call->getArgOperand(number)) : 0;
        }));
      }
    }
    for (const Function *external : pointsTo.externals(call))
      transferExternal(call, externalFunction(*external));
  }

  void copyMemory(const Instruction *reader, const Value *to, const Value *from, uint64_t length) {
    auto [place, isNew] = copied.try_emplace(reader);
    // Text that is appended to other text is data from there on.
    const bool appends = length == ~0ull && accessKind(to) == AccessKind::Element;
    if (isNew) {
      place->second = cells.copied(to, from, length);
      for (const MemoryCells::Copied &range : place->second)
        watch(reader, range.from);
    }
    for (const MemoryCells::Copied &range : place->second)
      if (Id set = explanation ? memory(range.from) : watches[range.from].contents)
        write(range.to, appends ? sets.weakened(set, Dependence::Content) : set);
  }

  void transferExternal(const CallBase *call, const ExternalFunction &known) {
    const Function *function = call->getFunction();
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

  /// A function called through a pointer: what chose the function, or the object whose table holds it.
  Id calleeLabels(const CallBase *call) {
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

  std::vector<FeatureUses> decide() {
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
          set = labels(condition);
        else if (const auto *call = dyn_cast<CallBase>(&instruction))
          set = call->isIndirectCall() ? calleeLabels(call) : 0;
        for (Label label : sets.of(total(set, &function))) {
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

  const AnalysisCopy &copy;
  const Module &module;
  const PointsTo &pointsTo;
  const ImplicitFlow implicit;
  const TaintQuestion &question;
  MemoryCells cells;
  ImplicitDependences dependences;
  LabelSets sets;
  DenseMap<const Value *, Id> values;
  DenseMap<const Argument *, Id> carried;
  DenseMap<const Function *, Id> returned;
  DenseMap<const Function *, std::vector<const Instruction *>> sinks;
  DenseMap<const Function *, std::vector<const CallBase *>> callers;
  DenseMap<const Instruction *, std::vector<MemoryCells::Copied>> copied;
  std::optional<Explanation> explanation;
  DenseSet<unsigned> stored;  ///< Objects.
  DenseSet<unsigned> seeded;  ///< Cells that are features' variables.
  Id tokens = 0;              ///< Of all that `strtok` was given.
  DenseSet<const Instruction *> tokenCalls;
  std::vector<Id> contents;
  std::vector<std::vector<unsigned>> cellAccesses;
  DenseMap<unsigned, Watch> watches;  ///< By access.
  DenseMap<unsigned, Id> written;     ///< By access: what was written to all of it.
  DenseSet<std::pair<const Instruction *, unsigned>> watched;
  bool leadsNowhere = false;  ///< The instruction at hand is of a function that is ignored.
  std::vector<const Instruction *> work;
  DenseSet<const Instruction *> queued;
};

}  // namespace

std::vector<FeatureUses> transect::decisionFeatures(const AnalysisCopy &copy, const PointsTo &pointsTo,
                                                    ImplicitFlow implicit, const TaintQuestion &question) {
  return Taint(copy, pointsTo, implicit, question).run();
}

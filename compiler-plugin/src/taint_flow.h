// The state of the taint analysis while it follows labels from instruction to instruction.
#pragma once

#include "access_kind.h"
#include "explanation.h"
#include "external_functions.h"
#include "implicit_flow.h"
#include "labels.h"
#include "memory_cells.h"
#include "taint.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/IR/Instructions.h"

#include <array>
#include <optional>

namespace transect {

/// Constants stored under a branch carry its features; what is stored under a branch on such a constant does not.
constexpr unsigned kMostHops = 1;
/// Text is one place, whatever its length.
constexpr uint64_t kString = 1;

/// Labels of every value and memory cell, raised until nothing changes any more (a monotone framework over sets of labels).
class Taint {
public:
  Taint(const AnalysisCopy &copy, const PointsTo &pointsTo, ImplicitFlow implicit, const TaintQuestion &question)
      : copy(copy), module(*copy.module), pointsTo(pointsTo), implicit(implicit), question(question),
        cells(module, pointsTo), dependences(module, implicit, copy.readOnly), sets(kMostHops, implicit == ImplicitFlow::All) {
  }

  std::vector<FeatureUses> run();

private:
  using Id = LabelSets::Id;
  /// What a value carries, seen from an instruction.
  using LabelsOf = llvm::function_ref<Id(const llvm::Value *)>;

  /// An access that is read: what is read, and by what.
  struct Watch {
    Id contents = 0;
    std::vector<const llvm::Instruction *> readers;
  };

  void push(const llvm::Instruction *instruction) {
    if (queued.insert(instruction).second)
      work.push_back(instruction);
  }

  /// Adds to what a place carries; false if it had all of it.
  bool raise(Id &place, Id set) {
    const Id before = place;
    place = sets.unite(place, set);
    return place != before;
  }

  Id labels(const llvm::Value *value);
  void give(const llvm::Value *value, Id set);

  // Memory and parameters (taint_memory.cpp).
  /// Features only: parameters' labels become what all call sites together give.
  Id total(Id set, const llvm::Function *function);
  void carry(const llvm::Argument *parameter, Id set);
  /// What any of an access' cells holds in some of its parts.
  Id memory(unsigned access, unsigned parts);
  Id read(const llvm::Instruction *reader, const llvm::Value *pointer, uint64_t size, unsigned parts = part::kAll);
  Watch &watch(const llvm::Instruction *reader, unsigned access, unsigned parts);
  void writeCell(unsigned cell, Id set, unsigned parts);
  bool isReadOnly(unsigned cell) const;
  void write(unsigned access, Id set, unsigned parts);
  void write(const llvm::Value *pointer, uint64_t size, Id set, unsigned parts = part::kAll);
  unsigned partsAt(unsigned cell) const;

  // Where features begin (taint_seeds.cpp).
  void findCallers();
  /// Memory that the program never writes is a table: what is read from it depends on where. So is an array of constants
  /// that are put in one by one, or all at once.
  void findStored();
  void seedPlace(unsigned cell, Id set, unsigned parts);
  void seedObject(const PointsTo::Object &object, Id set);
  void seedCells(unsigned first, uint64_t bytes, Id set);
  void seedCell(unsigned cell, Id set);
  void seed();
  /// A parameter that becomes an option's value is the option from the start: its text may be compared before it is stored.
  void seedBefore();
  /// Fields whose address is taken are reached without an address computation that tells the type.
  void seedMembers();

  Id operands(const llvm::Instruction *instruction);

  // Data (taint_data.cpp).
  /// What a pass found out for the next one.
  struct Pass {
    llvm::DenseMap<const llvm::Value *, Id> values;
    llvm::DenseMap<const llvm::Argument *, Id> carried;
  };
  void pass(unsigned number);
  /// Whether a value holds data whatever the parameters of its function do.
  bool holdsData(const llvm::Value *value) const { return sets.hasData(before.values.lookup(value)); }
  bool holdsDataForAnyCall(const llvm::Value *value) const;
  bool holdsDataForAnyCall(const llvm::Argument *parameter) const { return sets.hasData(before.carried.lookup(parameter)); }
  /// Numbers that are counted, added up, multiplied; a step of a pointer through an array.
  static bool isArithmetic(const llvm::Instruction &instruction);
  /// The result of arithmetic is no number that an option tells.
  bool isComputedData(const llvm::Instruction *instruction);
  /// The label of data, if it is.
  Id data(bool is) { return is && dataPass && !isUncalled ? sets.single(Label::data()) : 0; }
  LabelSets::Given given(const llvm::Value *argument) { return {labels(argument), holdsData(argument), holdsDataForAnyCall(argument)}; }
  /// What a comparison and one of its operands tell (`LabelSets::compared`).
  Id compared(const llvm::Instruction *comparison);
  Id compared(const llvm::Value *operand);

  // Computing and choosing (taint_choice.cpp).
  /// `*option->variable = !*option->variable`: of each variable of a table the new value depends on its own old one.
  Id labelsBesideOwn(const llvm::Value *value, const llvm::StoreInst &store, unsigned depth);
  /// What is no constant, and neither a feature nor computed from one.
  bool isData(const llvm::Value *value);
  /// Of arithmetic: chosen constants are still such beside features, but not beside data.
  Id mixed(const llvm::Instruction *instruction);
  Id derived(const llvm::Instruction *instruction, Id set);
  /// A constant in place of data, as at the end of an input, is data, too.
  bool isDataOtherwise(const llvm::Instruction *instruction) const;
  /// What an instruction that chooses among constants takes from the conditions that choose.
  Id chosen(const llvm::Instruction *instruction);
  Id chosen(const llvm::Instruction *instruction, LabelsOf labelsOf);
  Id selected(const llvm::SelectInst &select, LabelsOf labelsOf);

  uint64_t sizeOf(llvm::Type *type) const { return module.getDataLayout().getTypeStoreSize(type).getKnownMinValue(); }

  /// Text that only the system can have written, like the command line, is one, too.
  bool isTable(const llvm::Value *pointer) const;
  static bool isCharacterTable(const llvm::Value *pointer);
  /// A character of the text to which a feature's variable points, whoever wrote it.
  bool isFeatureText(const llvm::LoadInst &load) const;
  /// One of many places: what is written there is data.
  bool isElement(const llvm::Value *pointer) const;
  /// A number that becomes a byte, given to a function that does nothing with it but store it in a buffer.
  bool isPutOut(const llvm::Value *value, const llvm::Argument *parameter) const;

  void transfer(const llvm::Instruction *instruction);

  // Calls (taint_calls.cpp).
  void giveBack(const llvm::Function *function, Id set);
  void transferCall(const llvm::CallBase *call);
  void copyMemory(const llvm::Instruction *reader, const llvm::Value *to, const llvm::Value *from, uint64_t length);
  void transferExternal(const llvm::CallBase *call, const ExternalFunction &known);
  /// A function called through a pointer: what chose the function, or the object whose table holds it.
  Id calleeLabels(const llvm::CallBase *call);

  std::vector<FeatureUses> decide();

  const AnalysisCopy &copy;
  const llvm::Module &module;
  const PointsTo &pointsTo;
  const ImplicitFlow implicit;
  const TaintQuestion &question;
  MemoryCells cells;
  ImplicitDependences dependences;
  LabelSets sets;
  llvm::DenseMap<const llvm::Value *, Id> values;
  llvm::DenseMap<const llvm::Argument *, Id> carried;
  llvm::DenseMap<const llvm::Function *, Id> returned;
  llvm::DenseMap<const llvm::Function *, std::vector<const llvm::Instruction *>> sinks;
  llvm::DenseMap<const llvm::Function *, std::vector<const llvm::CallBase *>> callers;
  llvm::DenseMap<const llvm::Instruction *, std::vector<MemoryCells::Copied>> copied;
  std::optional<Explanation> explanation;
  llvm::DenseSet<unsigned> stored;  ///< Objects.
  llvm::DenseSet<unsigned> seeded;  ///< Cells that are features' variables.
  llvm::DenseSet<unsigned> options;  ///< Those, and fields that are.
  Pass before;                       ///< What the pass before this one found.
  unsigned dataPass = 0;             ///< Number of the pass: 0 knows no data, 1 finds which variables hold data, 2 follows the features.
  Id tokens = 0;              ///< Of all that `strtok` was given.
  llvm::DenseSet<const llvm::Instruction *> tokenCalls;
  std::vector<std::array<Id, 2>> contents;             ///< Of each cell, by part.
  std::vector<std::vector<unsigned>> cellAccesses;      ///< Accesses with parts, as the keys of `watches`.
  llvm::DenseMap<unsigned, Watch> watches;              ///< By access and parts.
  llvm::DenseMap<unsigned, Id> written;                 ///< By access and parts: what was written to all of it.
  llvm::DenseSet<std::pair<const llvm::Instruction *, unsigned>> watched;
  bool isUncalled = false;    ///< Its calls are elsewhere, or all inlined: nothing is known of its parameters.
  bool leadsNowhere = false;  ///< The instruction at hand is of a function that is ignored.
  std::vector<const llvm::Instruction *> work;
  llvm::DenseSet<const llvm::Instruction *> queued;
};

}  // namespace transect

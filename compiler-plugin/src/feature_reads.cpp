#include "feature_reads.h"

#include "bit_fields.h"
#include "field_path.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/InstIterator.h"

using namespace llvm;
using namespace transect;

namespace {

class Reads {
public:
  Reads(Module &module, const FeatureVariables &variables) : module(module), variables(variables) {
    for (auto [memory, feature] : variables.memory)
      places[memory].push_back(feature);
    for (const FeatureVariables::Address &address : variables.addresses)
      (isa<Argument>(address.holder) ? places : holders)[address.holder].push_back(address.feature);
  }

  FeatureReads run() {
    for (auto [value, feature] : variables.values)
      reads.values.insert({value, feature});
    for (Function &function : module)
      for (Instruction &instruction : instructions(function)) {
        if (auto *load = dyn_cast<LoadInst>(&instruction))
          at(load->getPointerOperand(), [&](unsigned feature) { reads.values.insert({load, feature}); });
        else if (auto *store = dyn_cast<StoreInst>(&instruction))
          at(store->getPointerOperand(), [&](unsigned feature) { reads.stores.insert({store, feature}); });
      }
    bitFields();
    return std::move(reads);
  }

private:
  /// Calls `found` with the features whose variable lies at an address.
  template <typename Found> void at(Value *address, Found found) {
    const Value *from = address->stripInBoundsConstantOffsets();
    if (auto place = places.find(from); place != places.end())
      for_each(place->second, found);
    if (const auto *pointer = dyn_cast<LoadInst>(from))
      if (auto holder = holders.find(pointer->getPointerOperand()); holder != holders.end())
        for_each(holder->second, found);
    if (variables.members.empty())
      return;
    for (const FieldPlace &place : fieldsAt(address, module.getDataLayout()))
      for (const MemberSeed &seed : variables.members)
        if (seed.bits == 0 && seed.type == place.type && seed.byteOffset == place.offset)
          found(seed.feature);
  }

  void bitFields() {
    if (none_of(variables.members, [](const MemberSeed &seed) { return seed.bits != 0; }))
      return;
    ValueToValueMapTy same;
    for (const BitFieldHolder &holder : variables.holders)
      if (holder.variable)
        same[holder.variable] = holder.variable;
    const BitFields fields(variables.members, variables.holders, same, module.getDataLayout());
    std::vector<std::pair<Instruction *, unsigned>> found;
    for (Function &function : module)
      for (Instruction &instruction : instructions(function))
        if (auto *load = dyn_cast<LoadInst>(&instruction))
          fields.findReads(*load, found);
    for (auto [value, feature] : found)
      reads.values.insert({value, feature});
  }

  Module &module;
  const FeatureVariables &variables;
  /// Memory that is a feature's variable, and memory that holds the address of one.
  DenseMap<const Value *, std::vector<unsigned>> places, holders;
  FeatureReads reads;
};

}  // namespace

FeatureReads transect::featureReads(Module &module, const FeatureVariables &variables) {
  return Reads(module, variables).run();
}

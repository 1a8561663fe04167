#include "structure_names.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Metadata.h"
#include "llvm/IR/Module.h"

using namespace llvm;
using namespace transect;

namespace {

constexpr const char *kNames = "transect.structure";
/// Of global variables, whose own type can't change: a value of the type in the source.
constexpr const char *kSourceType = "transect.source_type";

Type *elementOf(Type *type) {
  while (auto *array = dyn_cast<ArrayType>(type))
    type = array->getElementType();
  return type;
}

/// A structure's name, and then, for each of its fields that is a structure, the same.
class Names {
public:
  MDNode *of(Type *type) {
    auto *structure = dyn_cast<StructType>(elementOf(type));
    if (!structure || structure->isLiteral() || structure->isOpaque())
      return nullptr;
    auto known = nodes.find(structure);
    if (known != nodes.end())
      return known->second;
    SmallVector<Metadata *, 8> parts{MDString::get(structure->getContext(), structure->getName())};
    for (Type *element : structure->elements())
      parts.push_back(of(element));
    return nodes[structure] = MDNode::get(structure->getContext(), parts);
  }

private:
  DenseMap<StructType *, MDNode *> nodes;
};

class Restorer {
public:
  /// `type` with the structure in it under its own name.
  Type *restored(Type *type, const Metadata *names) {
    const auto *node = dyn_cast_or_null<MDNode>(names);
    if (!node)
      return type;
    if (auto *array = dyn_cast<ArrayType>(type))
      return ArrayType::get(restored(array->getElementType(), node), array->getNumElements());
    auto *structure = dyn_cast<StructType>(type);
    if (!structure || structure->isLiteral() || node->getNumOperands() != structure->getNumElements() + 1)
      return type;
    auto known = types.find({structure, node});
    if (known != types.end())
      return known->second;
    StringRef name = cast<MDString>(node->getOperand(0))->getString();
    SmallVector<Type *, 8> elements;
    for (unsigned i = 0; i < structure->getNumElements(); ++i)
      elements.push_back(restored(structure->getElementType(i), node->getOperand(i + 1)));
    if (structure->hasName() && structure->getName() == name && elements == structure->elements())
      return types[{structure, node}] = structure;
    return types[{structure, node}] =
               StructType::create(structure->getContext(), elements, name, structure->isPacked());
  }

private:
  DenseMap<std::pair<StructType *, const MDNode *>, StructType *> types;
};

}  // namespace

PreservedAnalyses NameStructuresPass::run(Module &module, ModuleAnalysisManager &) {
  Names names;
  for (GlobalVariable &global : module.globals())
    if (MDNode *node = names.of(global.getValueType()))
      global.setMetadata(kNames, node);
  for (Function &function : module)
    for (Instruction &instruction : instructions(function)) {
      MDNode *node = nullptr;
      if (auto *address = dyn_cast<GetElementPtrInst>(&instruction))
        node = names.of(address->getSourceElementType());
      else if (auto *local = dyn_cast<AllocaInst>(&instruction))
        node = names.of(local->getAllocatedType());
      if (node)
        instruction.setMetadata(kNames, node);
    }
  return PreservedAnalyses::all();
}

void transect::restoreStructures(Module &module) {
  Restorer restorer;
  for (GlobalVariable &global : module.globals())
    if (MDNode *names = global.getMetadata(kNames)) {
      Type *type = restorer.restored(global.getValueType(), names);
      global.setMetadata(kNames, nullptr);
      if (type != global.getValueType())
        global.setMetadata(kSourceType,
                           MDNode::get(module.getContext(), ConstantAsMetadata::get(UndefValue::get(type))));
    }
  for (Function &function : module)
    for (Instruction &instruction : instructions(function)) {
      MDNode *names = instruction.getMetadata(kNames);
      if (!names)
        continue;
      instruction.setMetadata(kNames, nullptr);
      if (auto *local = dyn_cast<AllocaInst>(&instruction)) {
        local->setAllocatedType(restorer.restored(local->getAllocatedType(), names));
      } else if (auto *address = dyn_cast<GetElementPtrInst>(&instruction)) {
        Type *type = restorer.restored(address->getSourceElementType(), names);
        SmallVector<Value *, 4> indices(address->indices());
        address->setSourceElementType(type);
        address->setResultElementType(GetElementPtrInst::getIndexedType(type, indices));
      }
    }
}

Type *transect::sourceType(const GlobalVariable &global) {
  const MDNode *node = global.getMetadata(kSourceType);
  return node ? mdconst::extract<UndefValue>(node->getOperand(0))->getType() : global.getValueType();
}

std::vector<StructType *> transect::namedStructures(const Module &module) {
  SetVector<StructType *> found;
  for (StructType *type : module.getIdentifiedStructTypes())
    found.insert(type);
  std::vector<Type *> left;
  for (const GlobalVariable &global : module.globals())
    left.push_back(sourceType(global));
  while (!left.empty()) {
    auto *structure = dyn_cast<StructType>(elementOf(left.back()));
    left.pop_back();
    // Those of the module have their fields there, too.
    if (!structure || (!structure->isLiteral() && !found.insert(structure)))
      continue;
    left.insert(left.end(), structure->element_begin(), structure->element_end());
  }
  return {found.begin(), found.end()};
}

#include "structure_names.h"

#include "program_variables.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/BinaryFormat/Dwarf.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/DebugInfo.h"
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

/// Between a structure's name and its place.
constexpr char kPlace = '@';

/// Without the numbers that the compiler and the link give to further types of a name.
StringRef withoutNumber(StringRef name) {
  while (true) {
    auto [head, number] = name.rsplit('.');
    if (number.empty() || head.empty() || !all_of(number, isDigit))
      return name;
    name = head;
  }
}

StringRef withoutKind(StringRef name) {
  return name.consume_front("struct.") || name.consume_front("class.") || name.consume_front("union.") ? name : "";
}

/// Where a unit declares its structures.
class Places {
public:
  explicit Places(Module &module) {
    for (GlobalVariable &global : module.globals())
      addOf(global);
    DebugInfoFinder finder;
    finder.processModule(module);
    for (Function &function : module)
      for (Instruction &instruction : instructions(function))
        finder.processInstruction(module, instruction);
    for (const DIType *type : finder.types()) {
      const auto *composite = dyn_cast<DICompositeType>(type);
      const auto *derived = dyn_cast<DIDerivedType>(type);
      StringRef name = type->getName();
      if (derived && derived->getTag() == dwarf::DW_TAG_typedef) {
        // A structure without a tag has a typedef's name.
        composite = dyn_cast_or_null<DICompositeType>(derived->getBaseType());
        if (composite && !composite->getName().empty())
          composite = nullptr;
      }
      if (!composite || name.empty() || composite->isForwardDecl() || !structureOf(composite))
        continue;
      auto [known, isNew] = byName.try_emplace(qualifiedName(type->getScope(), name), declarationPlace(*composite));
      if (!isNew && known->second != declarationPlace(*composite))
        known->second.clear();
    }
  }

  /// Empty if that can't be told.
  std::string of(const StructType &type) const {
    auto own = byType.find(&type);
    if (own != byType.end())
      return own->second;
    auto named = byName.find(writtenName(withoutNumber(withoutKind(type.getName()))));
    return named == byName.end() ? "" : named->second;
  }

private:
  /// A variable tells the place of its type, also where that has no name, or several types have it.
  void addOf(const GlobalVariable &global) {
    const auto *type = dyn_cast<StructType>(elementOf(global.getValueType()));
    if (!type || type->isLiteral())
      return;
    SmallVector<DIGlobalVariableExpression *, 1> described;
    global.getDebugInfo(described);
    for (DIGlobalVariableExpression *expression : described)
      if (const DICompositeType *structure = structureOf(elementType(expression->getVariable()->getType())))
        byType.try_emplace(type, declarationPlace(*structure));
  }

  DenseMap<const StructType *, std::string> byType;
  StringMap<std::string> byName;
};

/// A structure's name, with its place, and then, for each of its fields that is a structure, the same.
class Names {
public:
  explicit Names(Module &module) : places(module) {}

  MDNode *of(Type *type) {
    auto *structure = dyn_cast<StructType>(elementOf(type));
    if (!structure || structure->isLiteral() || structure->isOpaque())
      return nullptr;
    auto known = nodes.find(structure);
    if (known != nodes.end())
      return known->second;
    std::string name = structure->getName().str();
    if (const std::string place = places.of(*structure); !place.empty())
      name += kPlace + place;
    SmallVector<Metadata *, 8> parts{MDString::get(structure->getContext(), name)};
    for (Type *element : structure->elements())
      parts.push_back(of(element));
    return nodes[structure] = MDNode::get(structure->getContext(), parts);
  }

private:
  Places places;
  DenseMap<StructType *, MDNode *> nodes;
};

/// Tags that are declared in several places.
class SharedTags {
public:
  void look(const MDNode &names) {
    if (!seen.insert(&names).second)
      return;
    auto [name, place] = cast<MDString>(names.getOperand(0))->getString().split(kPlace);
    if (!place.empty()) {
      auto [known, isNew] = places.try_emplace(withoutNumber(name), place);
      if (!isNew && known->second != place)
        known->second = "";
    }
    for (const MDOperand &field : drop_begin(names.operands()))
      if (const auto *node = dyn_cast_or_null<MDNode>(field))
        look(*node);
  }

  bool contains(StringRef name) const {
    auto known = places.find(withoutNumber(name));
    return known != places.end() && known->second.empty();
  }

private:
  DenseSet<const MDNode *> seen;
  StringMap<StringRef> places;
};

class Restorer {
public:
  explicit Restorer(const SharedTags &shared) : shared(shared) {}

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
    if (StringRef bare = name.split(kPlace).first; !shared.contains(bare))
      name = bare;
    SmallVector<Type *, 8> elements;
    for (unsigned i = 0; i < structure->getNumElements(); ++i)
      elements.push_back(restored(structure->getElementType(i), node->getOperand(i + 1)));
    if (structure->hasName() && structure->getName() == name && elements == structure->elements())
      return types[{structure, node}] = structure;
    return types[{structure, node}] =
               StructType::create(structure->getContext(), elements, name, structure->isPacked());
  }

private:
  const SharedTags &shared;
  DenseMap<std::pair<StructType *, const MDNode *>, StructType *> types;
};

}  // namespace

PreservedAnalyses NameStructuresPass::run(Module &module, ModuleAnalysisManager &) {
  Names names(module);
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
  SharedTags shared;
  for (GlobalVariable &global : module.globals())
    if (const MDNode *names = global.getMetadata(kNames))
      shared.look(*names);
  for (Function &function : module)
    for (Instruction &instruction : instructions(function))
      if (const MDNode *names = instruction.getMetadata(kNames))
        shared.look(*names);
  Restorer restorer(shared);
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

std::string transect::writtenName(StringRef name) {
  constexpr StringLiteral scope = "(anonymous namespace)::";
  std::string written = name.str();
  for (size_t at; (at = written.find(scope.data())) != std::string::npos;)
    written.erase(at, scope.size());
  return written;
}

StructureName transect::structureName(const StructType &type) {
  if (!type.hasName())
    return {};
  auto [tag, place] = withoutKind(type.getName()).split(kPlace);
  return {tag, withoutNumber(place)};
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

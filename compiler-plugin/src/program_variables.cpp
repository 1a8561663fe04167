#include "program_variables.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/BinaryFormat/Dwarf.h"
#include "llvm/IR/DebugInfo.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Support/Path.h"

#include <algorithm>

using namespace llvm;
using namespace transect;

std::string ProgramVariable::described() const {
  std::string text = kind == Kind::Member && !tags.empty() ? tags.front() + "::" + name : qualified;
  if (!function.empty())
    text += " in " + function;
  return text + " (" + sys::path::filename(path).str() + ":" + std::to_string(line) + ")";
}

bool transect::endsInPath(StringRef path, StringRef wanted) {
  while (wanted.consume_front("./") || wanted.consume_front("../")) {
  }
  if (wanted.empty())
    return true;
  if (!path.ends_with(wanted))
    return false;
  return path.size() == wanted.size() || wanted.front() == '/' || path[path.size() - wanted.size() - 1] == '/';
}

namespace {

/// Scalars of a structure that is a field; one with more is followed in the first of them.
constexpr size_t kMostParts = 64;

std::string wholePath(const DIFile *file) {
  if (!file)
    return "";
  SmallString<128> path(file->getFilename());
  if (!sys::path::is_absolute(path)) {
    path = file->getDirectory();
    sys::path::append(path, file->getFilename());
  }
  sys::path::remove_dots(path, true);
  return std::string(path);
}

const DISubprogram *functionOf(const DIScope *scope) {
  const auto *local = dyn_cast_or_null<DILocalScope>(scope);
  return local ? local->getSubprogram() : nullptr;
}

/// Without typedefs and qualifiers.
const DIType *plainType(const DIType *type) {
  while (const auto *derived = dyn_cast_or_null<DIDerivedType>(type)) {
    const auto tag = derived->getTag();
    if (tag != dwarf::DW_TAG_typedef && tag != dwarf::DW_TAG_const_type && tag != dwarf::DW_TAG_volatile_type &&
        tag != dwarf::DW_TAG_atomic_type && tag != dwarf::DW_TAG_restrict_type)
      break;
    type = derived->getBaseType();
  }
  return type;
}

bool isReference(const DIType *type) {
  const auto tag = type ? type->getTag() : dwarf::DW_TAG_null;
  return tag == dwarf::DW_TAG_reference_type || tag == dwarf::DW_TAG_rvalue_reference_type;
}

/// The structure at the end of a chain of pointers, references and arrays of them.
const DICompositeType *pointeeOf(const DIType *type) {
  bool points = false;
  for (type = elementType(type); type && (type->getTag() == dwarf::DW_TAG_pointer_type || isReference(type));
       type = elementType(cast<DIDerivedType>(type)->getBaseType()))
    points = true;
  return points ? structureOf(type) : nullptr;
}

void addGlobals(Module &module, std::vector<ProgramVariable> &found) {
  for (GlobalVariable &global : module.globals()) {
    SmallVector<DIGlobalVariableExpression *, 1> described;
    global.getDebugInfo(described);
    for (DIGlobalVariableExpression *expression : described) {
      const DIGlobalVariable *variable = expression->getVariable();
      // A string literal is described, too.
      if (variable->getName().empty())
        continue;
      ProgramVariable entry;
      entry.kind = ProgramVariable::Kind::Global;
      entry.name = variable->getName().str();
      const DIScope *scope = variable->getScope();
      if (const DIDerivedType *member = variable->getStaticDataMemberDeclaration())
        scope = member->getScope();
      entry.qualified = qualifiedName(scope, variable->getName());
      if (const DISubprogram *function = functionOf(variable->getScope())) {
        entry.qualified = entry.name;
        entry.function = function->getName().str();
        entry.linkageFunction = function->getLinkageName().str();
      }
      entry.path = wholePath(variable->getFile());
      entry.line = variable->getLine();
      entry.pointee = pointeeOf(variable->getType());
      entry.memory.push_back(&global);
      found.push_back(std::move(entry));
      break;
    }
    // A declaration has no debug information: C's names are all there is.
    if (described.empty() && global.isDeclaration() && !global.getName().starts_with("_Z") &&
        !global.getName().starts_with("llvm.")) {
      ProgramVariable entry;
      entry.kind = ProgramVariable::Kind::Global;
      entry.name = entry.qualified = global.getName().str();
      entry.memory.push_back(&global);
      found.push_back(std::move(entry));
    }
  }
}

struct Locals {
  MapVector<const DILocalVariable *, ProgramVariable> byVariable;

  /// The variable's entry, null if it has no name.
  ProgramVariable *entryOf(const DILocalVariable *variable) {
    if (!variable || variable->getName().empty())
      return nullptr;
    ProgramVariable &entry = byVariable[variable];
    if (entry.name.empty()) {
      entry.kind = ProgramVariable::Kind::Local;
      entry.name = entry.qualified = variable->getName().str();
      if (const DISubprogram *function = functionOf(variable->getScope())) {
        entry.function = function->getName().str();
        entry.linkageFunction = function->getLinkageName().str();
      }
      entry.path = wholePath(variable->getFile());
      entry.line = variable->getLine();
      entry.pointee = pointeeOf(variable->getType());
    }
    return &entry;
  }

  static void take(std::vector<Value *> &list, Value *value) {
    if (!is_contained(list, value))
      list.push_back(value);
  }

  void add(const DILocalVariable *variable, Value *memory, Value *value) {
    ProgramVariable *entry = memory || value ? entryOf(variable) : nullptr;
    if (entry && memory)
      take(entry->memory, memory);
    if (entry && value && !isa<Constant>(value))
      take(entry->values, value);
  }

  /// Memory that is the variable, or that holds the address of a reference's or of a parameter's passed by address.
  void declare(const DILocalVariable *variable, Value *memory, const DIExpression *expression) {
    ProgramVariable *entry = memory ? entryOf(variable) : nullptr;
    if (!entry)
      return;
    const DIType *type = plainType(variable->getType());
    const bool refers = isReference(type);
    const bool isAddress = expression && expression->startsWithDeref() && expression->getNumElements() == 1;
    if (!refers && !isAddress && !isa<Argument>(memory))
      return take(entry->memory, memory);
    if (refers)
      type = plainType(cast<DIDerivedType>(type)->getBaseType());
    entry->referred = type ? std::max<uint64_t>(type->getSizeInBits() / 8, 1) : 1;
    take(entry->addresses, memory);
  }

  /// A `dbg.value` whose expression reads memory describes memory, as at -O0.
  template <typename Record> void addRecord(const Record &record) {
    const DILocalVariable *variable = record.getVariable();
    bool dereferences = record.getExpression() && record.getExpression()->startsWithDeref();
    for (Value *location : record.location_ops()) {
      if (!location)
        continue;
      if (dereferences && location->getType()->isPointerTy())
        add(variable, location, nullptr);
      else
        add(variable, nullptr, location);
    }
  }
};

void addLocals(Module &module, std::vector<ProgramVariable> &found) {
  Locals locals;
  for (Function &function : module)
    for (Instruction &instruction : instructions(function)) {
      if (auto *intrinsic = dyn_cast<DbgVariableIntrinsic>(&instruction)) {
        bool declares = isa<DbgDeclareInst>(intrinsic);
        if (auto *assign = dyn_cast<DbgAssignIntrinsic>(intrinsic)) {
          locals.declare(assign->getVariable(), assign->getAddress(), assign->getAddressExpression());
          continue;
        }
        if (declares)
          locals.declare(intrinsic->getVariable(), cast<DbgDeclareInst>(intrinsic)->getAddress(),
                         intrinsic->getExpression());
        else
          locals.addRecord(*intrinsic);
      }
#if LLVM_VERSION_MAJOR >= 19
      for (DbgVariableRecord &record : filterDbgVars(instruction.getDbgRecordRange())) {
        if (record.isDbgDeclare())
          locals.declare(record.getVariable(), record.getAddress(), record.getExpression());
        else if (record.isDbgAssign()) {
          Value *address = record.getAddress();
          if (address && !isa<Constant>(address))
            locals.declare(record.getVariable(), address, record.getAddressExpression());
          else
            locals.addRecord(record);
        } else
          locals.addRecord(record);
      }
#endif
    }
  for (auto &[variable, entry] : locals.byVariable)
    found.push_back(std::move(entry));
}

/// The scalars in a field that is a structure.
void addParts(const DIType *type, uint64_t base, std::vector<ProgramVariable::Part> &parts) {
  const DICompositeType *structure = structureOf(type);
  if (!structure)
    return;
  for (const DINode *element : structure->getElements()) {
    const auto *member = dyn_cast_or_null<DIDerivedType>(element);
    if (!member || member->isStaticMember() || parts.size() >= kMostParts ||
        (member->getTag() != dwarf::DW_TAG_member && member->getTag() != dwarf::DW_TAG_inheritance))
      continue;
    const uint64_t place = base + member->getOffsetInBits();
    if (structureOf(member->getBaseType()))
      addParts(member->getBaseType(), place, parts);
    else
      parts.push_back({place, static_cast<unsigned>(member->isBitField() ? member->getSizeInBits() : 0)});
  }
}

struct Members {
  explicit Members(std::vector<ProgramVariable> &found) : found(found) {}

  std::vector<ProgramVariable> &found;
  DenseMap<const DICompositeType *, std::vector<std::string>> typedefs;
  struct Holders {
    std::vector<GlobalVariable *> variables;
    std::vector<std::string> names;
  };
  DenseMap<const DICompositeType *, Holders> holders;

  void add(const DICompositeType *owner, const DICompositeType *type, uint64_t base, unsigned depth) {
    if (depth > 8)
      return;
    for (const DINode *element : type->getElements()) {
      const auto *member = dyn_cast_or_null<DIDerivedType>(element);
      if (!member || member->isStaticMember() ||
          (member->getTag() != dwarf::DW_TAG_member && member->getTag() != dwarf::DW_TAG_inheritance))
        continue;
      const DIType *inner = member->getBaseType();
      const auto *composite = dyn_cast_or_null<DICompositeType>(inner);
      // Fields of anonymous structures and of unions in them are the owner's own.
      if (composite && member->getName().empty() && member->getTag() == dwarf::DW_TAG_member) {
        add(owner, composite, base + member->getOffsetInBits(), depth + 1);
        continue;
      }
      // So are those of its base classes.
      if (composite && member->getTag() == dwarf::DW_TAG_inheritance)
        add(owner, composite, base + member->getOffsetInBits(), depth + 1);
      if (member->getName().empty())
        continue;
      ProgramVariable entry;
      entry.kind = ProgramVariable::Kind::Member;
      entry.name = entry.qualified = member->getName().str();
      entry.path = wholePath(member->getFile() ? member->getFile() : owner->getFile());
      entry.line = member->getLine();
      entry.type = owner;
      if (!owner->getName().empty()) {
        entry.tags.push_back(owner->getName().str());
        entry.tags.push_back(qualifiedName(owner->getScope(), owner->getName()));
      }
      for (const std::string &name : typedefs[owner])
        entry.tags.push_back(name);
      for (GlobalVariable *holder : holders[owner].variables)
        entry.memory.push_back(holder);
      for (const std::string &name : holders[owner].names)
        entry.tags.push_back(name);
      entry.bitOffset = base + member->getOffsetInBits();
      entry.bits = member->isBitField() ? member->getSizeInBits() : 0;
      entry.pointee = pointeeOf(inner);
      addParts(inner, entry.bitOffset, entry.parts);
      found.push_back(std::move(entry));
    }
  }
};

void addMembers(Module &module, std::vector<ProgramVariable> &found) {
  DebugInfoFinder finder;
  finder.processModule(module);
  for (Function &function : module)
    for (Instruction &instruction : instructions(function))
      finder.processInstruction(module, instruction);
  Members members(found);
  std::vector<const DICompositeType *> types;
  for (const DIType *type : finder.types()) {
    if (const auto *composite = dyn_cast<DICompositeType>(type)) {
      if ((composite->getTag() == dwarf::DW_TAG_structure_type || composite->getTag() == dwarf::DW_TAG_class_type ||
           composite->getTag() == dwarf::DW_TAG_union_type) &&
          !composite->isForwardDecl())
        types.push_back(composite);
    } else if (const auto *derived = dyn_cast<DIDerivedType>(type)) {
      if (derived->getTag() == dwarf::DW_TAG_typedef)
        if (const auto *composite = dyn_cast_or_null<DICompositeType>(derived->getBaseType()))
          members.typedefs[composite].push_back(derived->getName().str());
    }
  }
  for (GlobalVariable &global : module.globals()) {
    SmallVector<DIGlobalVariableExpression *, 1> described;
    global.getDebugInfo(described);
    for (DIGlobalVariableExpression *expression : described) {
      const DICompositeType *structure = structureOf(elementType(expression->getVariable()->getType()));
      if (!structure || !structure->getName().empty() || !members.typedefs[structure].empty())
        continue;
      members.holders[structure].variables.push_back(&global);
      members.holders[structure].names.push_back(expression->getVariable()->getName().str());
    }
  }
  for (const DICompositeType *type : types)
    members.add(type, type, 0, 0);
}

}  // namespace

std::string transect::qualifiedName(const DIScope *scope, StringRef name) {
  std::string result = name.str();
  for (; scope && !isa<DIFile>(scope) && !isa<DICompileUnit>(scope); scope = scope->getScope()) {
    if (isa<DILexicalBlockBase>(scope) || scope->getName().empty())
      continue;
    result = scope->getName().str() + "::" + result;
  }
  return result;
}

const DICompositeType *transect::structureOf(const DIType *type) {
  const auto *composite = dyn_cast_or_null<DICompositeType>(plainType(type));
  return composite && composite->getTag() != dwarf::DW_TAG_array_type &&
                 composite->getTag() != dwarf::DW_TAG_enumeration_type
             ? composite
             : nullptr;
}

const DIType *transect::elementType(const DIType *type) {
  for (type = plainType(type); const auto *array = dyn_cast_or_null<DICompositeType>(type);
       type = plainType(array->getBaseType()))
    if (array->getTag() != dwarf::DW_TAG_array_type)
      break;
  return type;
}

bool transect::isHeader(StringRef path) {
  const StringRef ending = sys::path::extension(path);
  const StringRef sources[] = {".c", ".i", ".C", ".cc", ".cp", ".cpp", ".cxx", ".c++", ".ii", ".m", ".mm"};
  return !is_contained(sources, ending);
}

std::string transect::declarationPlace(const DICompositeType &type) {
  const std::string path = wholePath(type.getFile());
  return (isHeader(path) ? sys::path::filename(path).str() : path) + ":" + std::to_string(type.getLine());
}

std::vector<ProgramVariable> transect::programVariables(Module &module) {
  std::vector<ProgramVariable> found;
  addGlobals(module, found);
  addLocals(module, found);
  addMembers(module, found);
  return found;
}

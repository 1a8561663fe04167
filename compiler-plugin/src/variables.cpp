#include "variables.h"

#include "program_variables.h"
#include "structure_match.h"
#include "structure_names.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Demangle/Demangle.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Support/MemoryBuffer.h"

#include <algorithm>
#include <map>

using namespace llvm;
using namespace transect;

namespace {

/// How far a declaration may have moved since the model's revision, in lines, before its name must tell.
constexpr unsigned kStaleLines = 200;

bool hasQualifiedName(StringRef qualified, StringRef wanted) {
  return qualified == wanted || (qualified.ends_with(wanted) && qualified.size() > wanted.size() + 2 &&
                                 qualified.drop_back(wanted.size()).ends_with("::"));
}

std::string plainLetters(StringRef name) {
  std::string result;
  for (char c : name)
    if (isAlnum(c))
      result += toLower(c);
  return result;
}

Type *withoutArrays(Type *type) {
  while (auto *array = dyn_cast<ArrayType>(type))
    type = array->getElementType();
  return type;
}

class Resolver {
public:
  Resolver(Module &module, const FeatureModel &model, RegionSet &result)
      : module(module), model(model), result(result), structures(namedStructures(module)),
        variables(programVariables(module)) {}

  FeatureVariables run() {
    result.features = model.features;
    for (const VariablePlace &place : model.places)
      resolve(place);
    annotations();
    findHolders();
    for (const IgnoredWay &way : model.ignored)
      way.isMember() ? ignoreMember(way) : ignoreFunction(way);
    return std::move(found);
  }

private:
  using Candidates = std::vector<const ProgramVariable *>;

  void lose(const VariablePlace &place, const std::string &name, const std::string &why) {
    result.variables.push_back({place.feature, name, why});
  }

  /// Two variables where the model means one stop the build: marking both would mix up their regions.
  void ambiguous(const VariablePlace &place, const std::string &name, const Candidates &candidates,
                 const std::string &advice) {
    std::string text = "two variables are named " + name + ": " + candidates.front()->described() + " and " +
                       second(candidates)->described();
    result.errors.push_back("feature " + model.features[place.feature] + ": " + text + "; " + advice);
    lose(place, name, text);
  }

  void take(const VariablePlace &place, const std::string &name, const ProgramVariable &variable) {
    if (variable.kind == ProgramVariable::Kind::Member) {
      if (!takeMember(place.feature, variable))
        return lose(place, name, "no code uses its type");
    } else {
      takeMore(place, variable);
      if (variable.memory.empty() && variable.values.empty() && variable.addresses.empty())
        return lose(place, name, "optimised away");
    }
    result.variables.push_back({place.feature, name, ""});
  }

  /// `type`: null if no code names it.
  void seed(unsigned feature, const ProgramVariable &variable, StructType *type) {
    auto add = [&](uint64_t place, unsigned bits) {
      found.members.push_back({type, place / 8, bits ? static_cast<unsigned>(place % 8) : 0, bits, feature, variable.type});
    };
    if (variable.parts.empty())
      add(variable.bitOffset, variable.bits);
    for (auto [place, bits] : variable.parts)
      add(place, bits);
  }

  bool takeMember(unsigned feature, const ProgramVariable &variable) {
    bool any = false;
    for (const Value *holder : variable.memory)
      if (auto *type = dyn_cast<StructType>(withoutArrays(sourceType(*cast<GlobalVariable>(holder))))) {
        seed(feature, variable, type);
        any = true;
      }
    for (StructType *type : structures)
      if (isStructureOf(*type, variable, module.getDataLayout())) {
        seed(feature, variable, type);
        any = true;
      }
    // Where structures are only read at their start, code does not name them.
    if (!any && variable.bits != 0 &&
        any_of(variables, [&](const ProgramVariable &other) { return other.pointee == variable.type; })) {
      seed(feature, variable, nullptr);
      any = true;
    }
    return any;
  }

  void findHolders() {
    auto isWanted = [&](const DICompositeType *pointee) {
      return pointee && any_of(found.members, [&](const MemberSeed &seed) {
               return seed.bits != 0 && seed.described == pointee;
             });
    };
    for (const ProgramVariable &variable : variables) {
      if (!isWanted(variable.pointee))
        continue;
      if (variable.kind == ProgramVariable::Kind::Member) {
        for (StructType *type : structures)
          if (isStructureOf(*type, variable, module.getDataLayout()))
            found.holders.push_back({nullptr, type, variable.bitOffset / 8, variable.pointee});
        continue;
      }
      for (const std::vector<Value *> *places : {&variable.memory, &variable.addresses})
        for (Value *place : *places)
          found.holders.push_back({place, nullptr, 0, variable.pointee});
    }
  }

  void resolve(const VariablePlace &place) {
    switch (place.kind) {
    case VariablePlace::Kind::Variable:
      return resolveVariable(place);
    case VariablePlace::Kind::Member:
      return resolveMember(place);
    case VariablePlace::Kind::Location:
      return resolveLocation(place);
    }
  }

  void resolveVariable(const VariablePlace &place) {
    std::string name = place.file + ":" + (place.function.empty() ? "" : place.function + ":") + place.name;
    Candidates globals, locals, declared;
    bool elsewhere = false;
    for (const ProgramVariable &variable : variables) {
      if (variable.kind == ProgramVariable::Kind::Member ||
          (variable.name != place.name && !hasQualifiedName(variable.qualified, place.name)))
        continue;
      if (variable.path.empty()) {
        declared.push_back(&variable);
        continue;
      }
      if (!endsInPath(variable.path, place.file)) {
        elsewhere = true;
        continue;
      }
      if (!place.function.empty() && variable.function != place.function &&
          !hasQualifiedName(variable.linkageFunction, place.function) && !inMethod(variable, place.function))
        continue;
      (variable.function.empty() ? globals : locals).push_back(&variable);
    }
    Candidates &candidates = !globals.empty() ? globals : !locals.empty() ? locals : declared;
    if (&candidates == &declared && !place.function.empty())
      candidates.clear();
    if (candidates.empty()) {
      if (place.name.find_first_of(".>") != std::string::npos && !elsewhere)
        return lose(place, name, "no variable of this name; a field of a structure is members = [\"Tag::field\"]");
      return lose(place, name,
                  elsewhere ? "no variable of this name in this file or function, but there is one elsewhere"
                            : "no variable of this name in code that is used");
    }
    if (second(candidates) && !sameFunctionName(candidates))
      return ambiguous(place, name, candidates,
                       "name the file with its folder, or the function (\"file.c:function:variable\")");
    for (const ProgramVariable *variable : candidates)
      if (variable == candidates.front())
        take(place, name, *variable);
      else
        takeMore(place, *variable);
  }

  /// Variables of one name in several scopes of one function are one to the model, too.
  void takeMore(const VariablePlace &place, const ProgramVariable &variable) {
    for (Value *holder : variable.addresses)
      found.addresses.push_back({holder, variable.referred, place.feature});
    for (Value *memory : variable.memory)
      found.memory.push_back({memory, place.feature});
    for (Value *value : variable.values)
      found.values.push_back({value, place.feature});
  }

  static bool sameFunctionName(const Candidates &candidates) {
    return all_of(candidates, [&](const ProgramVariable *variable) {
      return !variable->function.empty() && variable->path == candidates.front()->path &&
             StringRef(variable->function).split('<').first == StringRef(candidates.front()->function).split('<').first;
    });
  }

  /// "Class::method" against a linkage name: `5Class6method` is part of the mangled name.
  static bool inMethod(const ProgramVariable &variable, StringRef wanted) {
    if (!wanted.contains("::"))
      return StringRef(variable.function).split('<').first == wanted;
    std::string mangled;
    SmallVector<StringRef, 4> parts;
    wanted.split(parts, "::");
    for (StringRef part : parts)
      mangled += std::to_string(part.size()) + part.str();
    return variable.linkageFunction.find(mangled) != std::string::npos;
  }

  /// Two declarations; one that a header gives to several units, or a template to its instances, is one to the model.
  static const ProgramVariable *second(const Candidates &candidates) {
    for (const ProgramVariable *variable : candidates)
      if (variable->path != candidates.front()->path || variable->line != candidates.front()->line)
        return variable;
    return nullptr;
  }

  void resolveMember(const VariablePlace &place) {
    const std::string bare = place.tag + "::" + place.name, name = (place.file.empty() ? "" : place.file + ":") + bare;
    Candidates members, globals;
    bool typeKnown = false;
    for (const ProgramVariable &variable : variables) {
      if (variable.kind == ProgramVariable::Kind::Member) {
        bool tagged = any_of(variable.tags, [&](StringRef tag) {
          return hasQualifiedName(tag, place.tag) || hasQualifiedName(tag.split('<').first, place.tag);
        });
        typeKnown |= tagged;
        if (tagged && variable.name == place.name)
          members.push_back(&variable);
      } else if (variable.function.empty() && hasQualifiedName(variable.qualified, bare)) {
        globals.push_back(&variable);
      }
    }
    Candidates &candidates = members.empty() ? globals : members;
    if (!candidates.empty() && !place.file.empty()) {
      knownIn(place.file, candidates);
      if (candidates.empty())
        return lose(place, name, "no field of this name is declared in this file or a header, but there is one elsewhere");
    }
    if (candidates.empty())
      return lose(place, name,
                  typeKnown ? "the type has no such field" : "no structure type or typedef of this name is used");
    if (second(candidates))
      return ambiguous(place, name, candidates, "name the type with its namespace, or the file (\"file.c:Tag::field\")");
    take(place, name, *candidates.front());
    for (const ProgramVariable *variable : candidates)
      if (variable->kind == ProgramVariable::Kind::Member)
        takeMember(place.feature, *variable);
      else
        takeMore(place, *variable);
  }

  void ignoreFunction(const IgnoredWay &way) {
    const size_t before = found.ignoredFunctions.size();
    for (Function &function : module) {
      const DISubprogram *program = function.getSubprogram();
      if (!program || !endsInPath(program->getFilename(), way.file))
        continue;
      const std::string qualified = StringRef(demangle(function.getName().str())).split('(').first.str();
      if (program->getName() == way.name || hasQualifiedName(qualified, way.name))
        found.ignoredFunctions.push_back(&function);
    }
    const bool any = found.ignoredFunctions.size() > before;
    result.ignored.push_back({way.described(), way.reason, any ? "" : "no function of this name in this file"});
  }

  void ignoreMember(const IgnoredWay &way) {
    Candidates members;
    for (const ProgramVariable &variable : variables)
      if (variable.kind == ProgramVariable::Kind::Member && variable.name == way.name &&
          any_of(variable.tags, [&](StringRef tag) {
            return hasQualifiedName(tag, way.tag) || hasQualifiedName(tag.split('<').first, way.tag);
          }))
        members.push_back(&variable);
    if (!way.file.empty())
      knownIn(way.file, members);
    const size_t before = found.ignoredFields.size();
    for (const ProgramVariable *member : members)
      for (StructType *type : structures)
        if (isStructureOf(*type, *member, module.getDataLayout()))
          found.ignoredFields.push_back({type, member->bitOffset / 8});
    const bool any = found.ignoredFields.size() > before;
    result.ignored.push_back({way.described(), way.reason, any ? "" : "no field of this name in code that is used"});
  }

  /// Leaves those that a file declares, or else those of headers: it may include them, but no other source.
  static void knownIn(const std::string &file, Candidates &candidates) {
    auto isIn = [&](const ProgramVariable *variable) { return endsInPath(variable->path, file); };
    const bool any = any_of(candidates, isIn);
    erase_if(candidates,
             [&](const ProgramVariable *variable) { return any ? !isIn(variable) : !isHeader(variable->path); });
  }

  void resolveLocation(const VariablePlace &place) {
    std::string where = place.file + ":" + std::to_string(place.line);
    StringRef wantedTag, wantedField;
    if (!place.name.empty()) {
      auto [tag, field] = StringRef(place.name).rsplit("::");
      wantedTag = tag;
      wantedField = field.empty() ? tag : field;
    }
    const std::string feature = plainLetters(model.features[place.feature]);
    struct Rank {
      bool notThere, otherLength;
      unsigned otherName, distance;
      bool operator<(const Rank &other) const {
        return std::tie(notThere, otherName, otherLength, distance) <
               std::tie(other.notThere, other.otherName, other.otherLength, other.distance);
      }
    };
    const unsigned length =
        place.endLine == place.line && place.endColumn >= place.column ? place.endColumn - place.column + 1 : 0;
    std::vector<std::pair<Rank, const ProgramVariable *>> ranked;
    bool fileKnown = false;
    for (const ProgramVariable &variable : variables) {
      if (variable.path.empty() || !endsInPath(variable.path, place.file))
        continue;
      fileKnown = true;
      if (!wantedField.empty()) {
        if (variable.name != wantedField)
          continue;
        if (!wantedTag.empty() && variable.kind == ProgramVariable::Kind::Member &&
            none_of(variable.tags, [&](const std::string &tag) { return hasQualifiedName(tag, wantedTag); }))
          continue;
      }
      Rank rank;
      std::string name = plainLetters(variable.name);
      rank.distance = variable.line > place.line ? variable.line - place.line : place.line - variable.line;
      rank.otherLength = length != 0 && variable.name.size() != length;
      rank.otherName = name == feature                                                          ? 0
                       : StringRef(name).contains(feature) || StringRef(feature).contains(name) ? 1
                                                                                                : 2;
      rank.notThere = identifierAt(variable.path, place.line, place.column) != variable.name;
      if (!wantedField.empty())
        rank.otherName = 0;
      if (rank.notThere && rank.otherName != 0 && (rank.otherLength || rank.distance > kStaleLines))
        continue;
      ranked.push_back({rank, &variable});
    }
    std::stable_sort(ranked.begin(), ranked.end(), [](auto &a, auto &b) { return a.first < b.first; });
    std::string wanted = wantedField.empty() ? where : place.name + " (" + where + ")";
    if (ranked.empty())
      return lose(place, wanted,
                  fileKnown ? "no variable near this line fits by length or name" : "no code of this file is used");
    const ProgramVariable &best = *ranked.front().second;
    for (auto &[rank, variable] : ranked) {
      if (ranked.front().first < rank)
        break;
      if (variable->name != best.name) {
        Candidates both{&best, variable};
        return lose(place, wanted, "two variables fit: " + best.described() + " and " + variable->described());
      }
    }
    take(place, best.described(), best);
    for (auto &[rank, variable] : ranked)
      if (variable != &best && !(ranked.front().first < rank) && variable->kind == best.kind &&
          variable->line == best.line)
        best.kind == ProgramVariable::Kind::Member ? (void)takeMember(place.feature, *variable)
                                                   : takeMore(place, *variable);
  }

  /// The identifier in the source at a line and column (from 1), if the source is at hand.
  StringRef identifierAt(const std::string &path, unsigned line, unsigned column) {
    auto place = sources.find(path);
    if (place == sources.end()) {
      std::vector<std::string> lines;
      if (auto buffer = MemoryBuffer::getFile(path)) {
        SmallVector<StringRef, 0> parts;
        (*buffer)->getBuffer().split(parts, '\n');
        for (StringRef part : parts)
          lines.push_back(part.str());
      }
      place = sources.emplace(path, std::move(lines)).first;
    }
    if (line == 0 || line > place->second.size() || column == 0)
      return "";
    return StringRef(place->second[line - 1])
        .drop_front(std::min<size_t>(column - 1, place->second[line - 1].size()))
        .take_while([](char c) { return isAlnum(c) || c == '_'; });
  }

  /// `__attribute__((annotate("feature_variable:X")))` on globals, locals and fields.
  void annotations() {
    if (auto *all = module.getNamedGlobal("llvm.global.annotations"))
      if (auto *list = dyn_cast_or_null<ConstantArray>(all->hasInitializer() ? all->getInitializer() : nullptr))
        for (Value *element : list->operands())
          if (auto *entry = dyn_cast<ConstantStruct>(element); entry && entry->getNumOperands() >= 2)
            annotate(entry->getOperand(0)->stripPointerCasts(), entry->getOperand(1));
    for (Function &function : module) {
      for (Instruction &instruction : instructions(function)) {
        auto *call = dyn_cast<IntrinsicInst>(&instruction);
        if (!call)
          continue;
        if (call->getIntrinsicID() == Intrinsic::var_annotation)
          annotate(call->getArgOperand(0)->stripPointerCasts(), call->getArgOperand(1));
        else if (call->getIntrinsicID() == Intrinsic::ptr_annotation)
          annotate(call, call->getArgOperand(1));
      }
    }
  }

  void annotate(Value *memory, Value *text) {
    auto *global = dyn_cast<GlobalVariable>(text->stripPointerCasts());
    auto *data =
        global && global->hasInitializer() ? dyn_cast<ConstantDataSequential>(global->getInitializer()) : nullptr;
    if (!data || !data->isCString())
      return;
    StringRef name = data->getAsCString();
    if (!name.consume_front("feature_variable:"))
      return;
    unsigned feature = find(result.features, name) - result.features.begin();
    if (feature == result.features.size())
      result.features.push_back(name.str());
    found.memory.push_back({memory, feature});
    std::string described = "annotation feature_variable:" + name.str();
    if (none_of(result.variables, [&](const VariableOutcome &outcome) {
          return outcome.feature == feature && outcome.variable == described;
        }))
      result.variables.push_back({feature, described, ""});
  }

  Module &module;
  const FeatureModel &model;
  RegionSet &result;
  std::vector<StructType *> structures;
  std::vector<ProgramVariable> variables;
  FeatureVariables found;
  std::map<std::string, std::vector<std::string>> sources;
};

}  // namespace

FeatureVariables transect::findVariables(Module &module, const FeatureModel &model, RegionSet &result) {
  return Resolver(module, model, result).run();
}

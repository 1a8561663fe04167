#include "model.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace llvm;
using namespace transect;

#ifdef TRANSECT_MODEL_LIBRARY
extern "C" {
int transect_feature_model_flat(const char *path, char **out, char **error);
void transect_feature_model_free(char *text);
}
#endif

namespace {

std::string unescape(StringRef field) {
  std::string result;
  for (size_t i = 0; i < field.size(); ++i) {
    if (field[i] == '\\' && i + 1 < field.size()) {
      ++i;
      result += field[i] == 't' ? '\t' : field[i] == 'n' ? '\n' : field[i];
    } else {
      result += field[i];
    }
  }
  return result;
}

bool number(StringRef text, unsigned &value) { return !text.getAsInteger(10, value); }

std::optional<FeatureModel> parse(StringRef text, const std::string &path, std::string &error) {
  FeatureModel model;
  SmallVector<StringRef, 0> lines;
  text.split(lines, '\n');
  unsigned lineNumber = 0;
  auto fail = [&](const char *what) {
    error = path + ":" + std::to_string(lineNumber) + ": " + what + "; make the file anew from the XML or TOML model";
    return std::nullopt;
  };
  for (StringRef line : lines) {
    ++lineNumber;
    if (line.empty())
      continue;
    SmallVector<StringRef, 9> raw;
    line.split(raw, '\t');
    std::vector<std::string> field;
    for (StringRef part : raw)
      field.push_back(unescape(part));
    if (lineNumber == 1) {
      if (field.size() != 3 || field[0] != "transect-feature-model" || field[1] != "1")
        return fail("not a feature model in Transect's flat form, version 1");
      model.hash = field[2];
      continue;
    }
    if (field[0] == "feature" && field.size() == 2) {
      model.features.push_back(field[1]);
      continue;
    }
    if (field[0] == "ignore-function" && field.size() == 4) {
      model.ignored.push_back({field[1], "", field[2], field[3]});
      continue;
    }
    if (field[0] == "ignore-member" && field.size() == 5) {
      model.ignored.push_back({field[1], field[2], field[3], field[4]});
      continue;
    }
    VariablePlace place;
    if (field.size() < 4 || !number(field[1], place.feature) || place.feature >= model.features.size())
      return fail("bad record of a feature's variable");
    if (field[0] == "variable" && field.size() == 5) {
      place.kind = VariablePlace::Kind::Variable;
      place.file = field[2];
      place.function = field[3];
      place.name = field[4];
    } else if (field[0] == "member" && (field.size() == 4 || field.size() == 5)) {
      place.kind = VariablePlace::Kind::Member;
      place.tag = field[2];
      place.name = field[3];
      if (field.size() == 5)
        place.file = field[4];
    } else if (field[0] == "location" && field.size() == 8 && number(field[3], place.line) &&
               number(field[4], place.column) && number(field[5], place.endLine) && number(field[6], place.endColumn)) {
      place.kind = VariablePlace::Kind::Location;
      place.file = field[2];
      place.name = field[7];
    } else {
      return fail("bad record");
    }
    model.places.push_back(std::move(place));
  }
  if (model.hash.empty())
    return fail("empty feature model");
  return model;
}

}  // namespace

std::optional<FeatureModel> transect::readFeatureModel(const std::string &path, std::string &error) {
  if (path.empty())
    return FeatureModel{};
  auto buffer = MemoryBuffer::getFile(path);
  if (!buffer) {
    error = path + ": " + buffer.getError().message() + "; set TRANSECT_FEATURE_MODEL to a feature model's path";
    return std::nullopt;
  }
  StringRef text = (*buffer)->getBuffer();
  if (text.starts_with("transect-feature-model\t"))
    return parse(text, path, error);
#ifdef TRANSECT_MODEL_LIBRARY
  char *flat = nullptr, *problem = nullptr;
  if (transect_feature_model_flat(path.c_str(), &flat, &problem) != 0) {
    error = problem ? problem : path + ": not a feature model";
    transect_feature_model_free(problem);
    return std::nullopt;
  }
  std::optional<FeatureModel> model = parse(flat, path, error);
  transect_feature_model_free(flat);
  return model;
#else
  error = path + ": this plugin was built without the reader of XML and TOML models; build it with `make plugin`";
  return std::nullopt;
#endif
}

// The feature model as the plugin needs it: features and the places of their variables.
//
// The normal form is text, one record a line, fields separated by tabs (\t, \n and \\ are escaped by a backslash):
//
//   transect-feature-model <TAB> 1 <TAB> HASH            first line; HASH is 16 hexadecimal digits over the model
//   feature  <TAB> NAME                                    in the model's order; its number is its place
//   variable <TAB> NUMBER <TAB> FILE <TAB> FUNCTION or empty <TAB> VARIABLE
//   member   <TAB> NUMBER <TAB> TAG <TAB> FIELD, and <TAB> FILE if it is one's own
//   ignore-function <TAB> FILE <TAB> FUNCTION <TAB> REASON
//   ignore-member   <TAB> FILE or empty <TAB> TAG <TAB> FIELD <TAB> REASON
//   location <TAB> NUMBER <TAB> PATH <TAB> LINE <TAB> COLUMN <TAB> END LINE <TAB> END COLUMN <TAB> Class::member or
//   empty
//
// XML and TOML models become this form in the crate `feature-model`, which the plugin links as a static library: there
// is one parser for all of Transect.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace transect {

/// How the model points to a variable.
struct VariablePlace {
  enum class Kind { Variable, Member, Location } kind;
  unsigned feature;
  std::string file;      ///< Source file, compared by path suffix; Member: that knows the structure, empty for any.
  std::string function;  ///< Variable: function of a local variable or parameter; empty for any.
  std::string name;      ///< Variable: its name; Member: the field; Location: `Class::member` or empty.
  std::string tag;       ///< Member: struct tag or typedef.
  unsigned line = 0, column = 0, endLine = 0, endColumn = 0;  ///< Location: as in the XML, end inclusive.
};

/// A way of data that the analysis leaves out.
struct IgnoredWay {
  std::string file;          ///< Source file, compared by path suffix; of a member empty for any.
  std::string tag;           ///< Of a member: struct tag or typedef; empty: a function.
  std::string name;          ///< The function, or the field.
  std::string reason;        ///< As the model gives it.

  bool isMember() const { return !tag.empty(); }
  std::string described() const { return (file.empty() ? "" : file + ":") + (isMember() ? tag + "::" + name : name); }
};

struct FeatureModel {
  std::string hash;
  std::vector<std::string> features;
  std::vector<VariablePlace> places;
  std::vector<IgnoredWay> ignored;
};

/// Reads the model named by TRANSECT_FEATURE_MODEL (or the pass option); the error says the file, the line and what to
/// do. A program without a model may still name variables by `__attribute__((annotate("feature_variable:X")))`.
std::optional<FeatureModel> readFeatureModel(const std::string &path, std::string &error);

}  // namespace transect

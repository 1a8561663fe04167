#include "standard_library.h"

#include <algorithm>

using namespace llvm;
using namespace transect;

namespace {

constexpr const char *kNarrow = "basic_stringIcSt11char_traitsIcESaIcEE";
constexpr const char *kWide = "basic_stringIwSt11char_traitsIwESaIwEE";

bool startsWithOneOf(StringRef text, std::initializer_list<StringRef> heads) {
  return std::any_of(heads.begin(), heads.end(), [&](StringRef head) { return text.starts_with(head); });
}

/// The member of `std::string` or `std::wstring` that a mangled name is, without the class.
std::optional<StringRef> memberOfString(StringRef name) {
  if (!name.consume_front("_ZN"))
    return std::nullopt;
  name.consume_front("K");
  if (!name.consume_front("St7__cxx1112") || !(name.consume_front(kNarrow) || name.consume_front(kWide)))
    return std::nullopt;
  return name;
}

/// Streams, their buffers, and what is put out to them or read from them.
bool isOfStreams(StringRef name) {
  if (startsWithOneOf(name, {"_ZStls", "_ZStrs"}))
    return name.contains("basic_ostream") || name.contains("basic_istream");
  if (startsWithOneOf(name, {"_ZSt4endlI", "_ZSt5flushI", "_ZSt4endsI", "_ZSt16__ostream_insertI"}))
    return true;
  if (!name.consume_front("_ZN"))
    return false;
  name.consume_front("K");
  // Substitutions of `std::ostream`, `std::istream` and `std::iostream`.
  if (startsWithOneOf(name, {"So", "Si", "Sd"}))
    return true;
  if (!name.consume_front("St"))
    return false;
  name.consume_front("7__cxx11");
  return startsWithOneOf(name, {"19basic_ostringstreamI", "19basic_istringstreamI", "18basic_stringstreamI",
                                "15basic_stringbufI", "13basic_filebufI", "14basic_ofstreamI", "14basic_ifstreamI",
                                "13basic_fstreamI", "9basic_iosI", "8ios_base", "13basic_ostreamI", "13basic_istreamI",
                                "15basic_streambufI"});
}

ExternalFunction stringMember(StringRef member, const Function &function) {
  ExternalFunction result;
  const Type *type = function.getReturnType();
  const bool isIndirect = function.arg_size() > 0 && function.hasParamAttribute(0, Attribute::StructRet);
  const bool writes =
      isIndirect || (type->isVoidTy() && !startsWithOneOf(member, {"D", "7reserve", "13shrink_to_fit"})) ||
      startsWithOneOf(member, {"C", "pL", "aS", "6append", "6assign", "6insert", "7replace", "9_M_append", "10_M_replace",
                               "14_M_replace_aux"});
  if (writes) {
    result.fillTo = 0;
    result.fillFirst = 1;
    // Each gets the other's text.
    if (member.starts_with("4swap")) {
      result.readFrom = 0;
      result.readFirst = 1;
    }
  }
  if (type->isPointerTy() || type->isStructTy())
    result.returnsArgument = 0;
  // Where a walk over the text ends depends on the text.
  if (!writes && (!type->isPointerTy() || startsWithOneOf(member, {"3end", "4cend"})))
    result.valueOfArguments = true;
  return result;
}

}  // namespace

std::optional<ExternalFunction> transect::standardLibraryFunction(const Function &function) {
  const StringRef name = function.getName();
  if (!name.starts_with("_Z"))
    return std::nullopt;
  if (auto member = memberOfString(name))
    return stringMember(*member, function);
  ExternalFunction result;
  if (startsWithOneOf(name, {"_ZStplIc", "_ZStplIw", "_ZNSt7__cxx119to_stringE"})) {
    result.fillTo = 0;
    result.fillFirst = 1;
    return result;
  }
  const bool compares = startsWithOneOf(name, {"_ZSteqI", "_ZStneI", "_ZStltI", "_ZStgtI", "_ZStleI", "_ZStgeI"}) &&
                        startsWithOneOf(name.drop_front(7), {"c", "w"}) && name.contains("basic_stringI");
  if (compares || startsWithOneOf(name, {"_ZSt11_Hash_bytes", "_ZNSt7__cxx114sto", "_ZNSt7__cxx115sto", "_ZNSt7__cxx116sto"})) {
    result.valueOfArguments = true;
    return result;
  }
  if (isOfStreams(name)) {
    if (function.getReturnType()->isPointerTy())
      result.returnsArgument = 0;
    return result;
  }
  if (name.starts_with("_ZSt7getlineI")) {
    result.returnsArgument = 0;
    return result;
  }
  return std::nullopt;
}

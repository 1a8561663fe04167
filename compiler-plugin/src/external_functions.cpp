#include "external_functions.h"

#include "standard_library.h"

#include "llvm/ADT/StringSet.h"

#include <algorithm>

using namespace llvm;
using namespace transect;

namespace {

/// Nodes of the C++ library's lists and trees: `next` and `previous`; `color`, `parent`, `left` and `right`.
constexpr ExternalFunction::Link kListLinks[] = {{1, 0, 0}, {1, 8, 0}, {0, 0, 1}, {0, 8, 1}};
constexpr ExternalFunction::Link kTreeLinks[] = {{1, 8, 2}, {2, 16, 1}, {2, 24, 1}, {1, 8, 3},
                                                {3, 8, 1}, {3, 16, 1}, {3, 24, 1}};
constexpr int64_t kTreeFields[] = {8, 16, 24};

/// `__memcpy_chk`, `__isoc99_sscanf`, `__isoc23_strtol` are their plain namesakes.
StringRef plainName(StringRef name) {
  if (name.consume_front("__isoc99_") || name.consume_front("__isoc23_") || name.consume_front("__builtin_"))
    return name;
  if (name.starts_with("__") && name.ends_with("_chk"))
    return name.drop_front(2).drop_back(4);
  return name;
}

bool isOneOf(StringRef name, std::initializer_list<StringRef> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

const StringSet<> &functionsOfTheirArguments() {
  static const StringSet<> names{
      "strcmp",   "strncmp", "strcasecmp", "strncasecmp", "memcmp",    "bcmp",      "strcoll", "strlen",  "strnlen",
      "strspn",   "strcspn", "atoi",       "atol",        "atoll",     "atof",      "strtol",  "strtoul", "strtoll",
      "strtoull", "strtod",  "strtof",     "strtold",     "strtoimax", "strtoumax", "toupper", "tolower", "isdigit",
      "isalpha",  "isalnum", "isspace",    "isupper",     "islower",   "isxdigit",  "ispunct", "isprint", "abs",
      "labs",     "llabs",   "fabs",       "fabsf",       "sqrt",      "sqrtf",     "pow",     "powf",    "log",
      "log2",     "log10",   "logf",       "exp",         "exp2",      "expf",      "sin",     "cos",     "tan",
      "floor",    "floorf",  "ceil",       "ceilf",       "round",     "roundf",    "lround",  "fmod",    "fmin",
      "fmax",     "ldexp",   "ffs",        "htonl",       "htons",     "ntohl",     "ntohs",   "isgraph", "iscntrl",
      "isblank",  "trunc",   "rint",       "nearbyint",   "lrint",     "llrint",    "llround", "cbrt",    "hypot",
      "log1p",    "expm1",   "asin",       "acos",        "atan",      "atan2",     "sinh",    "cosh",    "tanh",
      "fdim",     "fma",     "copysign",   "div",         "ldiv",      "lldiv",     "fnmatch", "strverscmp",
      "wcslen",   "wcscmp",  "wcsncmp",    "wcstol",      "mblen",     "a64l"};
  return names;
}

}  // namespace

ExternalFunction transect::externalFunction(const Function &function) {
  if (auto known = standardLibraryFunction(function))
    return *known;
  StringRef name = plainName(function.getName());
  ExternalFunction result;
  if (functionsOfTheirArguments().contains(name)) {
    result.valueOfArguments = true;
  } else if (isOneOf(name, {"strchr", "strrchr", "strstr", "strcasestr", "strpbrk", "memchr", "memrchr", "index",
                            "rindex", "strchrnul", "memmem"})) {
    result.returnsArgument = 0;
    result.valueOfArguments = true;
  } else if (isOneOf(name, {"memcpy", "memmove", "mempcpy"})) {
    result.returnsArgument = 0;
    result.copyTo = 0;
    result.copyFrom = 1;
  } else if (isOneOf(name, {"strcpy", "strncpy", "stpcpy", "stpncpy", "strcat", "strncat", "strlcpy", "strlcat"})) {
    // Text ends in the array in which it begins; what lies behind is not copied.
    result.returnsArgument = 0;
    result.fillTo = 0;
    result.fillFirst = 1;
    result.fillLast = 1;
    result.fillAs = name.contains("cat") ? Dependence::Content : Dependence::Direct;
  } else if (name == "bcopy") {
    result.copyTo = 1;
    result.copyFrom = 0;
  } else if (name == "memset") {
    result.returnsArgument = 0;
    result.fillTo = 0;
    result.fillFirst = 1;
  } else if (name == "sprintf" || name == "vsprintf") {
    result.fillTo = 0;
    result.fillFirst = 2;
  } else if (name == "snprintf" || name == "vsnprintf") {
    result.fillTo = 0;
    result.fillFirst = 3;
  } else if (name == "asprintf" || name == "vasprintf") {
    result.fillTo = 0;
    result.fillFirst = 1;
  } else if (name == "mbstowcs" || name == "wcstombs") {
    result.fillTo = 0;
    result.fillFirst = 1;
    result.valueOfArguments = true;
  } else if (name == "sscanf") {
    result.valueOfArguments = true;
    result.readFrom = 0;
    result.readFirst = 2;
  } else if (isOneOf(name, {"fread", "fread_unlocked", "fgets", "fgets_unlocked", "gets"})) {
    result.inputTo = 0;
  } else if (isOneOf(name, {"read", "pread", "pread64", "recv", "recvfrom", "gzread", "BZ2_bzread"}) ||
             name.starts_with("_ZNSi4readE")) {
    result.inputTo = 1;
  } else if (name == "strdup" || name == "strndup" || name == "memdup") {
    result.duplicates = true;
    result.copyFrom = 0;
  } else if (name == "realloc" || name == "reallocarray") {
    result.returnsArgument = 0;
  } else if (name == "strtok" || name == "strtok_r") {
    result.continues = true;
  } else if (name == "strsep") {
    result.returnsPointee = 0;
  } else if (name == "basename" || name == "dirname" || name == "getcwd") {
    result.returnsArgument = 0;
  } else if (name == "__cxa_throw") {
    result.throws = true;
  } else if (name == "__cxa_begin_catch" || name == "__cxa_get_exception_ptr") {
    result.catches = true;
  } else if (name == "__dynamic_cast") {
    result.returnsArgument = 0;
  } else if (name == "_ZNSt8__detail15_List_node_base7_M_hookEPS0_") {
    result.links = kListLinks;
  } else if (name == "_ZSt29_Rb_tree_insert_and_rebalancebPSt18_Rb_tree_node_baseS0_RS_") {
    result.links = kTreeLinks;
  } else if (name.starts_with("_ZSt18_Rb_tree_incrementP") || name.starts_with("_ZSt18_Rb_tree_decrementP")) {
    result.returnsArgument = 0;
    result.returnsFields = kTreeFields;
  } else if (name == "__kmpc_omp_task_alloc") {
    result.ownMemory = 0;
  }
  result.compares = result.valueOfArguments && (name.contains("cmp") || name.contains("compare") || name == "fnmatch");
  // The number is read from the text at its beginning; its end is in the same text.
  if (name.starts_with("strto") && function.arg_size() >= 2) {
    result.readFrom = 0;
    result.readFirst = 1;
    result.readLast = 1;
  }
  return result;
}

bool transect::tellsCharacters(const Function &function) {
  return isOneOf(function.getName(), {"__ctype_b_loc", "__ctype_toupper_loc", "__ctype_tolower_loc"});
}

ArrayRef<Callback> transect::callbacksOf(const Function &function) {
  static const Callback create[] = {{2, 0, 3, false}}, thrd[] = {{1, 0, 2, false}},
                        sort[] = {{3, 0, 0, false}, {3, 1, 0, false}}, search[] = {{4, 0, 0, false}, {4, 1, 1, false}},
                        first[] = {{0, 0, -1, false}}, second[] = {{1, 0, -1, false}}, fork[] = {{2, 2, 3, true}},
                        task[] = {{0, 0, 1, false}}, sortWith[] = {{3, 0, 0, false}, {3, 1, 0, false}, {3, 2, 4, false}},
                        tree[] = {{2, 0, 0, false}, {2, 1, 0, false}}, once[] = {{1, 0, -1, false}}, key[] = {{1, 0, -1, false}},
                        omp[] = {{5, 1, kCallResult, false}};
  StringRef name = function.getName();
  if (name == "pthread_create")
    return create;
  if (name == "thrd_create")
    return thrd;
  if (name == "qsort")
    return sort;
  if (name == "qsort_r")
    return sortWith;
  if (name == "bsearch" || name == "lfind" || name == "lsearch")
    return search;
  if (name == "tsearch" || name == "tfind")
    return tree;
  if (name == "on_exit")
    return task;
  if (name == "atexit" || name == "at_quick_exit")
    return first;
  if (name == "__cxa_atexit")
    return task;
  if (name == "signal" || name == "pthread_key_create")
    return name == "signal" ? second : key;
  if (name == "pthread_once" || name == "call_once")
    return once;
  if (name == "__kmpc_fork_call")
    return fork;
  if (name == "__kmpc_omp_task_alloc")
    return omp;
  return {};
}

bool transect::startsThreadState(const Function &function) {
  return function.getName().starts_with("_ZNSt6thread15_M_start_thread");
}

// What strings and streams of the C++ library do to data, in place of their code.
#pragma once

#include "external_functions.h"

#include <optional>

namespace transect {

/// Of a string's members and operators, and of streams: a string is one place, whatever part of it is read or written;
/// what is put out to a stream is not seen again. Nothing: another function.
std::optional<ExternalFunction> standardLibraryFunction(const llvm::Function &function);

}  // namespace transect

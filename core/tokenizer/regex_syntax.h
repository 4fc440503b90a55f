// Regular expressions of a tokenizer.json are in Oniguruma's Ruby syntax
// (https://github.com/kkos/oniguruma/blob/master/doc/RE); ICU's differs in a few places.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace attention {

/// An expression of ICU, for its flags MULTILINE and UNIX_LINES, with Oniguruma's meaning of ^, \w,
/// \b, \h and (?m). INVALID_ARGUMENT, with what is expected as its message, for what ICU takes
/// otherwise and this does not translate: [:class:], \X and {n,m}+.
absl::StatusOr<std::string> ToIcuSyntax(const std::string& expression);

}  // namespace attention

// Translates regular expressions. Those of a tokenizer.json are in Oniguruma's Ruby syntax
// (https://github.com/kkos/oniguruma/blob/master/doc/RE); ICU's syntax differs in a few places.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace attention {

/// Returns an expression for ICU, with its flags MULTILINE and UNIX_LINES, in which ^, \w, \s, \h,
/// \p{word}, \b, \Z and (?m) have Oniguruma's meaning. INVALID_ARGUMENT for back references, and
/// for syntax that has another meaning in ICU and is not translated: [:class:], \X, \Q, \g, {n,m}+
/// and {n}?. The message is what was expected.
absl::StatusOr<std::string> ToIcuSyntax(const std::string& expression);

}  // namespace attention

// A random call of attention, made and judged.
#pragma once

#include <string>

#include "tests/core/fuzz/fuzz_case.h"

namespace attention {

/// Computes the case alone and in its own way, against the reference and against each other. What
/// is wrong, or nothing. All memory of the caller's lies beside pages that nobody may touch.
std::string RunFuzzCase(const FuzzCase& fuzz_case);

}  // namespace attention

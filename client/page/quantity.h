// Numbers with units, as people read them.
#pragma once

#include <string>

namespace attention {

enum class Unit {
  kNumber,   // 1.25k
  kSeconds,  // 1.25 ms
  kBytes,    // 1.25 MiB
  kShare,    // 12.5%
};

/// `value` of `unit`, to `digits` significant digits, without trailing zeros.
std::string QuantityText(double value, Unit unit, int digits = 3);

}  // namespace attention

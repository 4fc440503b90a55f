#include "tests/core/fuzz/fuzz_rounding.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "core/tensor/dtype.h"

namespace attention {

void RoundRows(KeyValueStorage storage, int64_t width, float sign, std::vector<double>& rows) {
  for (int64_t row = 0; row < std::ssize(rows); row += width) {
    const std::span<double> numbers(rows.data() + row, width);
    float largest = 0;
    for (const double number : numbers) {
      largest = std::max(largest, std::abs(static_cast<float>(number)));
    }
    if (!std::ranges::all_of(numbers, [](double number) { return std::isfinite(number); })) {
      continue;
    }
    for (double& number : numbers) {
      const auto rounded = static_cast<float>(number);
      if (storage == KeyValueStorage::kBf16) {
        number = ToFloat(ToBf16(rounded));
      } else {
        const float to_integer = largest > 0x1p-100f ? 127.0f / largest : 0.0f;
        const auto integer = static_cast<int32_t>(sign * rounded * to_integer + 128.5f) - 128;
        number = sign * static_cast<double>(largest / 127.0f) * integer;
      }
    }
  }
}

}  // namespace attention

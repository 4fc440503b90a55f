// Numbers with a fixed number of decimals, as text.
#pragma once

#include <cstdio>
#include <string>

namespace attention {

/// Returns `value` with `decimals` digits behind the point: FixedText(1.25, 1) is "1.2". Throws
/// std::bad_alloc without memory; absl::StrFormat would end the process, so core and server do not
/// use it once requests are served.
inline std::string FixedText(double value, int decimals) {
  std::string text(static_cast<size_t>(std::snprintf(nullptr, 0, "%.*f", decimals, value)), '\0');
  std::snprintf(text.data(), text.size() + 1, "%.*f", decimals, value);
  return text;
}

}  // namespace attention

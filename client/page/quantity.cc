#include "client/page/quantity.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace attention {
namespace {

struct Multiple {
  double factor;
  const char* name;
};
constexpr std::array kNumbers = {Multiple{1.0, ""}, Multiple{1e3, "k"}, Multiple{1e6, "M"},
                                 Multiple{1e9, "G"}, Multiple{1e12, "T"}};
constexpr std::array kSeconds = {Multiple{1e-9, " ns"}, Multiple{1e-6, " \u00b5s"},
                                 Multiple{1e-3, " ms"}, Multiple{1.0, " s"}};
constexpr std::array kBytes = {Multiple{1.0, " B"}, Multiple{1024.0, " KiB"},
                               Multiple{1048576.0, " MiB"}, Multiple{1073741824.0, " GiB"}};
constexpr std::array kShares = {Multiple{0.01, "%"}};

std::span<const Multiple> MultiplesOf(Unit unit) {
  switch (unit) {
    case Unit::kSeconds:
      return kSeconds;
    case Unit::kBytes:
      return kBytes;
    case Unit::kShare:
      return kShares;
    case Unit::kNumber:
      break;
  }
  return kNumbers;
}

/// Plain decimals: %g would turn to exponents.
std::string Decimal(double value, int digits) {
  const double size = std::abs(value);
  const int before = size >= 1.0  ? static_cast<int>(std::floor(std::log10(size))) + 1
                     : size > 0.0 ? static_cast<int>(std::floor(std::log10(size))) + 1
                                  : 1;
  std::string text = absl::StrFormat("%.*f", std::clamp(digits - before, 0, 12), value);
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') {
      text.pop_back();
    }
  }
  return text;
}

/// `value` as it is shown, so that 999.96 becomes 1k rather than 1000.
double Rounded(double value, int digits) {
  if (value == 0.0) {
    return 0.0;
  }
  const double unit = std::pow(10.0, std::floor(std::log10(std::abs(value))) + 1 - digits);
  return std::round(value / unit) * unit;
}

}  // namespace

std::string QuantityText(double value, Unit unit, int digits) {
  if (!std::isfinite(value)) {
    return "-";
  }
  const std::span<const Multiple> multiples = MultiplesOf(unit);
  if (value == 0.0) {
    return unit == Unit::kShare ? "0%" : "0";
  }
  const Multiple* chosen = &multiples.front();
  for (const Multiple& multiple : multiples) {
    if (std::abs(Rounded(value, digits)) >= multiple.factor * (1.0 - 1e-9)) {
      chosen = &multiple;
    }
  }
  return absl::StrCat(Decimal(value / chosen->factor, digits), chosen->name);
}

}  // namespace attention

#include "client/page/scale.h"

#include <algorithm>
#include <cmath>

namespace attention {
namespace {

/// Of rounding errors, in steps.
constexpr double kSlack = 1e-9;

/// The smallest nice step that fits `extent` at most `most` - 1 times.
double NiceStep(double extent, int most) {
  const double least = extent / (most - 1);
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least * (1.0 - kSlack)) {
      return factor * power;
    }
  }
  return 10.0 * power;
}

}  // namespace

double Scale::At(double value) const {
  const double share = is_log_ ? std::log(std::max(value, domain_.low) / domain_.low) /
                                     std::log(domain_.high / domain_.low)
                               : (value - domain_.low) / (domain_.high - domain_.low);
  return pixels_.low + share * (pixels_.high - pixels_.low);
}

std::vector<double> LinearTicks(Range range, int most) {
  if (!(range.low < range.high)) {
    return {range.low};
  }
  const double step = NiceStep(range.high - range.low, most);
  std::vector<double> ticks;
  const auto last = static_cast<long long>(std::floor(range.high / step + kSlack));
  for (auto i = static_cast<long long>(std::ceil(range.low / step - kSlack)); i <= last; ++i) {
    ticks.push_back(static_cast<double>(i) * step);
  }
  return ticks;
}

Range NiceRange(Range range, int most) {
  const double low = std::min(range.low, 0.0);
  const double high = range.high > low ? range.high : low + 1.0;
  const double step = NiceStep(high - low, most);
  return {.low = std::floor(low / step + kSlack) * step,
          .high = std::ceil(high / step - kSlack) * step};
}

std::vector<double> LogTicks(Range range, int most) {
  const int first = static_cast<int>(std::floor(std::log10(range.low) + kSlack));
  const int last = static_cast<int>(std::ceil(std::log10(range.high) - kSlack));
  std::vector<double> ticks;
  const auto add = [&](double tick) {
    if (tick >= range.low * (1.0 - kSlack) && tick <= range.high * (1.0 + kSlack)) {
      ticks.push_back(tick);
    }
  };
  for (int power = first; power <= last; ++power) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      add(factor * std::pow(10.0, power));
    }
  }
  for (int stride = 1; static_cast<int>(ticks.size()) > most; ++stride) {
    ticks.clear();
    for (int power = first; power <= last; power += stride) {
      add(std::pow(10.0, power));
    }
  }
  return ticks;
}

}  // namespace attention

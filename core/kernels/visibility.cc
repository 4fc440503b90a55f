#include "core/kernels/visibility.h"

#include <algorithm>

namespace attention {
namespace {

KeyRange Intersection(KeyRange a, KeyRange b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

bool IsEmpty(KeyRange range) { return range.begin >= range.end; }

}  // namespace

bool Visibility::IsGlobal(int64_t position) const {
  return std::binary_search(global_tokens.begin(), global_tokens.end(), position);
}

KeyRange Visibility::RangeWithExceptions(int64_t row) const {
  KeyRange range = Interval(row);
  const auto include = [&range](KeyRange other) {
    if (IsEmpty(other)) {
      return;
    }
    range = IsEmpty(range)
                ? other
                : KeyRange{std::min(range.begin, other.begin), std::max(range.end, other.end)};
  };
  include({0, std::min(prefix, kv_len)});
  if (!global_tokens.empty()) {
    include({global_tokens.front(), global_tokens.back() + 1});
  }
  return range;
}

bool Visibility::Sees(int64_t head, int64_t row, int64_t key) const {
  if (mask.data != nullptr && mask.Row(head, row)[key] == 0) {
    return false;
  }
  const KeyRange interval = Interval(row);
  return (key >= interval.begin && key < interval.end) || key < prefix || IsGlobal(key);
}

bool Visibility::SeesAnyOf(int64_t head, int64_t row, KeyRange keys) const {
  if (mask.data != nullptr) {
    for (int64_t key = keys.begin; key < keys.end; ++key) {
      if (mask.Row(head, row)[key] != 0 && Sees(head, row, key)) {
        return true;
      }
    }
    return false;
  }
  const auto global = std::lower_bound(global_tokens.begin(), global_tokens.end(), keys.begin);
  return !IsEmpty(Intersection(Interval(row), keys)) || keys.begin < prefix ||
         (global != global_tokens.end() && *global < keys.end);
}

void Visibility::HideRange(KeyRange range, int64_t first_key, float* scores) const {
  range.begin = std::max(range.begin, prefix);
  const auto fill = [&](int64_t begin, int64_t end) {
    if (begin < end) {
      std::fill(scores + begin - first_key, scores + end - first_key, kMinusInfinity);
    }
  };
  auto global = std::lower_bound(global_tokens.begin(), global_tokens.end(), range.begin);
  for (; global != global_tokens.end() && *global < range.end; ++global) {
    fill(range.begin, *global);
    range.begin = *global + 1;
  }
  fill(range.begin, range.end);
}

void Visibility::Hide(int64_t head, int64_t row, KeyRange keys, float* scores) const {
  const KeyRange interval = Intersection(Interval(row), keys);
  if (IsEmpty(interval)) {
    HideRange(keys, keys.begin, scores);
  } else {
    HideRange({keys.begin, interval.begin}, keys.begin, scores);
    HideRange({interval.end, keys.end}, keys.begin, scores);
  }
  if (mask.data == nullptr) {
    return;
  }
  const uint8_t* may_see = mask.Row(head, row) + keys.begin;
  for (int64_t i = 0; i < keys.end - keys.begin; ++i) {
    scores[i] = may_see[i] != 0 ? scores[i] : kMinusInfinity;
  }
}

}  // namespace attention

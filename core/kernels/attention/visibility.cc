#include "core/kernels/attention/visibility.h"

#include <algorithm>
#include <span>

namespace attention {
namespace {

KeyRange Intersection(KeyRange a, KeyRange b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

bool IsEmpty(KeyRange range) { return range.begin >= range.end; }

bool Contains(std::span<const int64_t> ascending, int64_t value) {
  return std::binary_search(ascending.begin(), ascending.end(), value);
}

/// The dilation of a row: of the keys of its interval, it attends to those at a distance from its
/// position that is a multiple of `dilation`.
struct Dilation {
  int64_t position = 0;
  int64_t dilation = 1;

  /// The number of keys from `key` on that come before the first such key.
  int64_t KeysToSkip(int64_t key) const {
    const int64_t rest = (position - key) % dilation;
    return rest < 0 ? rest + dilation : rest;
  }
};

/// Returns the dilation of the row at `position`, which is 1 for a global token.
Dilation DilationAt(const AttentionOptions& options, int64_t position) {
  const bool is_dilated = options.window_dilation > 1 && !Contains(options.global_tokens, position);
  return {position, is_dilated ? options.window_dilation : 1};
}

}  // namespace

/// Calls f(begin, end) for the parts of `range` that hold neither prefix, global tokens nor extra
/// keys.
template <typename F>
void Visibility::ForOrdinaryKeys(KeyRange range, const F& f) const {
  range = Intersection(range, {options_.prefix, first_extra_key_});
  const std::span<const int64_t> tokens = options_.global_tokens;
  auto global = std::lower_bound(tokens.begin(), tokens.end(), range.begin);
  for (; global != tokens.end() && *global < range.end; ++global) {
    if (range.begin < *global) {
      f(range.begin, *global);
    }
    range.begin = *global + 1;
  }
  if (range.begin < range.end) {
    f(range.begin, range.end);
  }
}

int64_t Visibility::MostKeys(int64_t first_row, int64_t rows) const {
  const int64_t first = query_offset_ + first_row, last = first + rows - 1;
  const auto& globals = options_.global_tokens;
  const auto global = std::lower_bound(globals.begin(), globals.end(), first);
  if (global != globals.end() && *global <= last) {
    return kv_len_;
  }
  const int64_t begin = std::max<int64_t>(0, first - left_);
  const int64_t end = std::min(kv_len_, last + right_ + 1);
  const int64_t exceptions = options_.prefix + std::ssize(globals) + kv_len_ - first_extra_key_;
  return std::min(kv_len_, std::max<int64_t>(0, end - begin) + exceptions);
}

bool Visibility::has_holes() const {
  return options_.mask.data != nullptr || !options_.global_tokens.empty() ||
         (options_.prefix > 0 && options_.window > 0) || options_.window_dilation > 1 ||
         (first_extra_key_ < kv_len_ && !hides_nothing());
}

bool Visibility::IsGlobal(int64_t position) const {
  return Contains(options_.global_tokens, position);
}

void Visibility::Ranges(int64_t first_row, int64_t count, int64_t* begin, int64_t* end) const {
  const bool has_exceptions = this->has_exceptions();
  for (int64_t i = 0; i < count; ++i) {
    const KeyRange range =
        has_exceptions ? Range(first_row + i) : IntervalAt(query_offset_ + first_row + i);
    begin[i] = range.begin;
    end[i] = range.end;
  }
}

KeyRange Visibility::WithExceptions(KeyRange interval, KeyRange keys) const {
  KeyRange range = interval;
  const auto include = [&](KeyRange other) {
    other = Intersection(other, keys);
    if (IsEmpty(other)) {
      return;
    }
    range = IsEmpty(range)
                ? other
                : KeyRange{std::min(range.begin, other.begin), std::max(range.end, other.end)};
  };
  include({0, std::min(options_.prefix, kv_len_)});
  include({first_extra_key_, kv_len_});
  const std::span<const int64_t> tokens = options_.global_tokens;
  const auto first = std::lower_bound(tokens.begin(), tokens.end(), keys.begin);
  const auto last = std::lower_bound(first, tokens.end(), keys.end);
  if (first != last) {
    include({*first, *(last - 1) + 1});
  }
  return range;
}

KeyRange Visibility::RangeWithin(int64_t row, KeyRange keys) const {
  const KeyRange interval = Intersection(Interval(row), keys);
  const KeyRange range = WithExceptions(interval, keys);
  return IsEmpty(range) ? KeyRange{keys.begin, keys.begin} : range;
}

bool Visibility::AttendsTo(int64_t head, int64_t row, int64_t key) const {
  if (options_.mask.data != nullptr && options_.mask.Row(head, row)[key] == 0) {
    return false;
  }
  const KeyRange interval = Interval(row);
  const bool is_within = key >= interval.begin && key < interval.end &&
                         DilationAt(options_, query_offset_ + row).KeysToSkip(key) == 0;
  return is_within || key < options_.prefix || key >= first_extra_key_ || IsGlobal(key);
}

bool Visibility::AttendsToAnyOf(int64_t head, int64_t row, KeyRange keys) const {
  if (options_.mask.data != nullptr) {
    for (int64_t key = keys.begin; key < keys.end; ++key) {
      if (options_.mask.Row(head, row)[key] != 0 && AttendsTo(head, row, key)) {
        return true;
      }
    }
    return false;
  }
  const auto global =
      std::lower_bound(options_.global_tokens.begin(), options_.global_tokens.end(), keys.begin);
  const KeyRange interval = Intersection(Interval(row), keys);
  const Dilation dilation = DilationAt(options_, query_offset_ + row);
  return (!IsEmpty(interval) &&
          dilation.KeysToSkip(interval.begin) < interval.end - interval.begin) ||
         keys.begin < options_.prefix || keys.end > first_extra_key_ ||
         (global != options_.global_tokens.end() && *global < keys.end);
}

void Visibility::HideRange(KeyRange range, int64_t first_key, float* scores) const {
  ForOrdinaryKeys(range, [&](int64_t begin, int64_t end) {
    std::fill(scores + begin - first_key, scores + end - first_key, kMinusInfinity);
  });
}

void Visibility::Hide(int64_t head, int64_t row, KeyRange keys, float* scores) const {
  const KeyRange interval = Intersection(Interval(row), keys);
  if (IsEmpty(interval)) {
    HideRange(keys, keys.begin, scores);
  } else {
    HideRange({keys.begin, interval.begin}, keys.begin, scores);
    HideRange({interval.end, keys.end}, keys.begin, scores);
  }
  if (const Dilation dilation = DilationAt(options_, query_offset_ + row); dilation.dilation > 1) {
    ForOrdinaryKeys(interval, [&](int64_t begin, int64_t end) {
      int64_t skip = dilation.KeysToSkip(begin);
      for (int64_t key = begin; key < end; ++key) {
        scores[key - keys.begin] = skip == 0 ? scores[key - keys.begin] : kMinusInfinity;
        skip = skip == 0 ? dilation.dilation - 1 : skip - 1;
      }
    });
  }
  if (options_.mask.data == nullptr) {
    return;
  }
  const uint8_t* is_visible = options_.mask.Row(head, row) + keys.begin;
  for (int64_t i = 0; i < keys.end - keys.begin; ++i) {
    scores[i] = is_visible[i] != 0 ? scores[i] : kMinusInfinity;
  }
}

}  // namespace attention

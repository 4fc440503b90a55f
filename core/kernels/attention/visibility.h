// The visibility rules: which keys a query row attends to. Causal, window, prefix, global tokens
// and masks are evaluated here and nowhere else.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "core/kernels/attention/options.h"

namespace attention {

/// The score of a key that is hidden from a row.
inline constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

/// The number of keys from which on a window or a prefix holds all keys of all rows, at any
/// position.
inline constexpr int64_t kFarthestKey = 4 * kMaxPosition;

/// Keys [begin, end).
struct KeyRange {
  int64_t begin = 0;
  int64_t end = 0;
};

/// The visibility rules of one sequence, borrowed from its options. Row i stands at key position
/// p = query_offset + i.
///
/// A row attends to key j when the mask allows it and one of these conditions holds: j is within
/// the row's interval (j <= p with `causal`, j > p - window, j <= p + window_right) and at a
/// multiple of the dilation from p; j < prefix; j or p is a global token; j is an extra key.
class Visibility {
 public:
  /// The last `extra_keys` of the keys are extra ones. REQUIRES: `options.query_offset` is set, and
  /// no window and no prefix is larger than kFarthestKey.
  Visibility(const AttentionOptions& options, int64_t kv_len, int64_t extra_keys = 0)
      : options_(options),
        kv_len_(kv_len),
        first_extra_key_(kv_len - extra_keys),
        query_offset_(*options.query_offset),
        left_(LeftOf(options)),
        right_(RightOf(options)) {}

  /// Returns an upper bound of the number of keys to which a row attends, whatever its position. A
  /// mask and a dilation are not looked at.
  static int64_t MostKeysOfARow(const AttentionOptions& options, int64_t kv_len,
                                int64_t extra_keys) {
    return options.global_tokens.empty()
               ? std::min(kv_len, LeftOf(options) + RightOf(options) + 1 +
                                      std::min(options.prefix, kFarthestKey) + extra_keys)
               : kv_len;
  }

  /// Returns the smallest range that holds every key the row may attend to by its position.
  KeyRange Range(int64_t row) const {
    return has_exceptions() ? WithExceptions(Interval(row), {0, kv_len_})
                            : IntervalAt(query_offset_ + row);
  }
  /// Returns the smallest range within `keys` that holds every key of them to which the row may
  /// attend by its position: [keys.begin, keys.begin) if there is none.
  KeyRange RangeWithin(int64_t row, KeyRange keys) const;
  /// Returns whether Range(row) may have a gap between the row's interval and other keys to which
  /// it attends, which RangeWithin leaves out.
  bool has_gaps() const { return has_exceptions() && !hides_nothing(); }
  /// Returns the number n such that the row's interval ends at key n, extra keys aside.
  int64_t EndWithoutExtraKeys(int64_t row) const {
    return std::min(Interval(row).end, first_extra_key_);
  }
  /// Sets begin[i] and end[i] to Range(first_row + i), for `count` rows.
  void Ranges(int64_t first_row, int64_t count, int64_t* begin, int64_t* end) const;
  /// Returns an upper bound of the number of keys to which rows [first_row, first_row + rows)
  /// attend together. A mask and a dilation are not looked at. REQUIRES: rows > 0.
  int64_t MostKeys(int64_t first_row, int64_t rows) const;
  /// Returns whether no rule of position (causal, windows) hides a key from any row.
  bool hides_nothing() const {
    return !options_.causal && options_.window == 0 && options_.window_right == 0;
  }
  /// Returns whether the range of a row may contain keys that are hidden from it: scores then need
  /// Hide.
  bool has_holes() const;
  /// Returns whether the row attends to the key. REQUIRES: 0 <= key < kv_len.
  bool AttendsTo(int64_t head, int64_t row, int64_t key) const;
  /// Returns whether the row attends to at least one key of `keys`.
  bool AttendsToAnyOf(int64_t head, int64_t row, KeyRange keys) const;
  /// Sets scores[j - keys.begin] to -infinity for every j of `keys` that is hidden from the row.
  void Hide(int64_t head, int64_t row, KeyRange keys, float* scores) const;

 private:
  static int64_t LeftOf(const AttentionOptions& options) {
    return options.window > 0 ? std::min(options.window - 1, kFarthestKey) : kFarthestKey;
  }
  static int64_t RightOf(const AttentionOptions& options) {
    return options.causal             ? 0
           : options.window_right > 0 ? std::min(options.window_right, kFarthestKey)
                                      : kFarthestKey;
  }
  /// Whether rows attend to keys outside of their intervals.
  bool has_exceptions() const {
    return options_.prefix > 0 || !options_.global_tokens.empty() || first_extra_key_ < kv_len_;
  }
  /// Returns the interval of a position that is no global token: its causal mask and its window.
  KeyRange IntervalAt(int64_t position) const {
    const KeyRange range{std::max<int64_t>(0, position - left_),
                         std::min(kv_len_, position + right_ + 1)};
    return range.begin < range.end ? range : KeyRange{};
  }
  KeyRange Interval(int64_t row) const {
    const int64_t position = query_offset_ + row;
    return IsGlobal(position) ? KeyRange{0, kv_len_} : IntervalAt(position);
  }
  /// Returns the smallest range that holds `interval` and the keys of `keys` that are prefix,
  /// global tokens or extra keys.
  KeyRange WithExceptions(KeyRange interval, KeyRange keys) const;
  bool IsGlobal(int64_t position) const;
  template <typename F>
  void ForOrdinaryKeys(KeyRange range, const F& f) const;
  void HideRange(KeyRange range, int64_t first_key, float* scores) const;

  const AttentionOptions& options_;
  int64_t kv_len_;
  int64_t first_extra_key_;  // kv_len: none
  int64_t query_offset_;
  // A position p attends to keys from p - left_ to p + right_, both included.
  int64_t left_;
  int64_t right_;
};

}  // namespace attention

// How a random case follows from a number.
#include <algorithm>
#include <initializer_list>

#include "core/kernels/attention/options.h"
#include "core/tensor/dtype.h"
#include "tests/core/fuzz/fuzz_case.h"

namespace attention {
namespace {

/// SplitMix64 (Steele et al. 2014).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  int64_t Below(int64_t count) { return static_cast<int64_t>(Next() % count); }
  /// Once in `times`.
  bool Rarely(int64_t times) { return Below(times) == 0; }
  /// Small numbers are as likely as large ones of more digits.
  int64_t UpTo(int64_t most) { return Below(std::max<int64_t>(most >> Below(6), 1) + 1); }
  int64_t OneOf(std::initializer_list<int64_t> values) {
    return values.begin()[Below(std::ssize(values))];
  }

 private:
  uint64_t Next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  uint64_t state_;
};

/// Positions far from all keys, and a window or prefix that holds every key.
constexpr int64_t kFar = kMaxPosition / 2;
constexpr int64_t kHuge = int64_t{1} << 62;

void ChooseShape(Random& random, FuzzCase& c) {
  c.query_len =
      random.Rarely(2)
          ? random.UpTo(400)
          : random.OneOf({0, 1, 1, 2, 3, 5, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129});
  c.kv_len = random.Rarely(c.query_len < 20 ? 3 : 20) ? random.UpTo(6000) : random.UpTo(1300);
  c.kv_heads = 1 + random.Below(3);
  c.group = random.OneOf({1, 1, 1, 2, 2, 3, 4, 7, 8, 9, 16, 17, 64});
  c.dim = random.OneOf({1,  2,  3,  7,   8,   15,  16,  17,  30,  32,  48,  64,
                        64, 80, 96, 100, 128, 129, 200, 255, 256, 257, 500, 512});
  c.value_dim = random.Rarely(2)   ? c.dim
                : random.Rarely(8) ? random.OneOf({255, 256, 257, 511, 512})
                                   : 1 + random.UpTo(150);
  c.dtype = random.OneOf({0, 0, 0, 1, 1, 2});
  c.key_dtype = random.Rarely(2) ? 1 + random.Below(3) : 0;
  c.output_dtype = random.Rarely(4) ? 1 + random.Below(3) : 0;
  c.value_size = random.Rarely(8) ? 1 + random.Below(2) : 0;
}

void ChooseKind(Random& random, FuzzCase& c) {
  c.similarity = random.OneOf({0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 4});
  c.causal = random.Below(2);
  c.has_offset = random.Rarely(4);
  c.offset = c.has_offset ? random.Below(c.kv_len + 120) - 60 : 0;
  if (c.has_offset != 0 && random.Rarely(6)) {
    c.offset = random.OneOf({-kFar, -20'000, 20'000, kFar});
  }
  c.window = random.Rarely(3) ? random.UpTo(700) : random.Rarely(8) ? random.UpTo(5000) : 0;
  c.window_right = random.Rarely(5) ? random.UpTo(300) : random.Rarely(10) ? random.UpTo(5000) : 0;
  c.window_dilation = c.window > 0 && random.Rarely(3) ? 1 + random.UpTo(80) : 1;
  if (c.window_dilation > 1 && random.Rarely(4)) {
    c.window_dilation = 1 + random.UpTo(2000);
  }
  c.prefix = random.Rarely(5) ? random.UpTo(200) : random.Rarely(12) ? random.UpTo(5000) : 0;
  if (random.Rarely(20)) {
    random.OneOf({0, 1}) == 0 ? c.window = kHuge : c.prefix = kHuge;
  }
  c.global_tokens = random.Rarely(6) ? random.Below(6) : 0;
  c.global_end = random.Below(2);
  c.mask = random.Rarely(4) ? 1 + random.Below(4) : 0;
  c.scale = random.Rarely(5) ? 1 + random.Below(5) : 0;
  c.softcap = random.Rarely(6) ? random.OneOf({1, 7, 50, 100, 300, 10'000}) : 0;
  c.alibi = random.Rarely(5) ? 1 + random.Below(2) : 0;
  c.bias = random.Rarely(5) ? 1 + random.Below(2) : 0;
  c.bias_kind = random.Below(4);
  c.sinks = random.Rarely(5) ? 1 + random.Below(2) : 0;
  c.query_norm = random.Rarely(6) ? 1 + random.Below(2) : 0;
  c.key_norm = random.Rarely(6) ? 1 + random.Below(2) : 0;
  c.bandwidth = random.Rarely(3) ? 1 + random.Below(2) : 0;
  c.rotary = random.Rarely(4) ? 1 + random.Below(2) : 0;
  c.rotary_dim = random.Rarely(2) ? 2 * random.Below(c.dim) : 0;
  c.rotary_base = random.OneOf({10'000, 10'000, 2, 500'000});
  c.rotary_scaling = random.Below(5);
  c.rotary_offset = random.Rarely(3) ? random.OneOf({-700, -1, 63, 100'000}) : 0;
  c.poison = random.Rarely(6) ? 1 + random.Below(std::max<int64_t>(c.kv_len, 1)) : 0;
  c.poison_kind = random.Below(5);
  c.poison_head = random.Below(2);
  c.query_poison = random.Rarely(8) ? 1 + random.Below(std::max<int64_t>(c.query_len, 1)) : 0;
  c.repeats = random.Rarely(8) ? 1 + random.UpTo(200) : 0;
}

void ChooseWay(Random& random, FuzzCase& c) {
  c.weights = random.Rarely(4);
  c.log_sum_exp = random.Rarely(3);
  c.top_k = random.Rarely(5) ? random.OneOf({1, 2, 3, 5, 17, 40, 700}) : 0;
  c.padding = random.Rarely(2) ? random.Below(20) : 0;
  c.by_head = random.Rarely(4);
  c.at_begin = random.Rarely(4);
  c.threads = 1 + random.Below(4);
  c.mates = random.Below(5);
  c.mate_kind = random.Below(5);
  c.bad_mates = random.Below(2);
  c.block = random.Rarely(3) ? random.OneOf({1, 64, 128, 200}) : 0;
  c.cancelled = random.Rarely(4);
  c.layer = random.Rarely(3) ? 1 + random.Below(2) : 0;
  c.slices = random.Below(2);
  c.cache = random.Rarely(3) ? 1 + random.Below(3) : 0;
  c.cache_cut = random.OneOf({0, 1, 7, 64, 100, 511});
  c.cache_history = random.Below(kNumCacheHistories);
  c.small_pages = random.Below(2);
  c.grows = random.Below(2);
  c.query_cut = random.Rarely(3) ? random.OneOf({1, 5, 8, 9, 64, 70}) : 0;
  c.parts = random.Rarely(5) ? random.OneOf({1, 2, 3, 7}) : 0;
}

/// Changes numbers that most layers would refuse, or that would make one slow.
void FitLayer(Random& random, FuzzCase& c) {
  c.kv_heads = 1 + c.kv_heads % 2;
  c.group = 1 + c.group % 4;
  c.dim = 1 + c.dim % 50;
  c.value_dim = 1 + c.value_dim % 50;
  c.dtype = static_cast<int64_t>(random.Rarely(3) ? Dtype::kF16 : Dtype::kF32);
  if (c.layer == 1) {
    return;
  }
  if (random.Rarely(2)) {
    c.kv_len = c.query_len;
  } else if (c.cache == 0) {
    c.cache = 1 + random.Below(3);
  }
  if (random.Rarely(2)) {
    c.causal = 1;
    c.has_offset = c.prefix = c.global_tokens = 0;
  }
}

/// What a layer computes keys and values from, what its products are, and what it adds to the keys
/// and to the rows.
void ChooseLayer(Random& random, FuzzCase& c) {
  c.layer = c.layer == 1 && random.Rarely(3) ? 3 : c.layer;
  c.stored_dtype = random.Rarely(2) ? 1 + random.Below(3) : 0;
  c.transposed = random.Below(2);
  c.stored_padding = random.Rarely(2) ? random.Below(20) : 0;
  c.shared_rotations = random.Below(2);
  if (random.Rarely(4)) {
    return;
  }
  c.layer_weights = random.Below(2);
  c.layer_dtype = random.OneOf({0, 0, 1, 2});
  c.residual = random.Rarely(2) ? 1 + random.Below(2) : 0;
  c.extra_keys = random.Rarely(2) ? 1 + random.Below(3) : 0;
  if (c.extra_keys != 0 && c.layer == 2 && random.Rarely(2)) {
    c.cache = 0;  // which a layer with extra keys cannot have
    c.kv_len = c.query_len;
  }
  if (c.layer_dtype != 0 && random.Rarely(3)) {
    c.dtype = static_cast<int64_t>(Dtype::kBf16);
  }
}

}  // namespace

FuzzCase MakeFuzzCase(uint64_t seed) {
  Random random(seed);
  FuzzCase c{.seed = static_cast<int64_t>(seed)};
  ChooseShape(random, c);
  ChooseKind(random, c);
  ChooseWay(random, c);
  if (c.layer != 0) {
    FitLayer(random, c);
    ChooseLayer(random, c);
  }
  c.cache_budget = random.Below(2);
  return Valid(c);
}

}  // namespace attention

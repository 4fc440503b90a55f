#include "tests/core/fuzz/fuzz_case.h"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/kernels/attention/options.h"
#include "core/tensor/dtype.h"

namespace attention {
namespace {

struct Field {
  const char* name;
  int64_t FuzzCase::* value;
};

constexpr Field kFields[] = {{"seed", &FuzzCase::seed},
                             {"query_len", &FuzzCase::query_len},
                             {"kv_len", &FuzzCase::kv_len},
                             {"kv_heads", &FuzzCase::kv_heads},
                             {"group", &FuzzCase::group},
                             {"dim", &FuzzCase::dim},
                             {"value_dim", &FuzzCase::value_dim},
                             {"dtype", &FuzzCase::dtype},
                             {"key_dtype", &FuzzCase::key_dtype},
                             {"output_dtype", &FuzzCase::output_dtype},
                             {"value_size", &FuzzCase::value_size},
                             {"similarity", &FuzzCase::similarity},
                             {"causal", &FuzzCase::causal},
                             {"has_offset", &FuzzCase::has_offset},
                             {"offset", &FuzzCase::offset},
                             {"window", &FuzzCase::window},
                             {"window_right", &FuzzCase::window_right},
                             {"window_dilation", &FuzzCase::window_dilation},
                             {"prefix", &FuzzCase::prefix},
                             {"global_tokens", &FuzzCase::global_tokens},
                             {"global_end", &FuzzCase::global_end},
                             {"mask", &FuzzCase::mask},
                             {"scale", &FuzzCase::scale},
                             {"softcap", &FuzzCase::softcap},
                             {"alibi", &FuzzCase::alibi},
                             {"bias", &FuzzCase::bias},
                             {"bias_kind", &FuzzCase::bias_kind},
                             {"sinks", &FuzzCase::sinks},
                             {"query_norm", &FuzzCase::query_norm},
                             {"key_norm", &FuzzCase::key_norm},
                             {"bandwidth", &FuzzCase::bandwidth},
                             {"rotary", &FuzzCase::rotary},
                             {"rotary_dim", &FuzzCase::rotary_dim},
                             {"rotary_base", &FuzzCase::rotary_base},
                             {"rotary_scaling", &FuzzCase::rotary_scaling},
                             {"rotary_offset", &FuzzCase::rotary_offset},
                             {"poison", &FuzzCase::poison},
                             {"poison_kind", &FuzzCase::poison_kind},
                             {"poison_head", &FuzzCase::poison_head},
                             {"query_poison", &FuzzCase::query_poison},
                             {"repeats", &FuzzCase::repeats},
                             {"weights", &FuzzCase::weights},
                             {"log_sum_exp", &FuzzCase::log_sum_exp},
                             {"top_k", &FuzzCase::top_k},
                             {"padding", &FuzzCase::padding},
                             {"by_head", &FuzzCase::by_head},
                             {"at_begin", &FuzzCase::at_begin},
                             {"threads", &FuzzCase::threads},
                             {"mates", &FuzzCase::mates},
                             {"mate_kind", &FuzzCase::mate_kind},
                             {"bad_mates", &FuzzCase::bad_mates},
                             {"block", &FuzzCase::block},
                             {"cancelled", &FuzzCase::cancelled},
                             {"layer", &FuzzCase::layer},
                             {"slices", &FuzzCase::slices},
                             {"cache", &FuzzCase::cache},
                             {"cache_cut", &FuzzCase::cache_cut},
                             {"cache_history", &FuzzCase::cache_history},
                             {"small_pages", &FuzzCase::small_pages},
                             {"grows", &FuzzCase::grows},
                             {"query_cut", &FuzzCase::query_cut},
                             {"parts", &FuzzCase::parts}};

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

void DropWhatSimilarityRefuses(FuzzCase& c) {
  const auto similarity = static_cast<Similarity>(c.similarity);
  if (similarity == Similarity::kDotProduct) {
    return;
  }
  c.scale = c.softcap = c.alibi = c.bias = c.sinks = 0;
  if (similarity == Similarity::kLinear) {
    c.window = c.window_right = c.prefix = c.global_tokens = c.mask = c.cache = 0;
    c.window_dilation = 1;
    return;
  }
  // Of box and triangle, a rounding of the rows may turn a weight into none.
  if (similarity != Similarity::kGaussian) {
    c.query_norm = c.key_norm = c.rotary = 0;
  }
}

/// Whether rows that are computed before later keys are appended attend to none of these.
bool CanGrow(const FuzzCase& c) {
  return c.causal != 0 && c.has_offset == 0 && c.prefix == 0 && c.global_tokens == 0 &&
         c.query_len <= c.kv_len;
}

void DropWhatALayerRefuses(FuzzCase& c) {
  constexpr int64_t kMostColumns = 600;
  const int64_t columns = c.kv_heads * (c.group * (c.dim + c.value_dim) + c.dim + c.value_dim);
  // The compute type of a layer of f32 weights is f32.
  if (columns > kMostColumns || static_cast<Dtype>(c.dtype) == Dtype::kBf16) {
    c.layer = 0;
  }
  if (c.layer == 0) {
    c.slices = 0;
    return;
  }
  // A product with the identity makes a row of NaN of one NaN.
  c.poison = c.query_poison = 0;
  if (c.query_len > c.kv_len || (c.cache == 0 && c.query_len < c.kv_len)) {
    c.layer = 1;
  }
  c.cache = c.layer == 1 ? 0 : c.cache;
  c.key_dtype = 0;
  if (c.layer == 2 && (c.cache == 0 || !CanGrow(c))) {
    c.query_cut = 0;
  }
}

void DropWhatNeedsAnother(FuzzCase& c) {
  if (c.poison == 0) {
    c.poison_kind = c.poison_head = 0;
  }
  c.bandwidth = IsRegression(static_cast<Similarity>(c.similarity)) ? c.bandwidth : 0;
  c.global_end = c.global_tokens == 0 ? 0 : c.global_end;
  c.bias_kind = c.bias == 0 ? 0 : c.bias_kind;
  if (c.rotary == 0) {
    c.rotary_scaling = c.rotary_offset = 0;
    c.rotary_base = FuzzCase().rotary_base;
  }
  if (c.rotary != 0 || c.alibi != 0) {
    // Angles and ALiBi of farther positions are not exact in the reference.
    c.offset = std::clamp<int64_t>(c.offset, -100'000, 100'000);
  }
  if (c.mates == 0) {
    c.bad_mates = c.mate_kind = 0;
  }
  // Rounded keys and large logits make other weights.
  c.scale = c.scale == 4 && c.cache > 1 ? 3 : c.scale;
  if (c.cache == 0) {
    c.cache_cut = c.cache_history = c.small_pages = c.grows = c.key_dtype = 0;
  }
  // The keys that come later must be hidden from the rows that are computed before.
  if (!CanGrow(c) || c.query_cut == 0 || c.layer != 0) {
    c.grows = 0;
  }
  // The logarithm of a sum of the lowest numbers does not tell how many there were.
  // That of ALiBi far from all keys has too few digits left, as f32, to merge by.
  if (c.global_tokens != 0 || c.bias_kind == 2 || (c.alibi != 0 && std::abs(c.offset) > 10'000)) {
    c.parts = 0;
  }
  constexpr auto kF16 = static_cast<int64_t>(Dtype::kF16);
  if (c.dtype == kF16 || c.key_dtype == 1 + kF16 || c.output_dtype == 1 + kF16) {
    c.value_size = 0;
    c.sinks = std::min<int64_t>(c.sinks, 1);  // f16 has too few digits for tiny numbers
  }
}

}  // namespace

FuzzCase Valid(FuzzCase c) {
  // What the reference may cost: some 30 ms.
  while (c.query_len * c.kv_len * c.kv_heads * c.group * (c.dim + c.value_dim) > 20'000'000) {
    int64_t& longest = c.query_len > c.kv_len ? c.query_len : c.kv_len;
    longest /= 2;
  }
  DropWhatSimilarityRefuses(c);
  c.window_dilation = c.window > 0 ? std::max<int64_t>(c.window_dilation, 1) : 1;
  c.global_tokens = std::min(c.global_tokens, c.kv_len);
  c.poison = std::min(c.poison, c.kv_len);
  c.query_poison = std::min(c.query_poison, c.query_len);
  DropWhatALayerRefuses(c);
  DropWhatNeedsAnother(c);
  c.rotary = c.dim < 2 ? 0 : c.rotary;
  c.rotary_dim = c.rotary == 0 ? 0 : std::min(c.rotary_dim, c.dim) / 2 * 2;
  if (c.rotary != 0 && c.rotary_dim == 0 && c.dim % 2 != 0) {
    c.rotary_dim = c.dim - 1;
  }
  c.offset = c.has_offset != 0 ? c.offset : 0;
  return c;
}

FuzzCase MakeFuzzCase(uint64_t seed) {
  Random random(seed);
  FuzzCase c{.seed = static_cast<int64_t>(seed)};
  ChooseShape(random, c);
  ChooseKind(random, c);
  ChooseWay(random, c);
  if (c.layer != 0) {
    FitLayer(random, c);
  }
  return Valid(c);
}

std::string ToText(const FuzzCase& fuzz_case) {
  std::vector<std::string> parts;
  for (const Field& field : kFields) {
    if (fuzz_case.*field.value != FuzzCase().*field.value) {
      parts.push_back(absl::StrCat(field.name, "=", fuzz_case.*field.value));
    }
  }
  return absl::StrJoin(parts, ",");
}

std::optional<FuzzCase> ParseFuzzCase(const std::string& text) {
  FuzzCase result;
  const std::vector<std::string> parts = absl::StrSplit(text, ',', absl::SkipEmpty());
  for (const std::string& part : parts) {
    const std::vector<std::string> pair = absl::StrSplit(part, '=');
    const auto* field = std::find_if(std::begin(kFields), std::end(kFields),
                                     [&](const Field& f) { return f.name == pair[0]; });
    if (pair.size() != 2 || field == std::end(kFields) ||
        !absl::SimpleAtoi(pair[1], &(result.*field->value))) {
      return std::nullopt;
    }
  }
  return Valid(result);
}

std::vector<FuzzCase> SimplerCases(const FuzzCase& fuzz_case) {
  std::vector<FuzzCase> simpler;
  for (const Field& field : kFields) {
    const int64_t value = fuzz_case.*field.value;
    const int64_t simplest = FuzzCase().*field.value;
    for (const int64_t to : {simplest, simplest + (value - simplest) / 2, value - 1}) {
      FuzzCase candidate = fuzz_case;
      candidate.*field.value = to;
      candidate = Valid(candidate);
      if (value > simplest && to < value && ToText(candidate) != ToText(fuzz_case)) {
        simpler.push_back(candidate);
      }
    }
  }
  return simpler;
}

}  // namespace attention

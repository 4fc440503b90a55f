#include "tests/core/fuzz/fuzz_case.h"

#include <algorithm>
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
                             {"similarity", &FuzzCase::similarity},
                             {"causal", &FuzzCase::causal},
                             {"has_offset", &FuzzCase::has_offset},
                             {"offset", &FuzzCase::offset},
                             {"window", &FuzzCase::window},
                             {"window_right", &FuzzCase::window_right},
                             {"window_dilation", &FuzzCase::window_dilation},
                             {"prefix", &FuzzCase::prefix},
                             {"global_tokens", &FuzzCase::global_tokens},
                             {"mask", &FuzzCase::mask},
                             {"scale", &FuzzCase::scale},
                             {"softcap", &FuzzCase::softcap},
                             {"alibi", &FuzzCase::alibi},
                             {"bias", &FuzzCase::bias},
                             {"sinks", &FuzzCase::sinks},
                             {"query_norm", &FuzzCase::query_norm},
                             {"key_norm", &FuzzCase::key_norm},
                             {"rotary", &FuzzCase::rotary},
                             {"rotary_dim", &FuzzCase::rotary_dim},
                             {"poison", &FuzzCase::poison},
                             {"weights", &FuzzCase::weights},
                             {"log_sum_exp", &FuzzCase::log_sum_exp},
                             {"top_k", &FuzzCase::top_k},
                             {"padding", &FuzzCase::padding},
                             {"at_begin", &FuzzCase::at_begin},
                             {"threads", &FuzzCase::threads},
                             {"mates", &FuzzCase::mates},
                             {"block", &FuzzCase::block},
                             {"cancelled", &FuzzCase::cancelled},
                             {"cache", &FuzzCase::cache},
                             {"cache_cut", &FuzzCase::cache_cut},
                             {"query_cut", &FuzzCase::query_cut}};

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

void ChooseShape(Random& random, FuzzCase& c) {
  c.query_len = random.UpTo(400);
  c.kv_len = random.Rarely(20) ? random.UpTo(6000) : random.UpTo(1300);
  c.kv_heads = 1 + random.Below(3);
  c.group = random.OneOf({1, 1, 2, 3, 4, 7});
  c.dim = random.OneOf({1, 2, 8, 16, 17, 30, 32, 48, 64, 64, 80, 96, 100, 128, 200, 256, 500});
  c.value_dim = random.Rarely(2) ? c.dim : 1 + random.UpTo(150);
  c.dtype = random.OneOf({0, 0, 0, 1, 1, 2});
}

void ChooseKind(Random& random, FuzzCase& c) {
  c.similarity = random.OneOf({0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 4});
  c.causal = random.Below(2);
  c.has_offset = random.Rarely(4);
  c.offset = c.has_offset ? random.Below(c.kv_len + 120) - 60 : 0;
  c.window = random.Rarely(3) ? random.UpTo(700) : 0;
  c.window_right = random.Rarely(5) ? random.UpTo(300) : 0;
  c.window_dilation = c.window > 0 && random.Rarely(3) ? 1 + random.UpTo(80) : 1;
  c.prefix = random.Rarely(5) ? random.UpTo(200) : 0;
  c.global_tokens = random.Rarely(6) ? random.Below(6) : 0;
  c.mask = random.Rarely(5);
  c.scale = random.Rarely(5) ? 1 + random.Below(3) : 0;
  c.softcap = random.Rarely(6) ? 1 + random.Below(30) : 0;
  c.alibi = random.Rarely(6);
  c.bias = random.Rarely(5) ? 1 + random.Below(2) : 0;
  c.sinks = random.Rarely(6);
  c.query_norm = random.Rarely(6);
  c.key_norm = random.Rarely(6);
  c.rotary = random.Rarely(4) ? 1 + random.Below(2) : 0;
  c.rotary_dim = random.Rarely(2) ? 2 * random.Below(c.dim) : 0;
  c.poison = random.Rarely(8) ? 1 + random.Below(std::max<int64_t>(c.kv_len, 1)) : 0;
}

void ChooseWay(Random& random, FuzzCase& c) {
  c.weights = random.Rarely(4);
  c.log_sum_exp = random.Rarely(3);
  c.top_k = random.Rarely(5) ? 1 + random.Below(5) : 0;
  c.padding = random.Rarely(2) ? random.Below(20) : 0;
  c.at_begin = random.Rarely(4);
  c.threads = 1 + random.Below(4);
  c.mates = random.Below(3);
  c.block = random.Rarely(3) ? random.OneOf({1, 64, 128, 200}) : 0;
  c.cancelled = random.Rarely(4);
  c.cache = random.Rarely(3) ? 1 + random.Below(3) : 0;
  c.cache_cut = random.OneOf({0, 1, 7, 64, 100, 511});
  c.query_cut = random.Rarely(3) ? random.OneOf({1, 5, 8, 9, 64, 70}) : 0;
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
    c.cache = std::min<int64_t>(c.cache, 1);
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
  c.poison = c.cache == 3 ? 0 : std::min(c.poison, c.kv_len);
  c.rotary = c.dim < 2 ? 0 : c.rotary;
  c.rotary_dim = c.rotary == 0 ? 0 : std::min(c.rotary_dim, c.dim) / 2 * 2;
  if (c.rotary != 0 && c.rotary_dim == 0 && c.dim % 2 != 0) {
    c.rotary_dim = c.dim - 1;
  }
  c.cache_cut = c.cache == 0 ? 0 : c.cache_cut;
  if (c.query_cut != 0) {
    c.weights = c.log_sum_exp = c.top_k = 0;
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

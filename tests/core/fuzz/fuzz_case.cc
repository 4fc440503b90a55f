#include "tests/core/fuzz/fuzz_case.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

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
                             {"layer_weights", &FuzzCase::layer_weights},
                             {"layer_dtype", &FuzzCase::layer_dtype},
                             {"stored_dtype", &FuzzCase::stored_dtype},
                             {"transposed", &FuzzCase::transposed},
                             {"stored_padding", &FuzzCase::stored_padding},
                             {"shared_rotations", &FuzzCase::shared_rotations},
                             {"extra_keys", &FuzzCase::extra_keys},
                             {"residual", &FuzzCase::residual},
                             {"slices", &FuzzCase::slices},
                             {"cache", &FuzzCase::cache},
                             {"cache_cut", &FuzzCase::cache_cut},
                             {"cache_history", &FuzzCase::cache_history},
                             {"cache_budget", &FuzzCase::cache_budget},
                             {"small_pages", &FuzzCase::small_pages},
                             {"grows", &FuzzCase::grows},
                             {"query_cut", &FuzzCase::query_cut},
                             {"parts", &FuzzCase::parts}};

}  // namespace

double ValueSize(const FuzzCase& fuzz_case) {
  constexpr double kSizes[] = {1, 0x1p-60, 0x1p60};
  return kSizes[fuzz_case.value_size];
}

int64_t NumExtraKeys(const FuzzCase& fuzz_case) {
  constexpr int64_t kCounts[] = {0, 1, 1, 2};
  return kCounts[fuzz_case.extra_keys];
}

bool NeedsLayer(const FuzzCase& c) {
  return c.layer_weights != 0 || c.layer_dtype != 0 || c.extra_keys != 0 || c.residual != 0;
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

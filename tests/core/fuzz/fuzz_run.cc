#include "tests/core/fuzz/fuzz_run.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/attention/kv_cache.h"
#include "core/runtime/status_macros.h"
#include "tests/core/fuzz/fuzz_problem.h"
#include "tests/support/golden.h"

namespace attention {
namespace {

/// What one way of computing leaves.
struct Answer {
  Tensor output;
  std::vector<double> weights, log_sum_exp, top_weights;
  bool has_clean_padding = true;
};

std::vector<double> Doubles(const float* values, int64_t count) { return {values, values + count}; }

class Computation {
 public:
  Computation(FuzzProblem& problem, const FuzzCase& way)
      : problem_(problem), way_(way), pool_(static_cast<int>(way.threads)), workspace_(pool_) {}

  absl::StatusOr<Answer> Run() {
    if (way_.cache != 0) {
      RETURN_IF_ERROR(FillCache());
    }
    const reference::Extents& e = problem_.extents();
    Reserve();
    if (way_.cancelled != 0) {
      RunRows(0, e.query_len, /*is_cancelled=*/true).IgnoreError();
    }
    const int64_t step = way_.query_cut == 0 ? std::max<int64_t>(e.query_len, 1) : way_.query_cut;
    for (int64_t row = 0; row == 0 || row < e.query_len; row += step) {
      RETURN_IF_ERROR(RunRows(row, std::min(step, e.query_len - row), /*is_cancelled=*/false));
    }
    return Result();
  }

 private:
  absl::Status FillCache() {
    const reference::Extents& e = problem_.extents();
    constexpr KeyValueStorage kStorages[] = {KeyValueStorage::kF32, KeyValueStorage::kBf16,
                                             KeyValueStorage::kInt8};
    ASSIGN_OR_RETURN(KvCache cache, KvCache::Create({e.num_kv_heads, e.head_dim, e.value_head_dim,
                                                     kStorages[way_.cache - 1]}));
    cache_.emplace(std::move(cache));
    const KeyPreparation preparation{problem_.options().key_norm, problem_.options().rotary};
    const int64_t step = way_.cache_cut == 0 ? std::max<int64_t>(e.kv_len, 1) : way_.cache_cut;
    for (int64_t key = 0; key < e.kv_len; key += step) {
      const int64_t count = std::min(step, e.kv_len - key);
      RETURN_IF_ERROR(cache_->Append(SliceTokens(problem_.key(), key, count),
                                     SliceTokens(problem_.value(), key, count), preparation));
    }
    return absl::OkStatus();
  }

  float* NewFloats(int64_t count) {
    return reinterpret_cast<float*>(
        problem_.NewMemory(count * static_cast<int64_t>(sizeof(float))));
  }

  void Reserve() {
    const reference::Extents& e = problem_.extents();
    const int64_t rows = e.num_heads * e.query_len;
    output_ = problem_.NewHeads(e.query_len, e.num_heads, e.value_head_dim);
    weights_ = way_.weights != 0 ? NewFloats(rows * e.kv_len) : nullptr;
    log_sum_exp_ = way_.log_sum_exp != 0 ? NewFloats(rows) : nullptr;
    if (way_.top_k > 0) {
      top_ = {way_.top_k, NewFloats(rows * way_.top_k),
              reinterpret_cast<int32_t*>(NewFloats(rows * way_.top_k))};
    }
  }

  AttentionSequence SequenceOf(int64_t row, int64_t count) const {
    const reference::Extents& e = problem_.extents();
    AttentionSequence sequence{.query = SliceTokens(problem_.query(), row, count),
                               .key = problem_.key(),
                               .value = problem_.value(),
                               .output = SliceTokens(output_, row, count),
                               .weights = weights_,
                               .top_weights = top_,
                               .log_sum_exp = log_sum_exp_,
                               .options = problem_.options()};
    if (cache_.has_value()) {
      sequence.key = sequence.value = {};
      sequence.cache = &*cache_;
    }
    AttentionOptions& options = sequence.options;
    if (row > 0 || count < e.query_len) {
      options.query_offset = options.query_offset.value_or(e.kv_len - e.query_len) + row;
    }
    const auto skip = [row](auto& view) {
      view.data = view.data == nullptr ? nullptr : view.Row(0, row);
    };
    skip(options.bias);
    skip(options.mask);
    return sequence;
  }

  /// Another sequence of the batch, with another kind of attention.
  AttentionSequence MateOf(int64_t tokens) {
    const reference::Extents& e = problem_.extents();
    const auto zeros = [&](int64_t heads, int64_t width) {
      const MutableHeadsView view = problem_.NewHeads(tokens, heads, width);
      std::memset(view.data, 0,
                  ((tokens - 1) * view.token_stride + heads * width) * SizeOf(view.dtype));
      return HeadsView{view.data,     view.dtype,        view.tokens,     view.num_heads,
                       view.head_dim, view.token_stride, view.head_stride};
    };
    return {.query = zeros(e.num_heads, e.head_dim),
            .key = zeros(e.num_kv_heads, e.head_dim),
            .value = zeros(e.num_kv_heads, e.value_head_dim),
            .output = problem_.NewHeads(tokens, e.num_heads, e.value_head_dim),
            .options = {.causal = true}};
  }

  absl::Status RunRows(int64_t row, int64_t count, bool is_cancelled) {
    std::vector<AttentionSequence> batch = {SequenceOf(row, count)};
    if (way_.mates > 0) {
      batch.insert(batch.begin(), MateOf(70));
    }
    if (way_.mates > 1) {
      batch.push_back(MateOf(9));
    }
    RowsCallback on_rows;
    if (way_.block > 0 || is_cancelled) {
      on_rows = [is_cancelled](const RowRange&) { return !is_cancelled; };
    }
    return ScaledDotProductAttention(batch, workspace_, on_rows, way_.block > 0 ? way_.block : 64);
  }

  Answer Result() const {
    const reference::Extents& e = problem_.extents();
    const int64_t rows = e.num_heads * e.query_len;
    const HeadsView output{output_.data,       output_.dtype,    output_.tokens,
                           output_.num_heads,  output_.head_dim, output_.token_stride,
                           output_.head_stride};
    Answer answer{.output = FuzzProblem::Dense(output),
                  .has_clean_padding = FuzzProblem::HasCleanPadding(output)};
    if (weights_ != nullptr) {
      answer.weights = Doubles(weights_, rows * e.kv_len);
    }
    if (log_sum_exp_ != nullptr) {
      answer.log_sum_exp = Doubles(log_sum_exp_, rows);
    }
    if (top_.k > 0) {
      answer.top_weights = Doubles(top_.weights, rows * top_.k);
    }
    return answer;
  }

  FuzzProblem& problem_;
  const FuzzCase& way_;
  ThreadPool pool_;
  Workspace workspace_;
  std::optional<KvCache> cache_;
  MutableHeadsView output_;
  float* weights_ = nullptr;
  float* log_sum_exp_ = nullptr;
  TopWeights top_;
};

/// The same question, computed in the simplest way that promises the same bits.
FuzzCase Alone(const FuzzCase& c) {
  FuzzCase alone = c;
  alone.threads = 1;
  alone.mates = alone.block = alone.cancelled = alone.cache_cut = alone.query_cut = 0;
  if (c.cache == 1 && static_cast<Dtype>(c.dtype) != Dtype::kBf16) {
    alone.cache = 0;
  }
  return alone;
}

/// Largest relative L2 error, of many N(0, 1) rows.
double ToleranceOf(const FuzzCase& c) {
  double tolerance = reference::kAttentionToleranceF32;
  if (c.scale == 3 || c.key_norm != 0 || c.query_norm != 0) {
    tolerance = 2e-6;  // larger logits
  }
  if (static_cast<Dtype>(c.dtype) == Dtype::kF16) {
    tolerance = 5e-4;
  }
  if (static_cast<Dtype>(c.dtype) == Dtype::kBf16) {
    tolerance = reference::kAttentionToleranceBf16;
  }
  constexpr double kOfStorage[] = {0, 0, 5e-3, 3e-2};
  const double larger_logits = c.scale == 3 || c.key_norm != 0 ? 4 : 1;
  return std::max(tolerance, larger_logits * kOfStorage[c.cache]);
}

/// The sum of few values may cancel: what it is compared with then are the values themselves.
bool IsClose(const std::vector<double>& actual, const std::vector<double>& expected,
             double tolerance) {
  const double error = reference::RelativeL2(actual, expected);
  const auto count = static_cast<double>(actual.size());
  if (error <= tolerance * (1 + 40 / std::sqrt(count + 1))) {
    return true;
  }
  double difference = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    if (std::isfinite(expected[i])) {
      difference = std::max(difference, std::abs(actual[i] - expected[i]));
    }
  }
  return count < 1024 && difference <= 4 * tolerance;
}

bool AreClose(const std::vector<double>& actual, const std::vector<double>& expected,
              double tolerance) {
  for (size_t i = 0; i < actual.size(); ++i) {
    const double bound = tolerance * std::max(1.0, std::abs(expected[i]));
    if (actual[i] != expected[i] && !(std::abs(actual[i] - expected[i]) <= bound) &&
        !std::isnan(expected[i])) {
      return false;
    }
  }
  return true;
}

std::string Compare(const FuzzCase& c, const Answer& answer, const Answer& alone,
                    const reference::AttentionResult& expected) {
  const std::vector<double> output = ToDoubles(answer.output);
  if (!IsClose(output, expected.output, ToleranceOf(c))) {
    return absl::StrCat("output: expected a relative L2 error of at most ", ToleranceOf(c),
                        ", found ", reference::RelativeL2(output, expected.output));
  }
  if (answer.output.size_bytes() > 0 &&
      std::memcmp(answer.output.data(), alone.output.data(), answer.output.size_bytes()) != 0) {
    return "output: expected the bits of the same sequence alone, found others";
  }
  if (!answer.has_clean_padding) {
    return "output: expected nothing written between its tokens, found something";
  }
  const bool is_exact = c.cache <= 1;
  if (!answer.weights.empty() && is_exact && !IsClose(answer.weights, expected.weights, 4e-6)) {
    return absl::StrCat("weights: expected a relative L2 error of at most 4e-6, found ",
                        reference::RelativeL2(answer.weights, expected.weights));
  }
  const double lse_tolerance =
      is_exact && static_cast<Dtype>(c.dtype) != Dtype::kBf16 ? 1e-5 : 2e-1;
  if (!answer.log_sum_exp.empty() &&
      !AreClose(answer.log_sum_exp, expected.log_sum_exp, lse_tolerance)) {
    return "log_sum_exp: expected that of the reference, found another";
  }
  if (answer.weights != alone.weights || answer.top_weights != alone.top_weights) {
    return "weights: expected the bits of the same sequence alone, found others";
  }
  return "";
}

}  // namespace

std::string RunFuzzCase(const FuzzCase& c) {
  FuzzProblem problem(c);
  const FuzzCase alone_case = Alone(c);
  const absl::StatusOr<Answer> alone = Computation(problem, alone_case).Run();
  const absl::StatusOr<Answer> answer = Computation(problem, c).Run();
  if (!alone.ok() || !answer.ok()) {
    return absl::StrCat("expected an answer, found ",
                        (alone.ok() ? answer.status() : alone.status()).ToString());
  }
  return Compare(c, *answer, *alone, problem.Expected());
}

}  // namespace attention

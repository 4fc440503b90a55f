#include "tests/core/fuzz/fuzz_answer.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "core/attention/kv_cache.h"
#include "core/attention/merge.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

std::vector<double> Doubles(const float* values, int64_t count) { return {values, values + count}; }

class Computation {
 public:
  Computation(FuzzProblem& problem, const FuzzCase& way)
      : problem_(problem), way_(way), pool_(static_cast<int>(way.threads)), workspace_(pool_) {}

  absl::StatusOr<Answer> Run() {
    if (way_.cache != 0) {
      RETURN_IF_ERROR(MakeCache());
    }
    const reference::Extents& e = problem_.extents();
    Reserve();
    if (way_.cancelled != 0) {
      RunRows(0, e.query_len, /*is_cancelled=*/true).IgnoreError();
    }
    const int64_t step = way_.query_cut == 0 ? std::max<int64_t>(e.query_len, 1) : way_.query_cut;
    for (int64_t row = 0; row == 0 || row < e.query_len; row += step) {
      const int64_t count = std::min(step, e.query_len - row);
      if (way_.grows != 0) {
        RETURN_IF_ERROR(FillCache(*cache_, e.kv_len - e.query_len + row + count));
      }
      RETURN_IF_ERROR(RunRows(row, count, /*is_cancelled=*/false));
    }
    return Result();
  }

 private:
  KvCacheShape ShapeOfCache() const {
    constexpr KeyValueStorage kStorages[] = {KeyValueStorage::kF32, KeyValueStorage::kBf16,
                                             KeyValueStorage::kInt8};
    const reference::Extents& e = problem_.extents();
    KvCacheShape shape{e.num_kv_heads, e.head_dim, e.value_head_dim, kStorages[way_.cache - 1]};
    shape.page_tokens = way_.small_pages != 0 ? 512 : shape.page_tokens;
    return shape;
  }

  absl::Status MakeCache() {
    ASSIGN_OR_RETURN(KvCache cache, KvCache::Create(ShapeOfCache()));
    cache_.emplace(std::move(cache));
    const int64_t kv_len = problem_.extents().kv_len;
    switch (way_.grows != 0 ? -1 : way_.cache_history) {
      case -1:
        return FillCache(*cache_, kv_len - problem_.extents().query_len);
      case 1:
        RETURN_IF_ERROR(FillCache(*cache_, kv_len));
        RETURN_IF_ERROR(AppendJunk(*cache_));
        return cache_->Truncate(kv_len);
      case 2:
        RETURN_IF_ERROR(FillCache(*cache_, kv_len / 2));
        original_.emplace(std::move(*cache_));
        cache_.emplace(original_->Fork());
        RETURN_IF_ERROR(AppendJunk(*original_));
        return FillCache(*cache_, kv_len);
      case 3:
        RETURN_IF_ERROR(FillCache(*cache_, kv_len));
        RETURN_IF_ERROR(AppendJunk(*cache_));
        original_.emplace(std::move(*cache_));
        cache_.emplace(original_->ForkFirst(kv_len));
        return absl::OkStatus();
      case 4:
        RETURN_IF_ERROR(AppendJunk(*cache_));
        RETURN_IF_ERROR(cache_->Truncate(0));
        return FillCache(*cache_, kv_len);
      default:
        return FillCache(*cache_, kv_len);
    }
  }

  /// Appends the problem's keys up to `end`.
  absl::Status FillCache(KvCache& cache, int64_t end) {
    const KeyPreparation preparation{problem_.options().key_norm, problem_.options().rotary};
    const int64_t step = way_.cache_cut == 0 ? std::max<int64_t>(end, 1) : way_.cache_cut;
    while (cache.length() < end) {
      const int64_t key = cache.length();
      const int64_t count = std::min(step, end - key);
      RETURN_IF_ERROR(cache.Append(SliceTokens(problem_.key(), key, count),
                                   SliceTokens(problem_.value(), key, count), preparation));
    }
    return absl::OkStatus();
  }

  /// Appends tokens that are not numbers.
  absl::Status AppendJunk(KvCache& cache) {
    const reference::Extents& e = problem_.extents();
    constexpr int64_t kTokens = 70;
    return cache.Append(Rows(kTokens, e.num_kv_heads, e.head_dim, true),
                        Rows(kTokens, e.num_kv_heads, e.value_head_dim, true));
  }

  /// Rows of zeros, or of NaN.
  HeadsView Rows(int64_t tokens, int64_t heads, int64_t width, bool is_nan) {
    const MutableHeadsView view = problem_.NewHeads(tokens, heads, width);
    const std::vector<float> row(heads * width,
                                 is_nan ? std::numeric_limits<float>::quiet_NaN() : 0.0f);
    for (int64_t t = 0; t < tokens; ++t) {
      Convert(Dtype::kF32, row.data(), view.dtype,
              ElementAt(view.data, view.dtype, t * view.token_stride), heads * width);
    }
    return {view.data,     view.dtype,        view.tokens,     view.num_heads,
            view.head_dim, view.token_stride, view.head_stride};
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
    if (row > 0 || count < e.query_len || way_.grows != 0) {
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
  AttentionSequence MateOf(int64_t rows, int64_t keys) {
    const reference::Extents& e = problem_.extents();
    const bool is_nan = way_.bad_mates != 0;
    return {.query = Rows(rows, e.num_heads, e.head_dim, is_nan),
            .key = Rows(keys, e.num_kv_heads, e.head_dim, is_nan),
            .value = Rows(keys, e.num_kv_heads, e.value_head_dim, is_nan),
            .output = problem_.NewHeads(rows, e.num_heads, e.value_head_dim),
            .options = {.causal = true}};
  }

  /// One whose keys are in a cache of 8 bits.
  absl::StatusOr<AttentionSequence> CachedMate() {
    AttentionSequence mate = MateOf(3, 70);
    if (!mate_cache_.has_value()) {
      const reference::Extents& e = problem_.extents();
      ASSIGN_OR_RETURN(KvCache cache, KvCache::Create({e.num_kv_heads, e.head_dim, e.value_head_dim,
                                                       KeyValueStorage::kInt8}));
      mate_cache_.emplace(std::move(cache));
      RETURN_IF_ERROR(mate_cache_->Append(mate.key, mate.value));
    }
    mate.key = mate.value = {};
    mate.cache = &*mate_cache_;
    return mate;
  }

  absl::Status RunRows(int64_t row, int64_t count, bool is_cancelled) {
    std::vector<AttentionSequence> batch = {SequenceOf(row, count)};
    if (way_.mates > 0) {
      batch.insert(batch.begin(), MateOf(70, 70));
    }
    if (way_.mates > 1) {
      batch.push_back(MateOf(9, 9));
    }
    if (way_.mates > 2) {
      batch.insert(batch.begin() + 1, {MateOf(0, 20), MateOf(20, 0)});
      batch.push_back(MateOf(0, 0));
    }
    if (way_.mates > 3) {
      ASSIGN_OR_RETURN(const AttentionSequence mate, CachedMate());
      batch.push_back(mate);
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
      answer.top_keys = {top_.keys, top_.keys + rows * top_.k};
    }
    return answer;
  }

  FuzzProblem& problem_;
  const FuzzCase& way_;
  ThreadPool pool_;
  Workspace workspace_;
  std::optional<KvCache> cache_, original_, mate_cache_;
  MutableHeadsView output_;
  float* weights_ = nullptr;
  float* log_sum_exp_ = nullptr;
  TopWeights top_;
};

}  // namespace

absl::StatusOr<Answer> Compute(FuzzProblem& problem, const FuzzCase& way) {
  return Computation(problem, way).Run();
}

FuzzCase Alone(const FuzzCase& c) {
  FuzzCase alone = c;
  alone.threads = 1;
  alone.mates = alone.block = alone.cancelled = alone.cache_cut = alone.query_cut = 0;
  alone.bad_mates = alone.cache_history = alone.small_pages = alone.grows = 0;
  alone.weights = c.weights != 0 || c.top_k > 0 ? 1 : 0;
  if (c.cache == 1 && static_cast<Dtype>(c.dtype) != Dtype::kBf16) {
    alone.cache = 0;
  }
  return alone;
}

std::vector<double> MergedParts(const FuzzProblem& problem, const FuzzCase& c) {
  const reference::Extents& e = problem.extents();
  ThreadPool pool(static_cast<int>(c.threads));
  Workspace workspace(pool);
  const int64_t elements = e.query_len * e.num_heads * e.value_head_dim;
  const int64_t rows = e.query_len * e.num_heads;
  std::vector<std::vector<float>> outputs(c.parts, std::vector<float>(elements));
  std::vector<std::vector<float>> log_sum_exps(c.parts, std::vector<float>(rows));
  std::vector<PartialResult> results;
  for (int64_t part = 0; part < c.parts; ++part) {
    const int64_t first = e.kv_len * part / c.parts;
    const int64_t count = e.kv_len * (part + 1) / c.parts - first;
    AttentionSequence sequence{
        .query = problem.query(),
        .key = SliceTokens(problem.key(), first, count),
        .value = SliceTokens(problem.value(), first, count),
        .output = DenseHeads(static_cast<void*>(outputs[part].data()), Dtype::kF32, e.query_len,
                             e.num_heads, e.value_head_dim),
        .log_sum_exp = log_sum_exps[part].data(),
        .options = problem.options()};
    AttentionOptions& options = sequence.options;
    options.query_offset = options.query_offset.value_or(e.kv_len - e.query_len) - first;
    options.prefix = std::max<int64_t>(options.prefix - first, 0);
    options.sinks = {};
    const auto skip = [first](auto& view) {
      view.data = view.data == nullptr ? nullptr : view.data + first;
    };
    skip(options.bias);
    skip(options.mask);
    if (options.rotary.has_value()) {
      options.rotary->position_offset += first;
    }
    if (!ScaledDotProductAttention({&sequence, 1}, workspace).ok()) {
      return {};
    }
    results.push_back({outputs[part].data(), log_sum_exps[part].data()});
  }
  std::vector<float> merged(elements);
  MergePartials({e.query_len, e.num_heads, e.value_head_dim}, results, problem.options().sinks,
                {merged.data()});
  return {merged.begin(), merged.end()};
}

}  // namespace attention

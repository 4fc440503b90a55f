#include "tests/core/fuzz/fuzz_answer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/attention/kv_cache.h"
#include "core/attention/merge.h"
#include "core/runtime/status_macros.h"
#include "tests/core/fuzz/fuzz_cache.h"
#include "tests/core/fuzz/fuzz_layer.h"
#include "tests/core/fuzz/fuzz_mates.h"

namespace attention {
namespace {

float* NewFloats(FuzzProblem& problem, int64_t count) {
  return reinterpret_cast<float*>(problem.NewMemory(count * static_cast<int64_t>(sizeof(float))));
}

/// Copies rows [num_heads, count, width] of one call to rows from `row` on of all calls'
/// [num_heads, query_len, all_width].
struct RowsOfCall {
  int64_t num_heads, query_len, row, count;

  template <typename T>
  void Copy(const T* from, int64_t width, int64_t all_width, std::vector<double>& to) const {
    for (int64_t i = 0; from != nullptr && i < num_heads * count; ++i) {
      const int64_t target = i / count * query_len + row + i % count;
      std::copy_n(from + i * width, width, to.begin() + target * all_width);
    }
  }
};

class Computation {
 public:
  Computation(FuzzProblem& problem, const FuzzCase& way)
      : problem_(problem),
        way_(way),
        pool_(static_cast<int>(way.threads)),
        workspace_(pool_),
        cache_(problem, way),
        mates_(problem, way),
        layer_(problem, way) {}

  absl::StatusOr<Answer> Run() {
    const reference::Extents& e = problem_.extents();
    if (way_.cache != 0) {
      RETURN_IF_ERROR(cache_.Make(appends() ? e.kv_len - e.query_len : e.kv_len));
    }
    RETURN_IF_ERROR(way_.layer != 0 ? layer_.Make() : mates_.Make());
    Reserve();
    if (way_.cancelled != 0) {
      RunRows(0, e.query_len, /*is_cancelled=*/true).IgnoreError();
      RETURN_IF_ERROR(way_.cache == 0 || !appends()
                          ? absl::OkStatus()
                          : cache_.cache().Truncate(e.kv_len - e.query_len));
    }
    const int64_t step = way_.query_cut == 0 ? std::max<int64_t>(e.query_len, 1) : way_.query_cut;
    for (int64_t row = 0; row == 0 || row < e.query_len; row += step) {
      const int64_t count = std::min(step, e.query_len - row);
      if (way_.grows != 0) {
        RETURN_IF_ERROR(cache_.AppendUntil(KeysUntil(row + count)));
      }
      RETURN_IF_ERROR(RunRows(row, count, /*is_cancelled=*/false));
    }
    answer_.output = FuzzProblem::Dense(ReadOnly(output_));
    answer_.has_clean_padding = FuzzProblem::HasCleanPadding(output_);
    return std::move(answer_);
  }

 private:
  /// Whether the keys of a call's rows are appended to the cache for it.
  bool appends() const { return way_.grows != 0 || way_.layer == 2; }
  int64_t KeysUntil(int64_t end_row) const {
    const reference::Extents& e = problem_.extents();
    return appends() ? e.kv_len - e.query_len + end_row : e.kv_len;
  }
  /// The columns of the weights of a call whose last row is before `end_row`.
  int64_t WeightsUntil(int64_t end_row) const {
    return KeysUntil(end_row) + problem_.num_keys() - problem_.extents().kv_len;
  }

  void Reserve() {
    const reference::Extents& e = problem_.extents();
    const int64_t rows = e.num_heads * e.query_len;
    output_ =
        problem_.NewHeads(problem_.output_dtype(), e.query_len, e.num_heads, e.value_head_dim);
    answer_.weights.resize(way_.weights != 0 ? rows * problem_.num_keys() : 0);
    answer_.log_sum_exp.resize(way_.log_sum_exp != 0 ? rows : 0);
    answer_.top_weights.resize(rows * way_.top_k);
    answer_.top_keys.resize(rows * way_.top_k);
  }

  AttentionSequence SequenceOf(int64_t row, int64_t count) {
    const reference::Extents& e = problem_.extents();
    const int64_t rows = e.num_heads * count;
    AttentionSequence sequence{.query = SliceTokens(problem_.query(), row, count),
                               .key = problem_.key(),
                               .value = problem_.value(),
                               .output = SliceTokens(output_, row, count),
                               .options = problem_.options()};
    if (way_.cache != 0) {
      sequence.key = sequence.value = {};
      sequence.cache = &cache_.cache();
    }
    if (way_.weights != 0) {
      sequence.weights = NewFloats(problem_, rows * WeightsUntil(row + count));
    }
    if (way_.log_sum_exp != 0) {
      sequence.log_sum_exp = NewFloats(problem_, rows);
    }
    if (way_.top_k > 0) {
      sequence.top_weights = {way_.top_k, NewFloats(problem_, rows * way_.top_k),
                              reinterpret_cast<int32_t*>(NewFloats(problem_, rows * way_.top_k))};
    }
    AttentionOptions& options = sequence.options;
    if (row > 0 || count < e.query_len || appends()) {
      options.query_offset = options.query_offset.value_or(e.kv_len - e.query_len) + row;
    }
    const auto skip = [row](auto& view) {
      view.data = view.data == nullptr ? nullptr : view.Row(0, row);
    };
    skip(options.bias);
    skip(options.mask);
    return sequence;
  }

  absl::Status RunBatch(const AttentionSequence& sequence, int64_t row, bool is_cancelled) {
    if (way_.layer != 0) {
      KvCache* cache = way_.cache != 0 ? &cache_.cache() : nullptr;
      if (way_.cache_budget != 0) {
        RETURN_IF_ERROR(cache_.budget().ExpectRefusal(
            *cache, [&] { return layer_.RunTooLong(*cache, workspace_); }));
      }
      return layer_.Run({sequence, row, cache, is_cancelled}, workspace_);
    }
    AttentionStages stages{.block_rows = way_.block > 0 ? way_.block : 64};
    if (way_.block > 0 || is_cancelled) {
      stages.on_rows = [is_cancelled](const RowRange&) { return !is_cancelled; };
    }
    if (way_.slices != 0) {
      stages.slices = {[] { return true; }, 1};
    }
    return ScaledDotProductAttention(mates_.BatchWith(sequence), workspace_, stages);
  }

  absl::Status RunRows(int64_t row, int64_t count, bool is_cancelled) {
    const AttentionSequence sequence = SequenceOf(row, count);
    RETURN_IF_ERROR(RunBatch(sequence, row, is_cancelled));
    const reference::Extents& e = problem_.extents();
    const RowsOfCall rows{e.num_heads, e.query_len, row, count};
    rows.Copy(sequence.weights, WeightsUntil(row + count), problem_.num_keys(), answer_.weights);
    rows.Copy(sequence.log_sum_exp, 1, 1, answer_.log_sum_exp);
    rows.Copy(sequence.top_weights.weights, way_.top_k, way_.top_k, answer_.top_weights);
    rows.Copy(sequence.top_weights.keys, way_.top_k, way_.top_k, answer_.top_keys);
    return absl::OkStatus();
  }

  FuzzProblem& problem_;
  const FuzzCase& way_;
  ThreadPool pool_;
  Workspace workspace_;
  FuzzCache cache_;
  FuzzMates mates_;
  FuzzLayer layer_;
  MutableHeadsView output_;
  Answer answer_;
};

}  // namespace

absl::StatusOr<Answer> Compute(FuzzProblem& problem, const FuzzCase& way) {
  return Computation(problem, way).Run();
}

FuzzCase Alone(const FuzzCase& c) {
  FuzzCase alone = c;
  alone.threads = 1;
  alone.mates = alone.block = alone.cancelled = alone.cache_cut = alone.query_cut = 0;
  alone.bad_mates = alone.cache_history = alone.cache_budget = 0;
  alone.small_pages = alone.grows = alone.slices = 0;
  alone.transposed = alone.stored_padding = alone.shared_rotations = 0;
  alone.residual = std::min<int64_t>(c.residual, 1);
  alone.weights = c.weights != 0 || c.top_k > 0 ? 1 : 0;
  if (!NeedsLayer(c)) {
    alone.layer = 0;
  }
  // An uncached layer of bf16 weights rounds keys to bf16, and knows the keys of its rows only.
  const bool may_be_uncached =
      alone.layer == 0 ||
      (c.layer_dtype != static_cast<int64_t>(WeightsDtype::kBf16) && c.query_len == c.kv_len);
  if (c.cache == 1 && c.key_dtype == 0 && static_cast<Dtype>(c.dtype) != Dtype::kBf16 &&
      may_be_uncached) {
    alone.cache = 0;
  }
  return alone;
}

absl::StatusOr<MergedAnswer> MergedParts(const FuzzProblem& problem, const FuzzCase& c) {
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
    std::optional<KvCache> cache;
    if (c.cache != 0) {
      ASSIGN_OR_RETURN(KvCache made, KvCache::Create({e.num_kv_heads, e.head_dim, e.value_head_dim,
                                                      problem.storage()}));
      cache.emplace(std::move(made));
      RETURN_IF_ERROR(
          cache->Append(sequence.key, sequence.value, {options.key_norm, options.rotary}));
      sequence.key = sequence.value = {};
      sequence.cache = &*cache;
    }
    RETURN_IF_ERROR(ScaledDotProductAttention({&sequence, 1}, workspace));
    results.push_back({outputs[part].data(), log_sum_exps[part].data()});
  }
  std::vector<float> output(elements);
  std::vector<float> log_sum_exp(rows);
  MergePartials({e.query_len, e.num_heads, e.value_head_dim}, results, problem.options().sinks,
                {output.data(), log_sum_exp.data()});
  return MergedAnswer{{output.begin(), output.end()}, {log_sum_exp.begin(), log_sum_exp.end()}};
}

}  // namespace attention

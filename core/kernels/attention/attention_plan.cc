#include "core/kernels/attention/attention_plan.h"

#include <algorithm>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "absl/hash/hash.h"
#include "core/runtime/mutex.h"

namespace attention {
namespace {

int64_t PanelColumnsOf(Dtype compute, int64_t value_width) {
  const bool divides =
      compute == Dtype::kF32 && PanelColumns() < kKeyBlock && value_width % PanelColumns() == 0;
  return divides ? PanelColumns() : value_width;
}

/// The plans, which the whole process shares, as it does the kernels. Never destroyed.
struct PlanCache {
  Mutex mutex;
  using Key = std::tuple<Dtype, int64_t, int64_t>;
  std::unordered_map<Key, std::unique_ptr<AttentionPlan>, absl::Hash<Key>> plans
      ABSL_GUARDED_BY(mutex);
};

PlanCache& Plans() {
  static PlanCache& cache = *new PlanCache;  // never destroyed
  return cache;
}

void ForgetAllKernels() {
  PlanCache& cache = Plans();
  MutexLock lock(cache.mutex);
  for (const auto& [_, plan] : cache.plans) {
    plan->ForgetKernels();
  }
}

}  // namespace

const AttentionPlan& AttentionPlan::Get(Dtype compute, int64_t head_dim, int64_t value_head_dim) {
  PlanCache& cache = Plans();
  MutexLock lock(cache.mutex);
  const std::tuple key(compute, PaddedWidth(head_dim), PaddedWidth(value_head_dim));
  const auto found = cache.plans.find(key);
  if (found != cache.plans.end()) {
    return *found->second;
  }
  OnGemmEviction(ForgetAllKernels);
  auto plan = std::make_unique<AttentionPlan>(compute, head_dim, value_head_dim);
  return *cache.plans.emplace(key, std::move(plan)).first->second;
}

AttentionPlan::AttentionPlan(Dtype compute, int64_t head_dim, int64_t value_head_dim)
    : compute_(compute),
      depth_(PaddedWidth(head_dim)),
      value_width_(PaddedWidth(value_head_dim)),
      panel_columns_(PanelColumnsOf(compute, value_width_)) {}

void AttentionPlan::ForgetKernels() {
  const auto forget = [](auto& slots_by_keys) {
    for (auto& slots : slots_by_keys) {
      for (Slot& slot : slots) {
        slot.store(nullptr, std::memory_order_relaxed);
      }
    }
  };
  for (auto& slots : score_) {
    forget(slots);
  }
  for (auto* slots : {&first_sum_, &next_sum_, &first_panel_sum_, &next_panel_sum_,
                      &int8_first_sum_, &int8_next_sum_}) {
    forget(*slots);
  }
  for (Slot& slot : int8_score_) {
    slot.store(nullptr, std::memory_order_relaxed);
  }
}

int64_t AttentionPlan::PaddedRows(int64_t rows) {
  return rows > 2 ? RoundUp(rows, kRowStep) : rows;
}

const Gemm& AttentionPlan::Find(Slot& slot, const GemmShape& shape) {
  if (const Gemm* gemm = slot.load(std::memory_order_acquire); gemm != nullptr) {
    return *gemm;
  }
  const Gemm& gemm = FindGemm(shape);
  slot.store(&gemm, std::memory_order_release);
  return gemm;
}

GemmShape AttentionPlan::SumShape(int64_t padded_rows, int64_t keys, bool accumulate) const {
  return {.m = padded_rows,
          .n = value_width_,
          .k = keys,
          .lda = kScoreStride,
          .ldb = value_width_,
          .ldc = value_width_,
          .accumulate = accumulate,
          .dtype = compute_};
}

const Gemm& AttentionPlan::Score(int64_t padded_rows, int64_t keys, int64_t first_depth) const {
  return Find(score_[first_depth / kScoreChain][SizeIndex(padded_rows)][keys / kKeyStep - 1],
              {.m = padded_rows,
               .n = keys,
               .k = std::min(kScoreChain, depth_ - first_depth),
               .lda = depth_,
               .ldb = kKeyBlock,
               .ldc = kScoreStride,
               .accumulate = first_depth > 0,
               .dtype = compute_});
}

const Gemm& AttentionPlan::WeightedSum(int64_t padded_rows, int64_t keys, bool accumulate) const {
  auto& slots = accumulate ? next_sum_ : first_sum_;
  return Find(slots[SizeIndex(padded_rows)][keys / kKeyStep - 1],
              SumShape(padded_rows, keys, accumulate));
}

const Gemm& AttentionPlan::PanelSum(int64_t padded_rows, int64_t keys, bool accumulate) const {
  auto& slots = accumulate ? next_panel_sum_ : first_panel_sum_;
  GemmShape shape = SumShape(padded_rows, keys, accumulate);
  shape.n = shape.ldb = panel_columns_;
  return Find(slots[SizeIndex(padded_rows)][keys / kKeyStep - 1], shape);
}

const Gemm& AttentionPlan::Int8Score(int64_t padded_rows) const {
  return Find(int8_score_[SizeIndex(padded_rows)], {.m = padded_rows,
                                                    .n = kKeyBlock,
                                                    .k = depth_,
                                                    .lda = depth_,
                                                    .ldb = kKeyBlock,
                                                    .ldc = kScoreStride,
                                                    .int8 = true});
}

const Gemm& AttentionPlan::Int8WeightedSum(int64_t padded_rows, int64_t keys,
                                           bool accumulate) const {
  auto& slots = accumulate ? int8_next_sum_ : int8_first_sum_;
  GemmShape shape = SumShape(padded_rows, keys, accumulate);
  shape.int8 = true;
  return Find(slots[SizeIndex(padded_rows)][keys / kKeyStep - 1], shape);
}

}  // namespace attention

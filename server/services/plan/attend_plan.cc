#include "server/services/plan/attend_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace attention {

int64_t NumEncoderLayers(const ModelInfo& info) {
  const int64_t num_cross = std::count_if(info.layers.begin(), info.layers.end(),
                                          [](const ModelLayerInfo& l) { return l.is_cross; });
  return info.has_encoder ? std::ssize(info.layers) - 2 * num_cross : 0;
}

int64_t PlannedPrefix::CacheBytes(int64_t tokens) const {
  int64_t bytes = 0;
  for (const KvCacheShape& shape : shapes) {
    bytes += static_cast<int64_t>(KvCache::SizeBytes(shape, tokens));
  }
  return bytes;
}

int64_t AttendPlan::NumTables() const {
  const v1::AttentionOptions& asked = *options.wire;
  const int64_t of_a_sequence =
      (asked.return_weights() ? 1 : 0) + (asked.return_log_sum_exp() ? 1 : 0) +
      (asked.weights_top_k() > 0 ? 1 : 0) + std::ssize(weights_choice.layers);
  return of_a_sequence * std::ssize(sequences);
}

WeightsExtents AttendPlan::WeightsOf(int64_t layer, const PlannedSequence& sequence) const {
  const ModelInfo& info = model->info();
  const int64_t heads = weights_choice.heads.empty() ? info.layers[layer].shape.num_heads
                                                     : std::ssize(weights_choice.heads);
  if (key.has_memory && layer < NumEncoderLayers(info)) {
    const int64_t rows = sequence.query.rows > 0 ? sequence.key.rows : 0;
    return {heads, rows, model->NumKeys(layer, rows, rows)};
  }
  return {heads, sequence.query.rows,
          model->NumKeys(layer, cached_len + sequence.query.rows, sequence.key.rows)};
}

std::string AttendPlan::ModelName() const { return absl::StrCat("model \"", model->name(), "\""); }

std::string AttendPlan::RunName() const {
  const std::string name = ModelName();
  return key.is_stack() || !model->info().has_stack
             ? name
             : absl::StrCat("layer ", key.layer, " of ", name);
}

void PlanSelfAttention(const std::vector<SequenceRows>& rows, const RowLayout& layout,
                       AttendPlan& plan) {
  plan.longest_query = plan.longest_key = LongestOf(rows, layout);
  plan.sequences.reserve(rows.size());
  for (const SequenceRows& sequence : rows) {
    plan.sequences.push_back({.query = sequence, .key = sequence, .output = sequence});
  }
}

}  // namespace attention

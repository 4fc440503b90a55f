// What an AttendRequest asks for, in the core's terms.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/attention/kv_cache.h"
#include "core/models/model.h"
#include "core/tokenizer/tokenizer.h"
#include "proto/codec/tensor.h"
#include "server/scheduling/job.h"
#include "server/services/plan/plan_options.h"
#include "server/services/plan/row_lengths.h"

namespace attention {

/// One sequence of the request, in request order. Without query rows there is nothing to compute.
struct PlannedSequence {
  SequenceRows query;  // in the query operand
  SequenceRows key;    // in key and value; equals `query` for self-attention
  SequenceRows output;
  std::optional<int64_t> query_offset = {};
};

/// Memory of a token of a text: what a person reads, its id and its type.
inline constexpr int64_t kTextTokenBytes = sizeof(std::string) + 2 * sizeof(int32_t);

/// Extents of one sequence's weights in one layer.
struct WeightsExtents {
  int64_t num_heads = 0;
  int64_t rows = 0;
  int64_t keys = 0;
};

struct AttendPlan {
  /// Null for query_key_value.
  std::shared_ptr<const Model> model;
  BatchKey key;
  /// Of a whole stack; without layers: no weights.
  ModelOutput wanted = ModelOutput::kHiddenStates;
  WeightsChoice weights_choice;
  std::vector<PlannedSequence> sequences;
  /// By Operand; those that the request does not have are empty. A token request has `ids` instead,
  /// with `type_ids` as many or none.
  ReceivedTensor operands[3];
  std::vector<int32_t> ids;
  std::vector<int32_t> type_ids;
  bool is_token_request = false;
  /// Of a request of texts.
  std::shared_ptr<const std::vector<TokenizedText>> texts;
  /// Of a step of a session, whose one sequence follows so many tokens; null: no step.
  std::vector<KvCache>* caches = nullptr;
  int64_t cached_len = 0;

  Dtype output_dtype = Dtype::kF32;
  Shape output_shape;
  /// Elements of one output row.
  int64_t output_width = 0;
  int64_t num_heads = 0;
  int64_t head_dim = 0;
  /// Of the layer, behind each sequence's own.
  int64_t extra_keys = 0;
  /// Rows and keys of the longest sequence; of padded tensors, their own.
  int64_t longest_query = 0;
  int64_t longest_key = 0;
  PlannedOptions options;
  /// Memory that the request holds beside its message.
  int64_t extra_bytes = 0;
  /// Memory that the reply takes beside its output and tables: of copies of those.
  int64_t copied_reply_bytes = 0;

  /// Columns of the weights of a layer, or of bare attention.
  int64_t KeysOf(const PlannedSequence& sequence) const {
    return cached_len + sequence.key.rows + extra_keys;
  }
  /// How many weights of each row are returned as its largest.
  int64_t TopKOf(const PlannedSequence& sequence) const {
    return std::min(options.wire->weights_top_k(), KeysOf(sequence));
  }
  /// Of a layer in a run of the whole stack.
  WeightsExtents WeightsOf(int64_t layer, const PlannedSequence& sequence) const;
  /// Of the reply: each sequence has as many, whether it has rows or not.
  int64_t NumTables() const;
  /// `model "gpt2"`.
  std::string ModelName() const;
  /// What of the model runs: `model "gpt2"`, or `layer 3 of model "gpt2"`.
  std::string RunName() const;
};

/// How many of the layers are the encoder's: they come in the order encoder, then (self, cross) of
/// each decoder block.
int64_t NumEncoderLayers(const ModelInfo& info);

/// Sequences whose keys are their own rows.
void PlanSelfAttention(const std::vector<SequenceRows>& rows, const RowLayout& layout,
                       AttendPlan& plan);

}  // namespace attention

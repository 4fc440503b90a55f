// What an AttendRequest asks for, in the core's terms: everything that shapes alone decide.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/models/model_repository.h"
#include "core/tokenizer/tokenizer.h"
#include "proto/attention/v1/attention.pb.h"
#include "proto/codec/envelope.h"
#include "proto/codec/tensor.h"
#include "server/scheduling/job.h"
#include "server/services/plan/plan_options.h"
#include "server/services/plan/plan_terms.h"
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
  /// What of the model runs: `model "gpt2"`, or `layer 3 of model "gpt2"`.
  std::string RunName() const;
};

/// The largest reply that may be made, and the flag that says so.
struct ReplyLimit {
  int64_t max_bytes = 0;
  std::string flag;
};

/// INVALID_ARGUMENT names the first field that is wrong, what was expected and what was found;
/// NOT_FOUND the model or version; RESOURCE_EXHAUSTED a reply past `limit`, or more than kMaxTokens
/// rows, kMaxSequences sequences or kMaxScoreTables tables; what `terms` say.
absl::StatusOr<AttendPlan> PlanAttend(const Received<v1::AttendRequest>& request,
                                      const ModelRepository& models, const ReplyLimit& limit,
                                      const PlanTerms& terms = {});

/// What a step runs, and what it follows.
struct StepTarget {
  /// Null for query_key_value.
  std::shared_ptr<const Model> model;
  std::vector<KvCache>* caches = nullptr;
  int64_t cached_len = 0;
};

/// A step of a session as a request of one sequence, whose `model` is a name for errors only. As
/// PlanAttend, and INVALID_ARGUMENT for more than one sequence, or lengths, offsets or memory.
absl::StatusOr<AttendPlan> PlanStep(const Received<v1::AttendRequest>& request,
                                    const StepTarget& target, const ReplyLimit& limit,
                                    const PlanTerms& terms = {});

/// UNAVAILABLE for a model that is being loaded. NOT_FOUND names the models, or the versions, there
/// are. Without a version: the highest.
absl::StatusOr<std::shared_ptr<const Model>> FindModel(const ModelRepository& models,
                                                       const std::string& name,
                                                       std::optional<int64_t> version);

/// `field.tensor`, present and as ReadTensor demands, of one of two ranks: `padded_rank`, or one
/// less when packed.
struct TensorField {
  const v1::Tensor& wire;
  bool is_present;
  std::string path;
};
absl::StatusOr<ReceivedTensor> ReadPresentTensor(const Received<v1::AttendRequest>& request,
                                                 const TensorField& field, size_t padded_rank);

/// The leading extents of `shape`, of rank `padded_rank` or one less.
RowLayout LayoutOf(const Shape& shape, size_t padded_rank);

/// The parts of PlanAttend. First what runs, of which model (`plan.model`, null without):
absl::Status PlanRun(const v1::AttendRequest& request, AttendPlan& plan);
/// Then the input:
absl::Status PlanHiddenStates(const Received<v1::AttendRequest>& request, AttendPlan& plan);
absl::Status PlanTokenIds(const v1::TokenIds& input, AttendPlan& plan);
absl::Status PlanText(const v1::TextInput& input, const PlanTerms& terms, AttendPlan& plan);
absl::Status PlanQueryKeyValue(const Received<v1::AttendRequest>& request, AttendPlan& plan);
/// The output of a whole stack, where it is not one row for each row of the input.
void PlanStackOutput(AttendPlan& plan);

/// Whether what runs takes keys and values, or an encoder's input, from `memory`.
enum class MemoryUse { kNever, kOptional, kAlways };
MemoryUse MemoryUseOf(const AttendPlan& plan);
/// Whether the layer always takes `memory`: for cross-attention, or since its keys or values are of
/// another width than its rows.
bool NeedsMemory(const ModelLayerInfo& layer);

/// Sequences whose keys are their own rows.
void PlanSelfAttention(const std::vector<SequenceRows>& rows, const RowLayout& layout,
                       AttendPlan& plan);

}  // namespace attention

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
#include "proto/attention/v1/attention.pb.h"
#include "proto/codec/envelope.h"
#include "proto/codec/tensor.h"
#include "server/scheduling/job.h"
#include "server/services/plan_options.h"
#include "server/services/row_lengths.h"

namespace attention {

/// One sequence of the request, in request order.
struct PlannedSequence {
  SequenceRows query;  // in the query operand, and in the output
  SequenceRows key;    // in key and value; equals `query` for self-attention
  std::optional<int64_t> query_offset = {};
};

struct AttendPlan {
  /// Null for query_key_value.
  std::shared_ptr<const Model> model;
  BatchKey key;
  std::vector<PlannedSequence> sequences;
  /// By Operand; those that the request does not have are empty. A token request has `ids` instead.
  ReceivedTensor operands[3];
  std::vector<int32_t> ids;
  bool is_token_request = false;

  Dtype output_dtype = Dtype::kF32;
  Shape output_shape;
  /// Elements of one output row.
  int64_t output_width = 0;
  int64_t num_heads = 0;
  int64_t head_dim = 0;
  /// Rows and keys of the longest sequence; of padded tensors, their own.
  int64_t longest_query = 0;
  int64_t longest_key = 0;
  PlannedOptions options;

  /// How many weights of each row are returned as its largest.
  int64_t TopKOf(const PlannedSequence& sequence) const {
    return std::min(options.wire->weights_top_k(), sequence.key.rows);
  }
};

/// The largest reply that may be made, and the flag that says so.
struct ReplyLimit {
  int64_t max_bytes = 0;
  std::string flag;
};

/// INVALID_ARGUMENT names the first field that is wrong, what was expected and what was found;
/// NOT_FOUND the model; RESOURCE_EXHAUSTED a reply past `limit`, or more than kMaxTokens rows.
absl::StatusOr<AttendPlan> PlanAttend(const Received<v1::AttendRequest>& request,
                                      const ModelRepository& models, const ReplyLimit& limit);

/// NOT_FOUND names the models there are.
absl::StatusOr<std::shared_ptr<const Model>> FindModel(const ModelRepository& models,
                                                       const std::string& name);

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

/// The parts of PlanAttend: fill in all but the options of the sequences. `plan.model` is set.
absl::Status PlanHiddenStates(const Received<v1::AttendRequest>& request, AttendPlan& plan);
absl::Status PlanTokenIds(const Received<v1::AttendRequest>& request, AttendPlan& plan);
absl::Status PlanQueryKeyValue(const Received<v1::AttendRequest>& request, AttendPlan& plan);

}  // namespace attention

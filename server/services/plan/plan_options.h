// The options of a request, checked, and in the core's terms.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "core/attention/attention.h"
#include "proto/attention/v1/attention.pb.h"
#include "proto/codec/envelope.h"
#include "proto/codec/tensor.h"

namespace attention {

/// A bias or a mask, `[1 or B, 1 or H, Sq, Sk]`; without a shape when the request has none.
struct ScoreTensor {
  Shape shape;
  Payload payload;
  AlignedBuffer elements;  // set by KeepScoreTensors
};

/// Owns the memory that the options of the request's sequences point to, which a move does not
/// change.
struct PlannedOptions {
  /// Slopes, sinks, norm weights, global tokens, and the options that differ between sequences.
  std::unique_ptr<const v1::AttentionOptions> wire;
  /// All options except bias and mask; sequences may have others.
  AttentionOptions shared;
  ScoreTensor bias;  // float
  ScoreTensor mask;  // uint8_t
};

/// The extents that the options must fit.
struct OptionExtents {
  /// The number of keys of each sequence.
  std::vector<int64_t> kv_lens;
  int64_t num_heads = 0;
  int64_t head_dim = 0;
  /// The extents of bias and mask: for padded tensors the padded lengths, for packed ones the
  /// longest lengths.
  int64_t query_len = 0;
  int64_t kv_len = 0;
  /// The default of `causal`.
  bool is_causal = false;
};

/// Reads and checks the options. INVALID_ARGUMENT names the first field that is wrong, what was
/// expected and what was found.
absl::StatusOr<PlannedOptions> PlanOptions(const Received<v1::AttendRequest>& request,
                                           const OptionExtents& extents);

/// Returns the memory of the options that are lists, whose lengths the request chooses.
int64_t SizeOfLists(const PlannedOptions& options);

/// Copies bias and mask out of the request's bytes, which are not needed any more then.
void KeepScoreTensors(PlannedOptions& options);

/// Returns the options of the request's sequence `index` of `kv_len` keys, except its query offset.
/// They borrow from `planned`. REQUIRES: KeepScoreTensors was called.
AttentionOptions OptionsOfSequence(const PlannedOptions& planned, int64_t index, int64_t kv_len);

}  // namespace attention

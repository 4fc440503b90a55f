// What kind of attention a request asks for, checked, and in the core's terms.
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

/// A bias or a mask: `[1 or B, 1 or H, Sq, Sk]`; no shape when the request has none.
struct ScoreTensor {
  Shape shape;
  Payload payload;
  AlignedBuffer elements;  // of KeepScoreTensors
};

/// Owns what the options of the request's sequences point to, and stays where it is when moved.
struct PlannedOptions {
  /// Slopes, sinks, norm weights, global tokens; what differs between sequences.
  std::unique_ptr<const v1::AttentionOptions> wire;
  /// All but bias and mask; sequences may say otherwise.
  AttentionOptions shared;
  ScoreTensor bias;  // float
  ScoreTensor mask;  // uint8_t
};

/// What the options must fit.
struct OptionExtents {
  /// Keys of each sequence.
  std::vector<int64_t> kv_lens;
  int64_t num_heads = 0;
  int64_t head_dim = 0;
  /// Of bias and mask: padded, the padded lengths; packed, the longest ones.
  int64_t query_len = 0;
  int64_t kv_len = 0;
  /// Unless the request says otherwise.
  bool is_causal = false;
};

/// INVALID_ARGUMENT names the first field that is wrong, what was expected and what was found.
absl::StatusOr<PlannedOptions> PlanOptions(const Received<v1::AttendRequest>& request,
                                           const OptionExtents& extents);

/// Memory of those options that are lists as long as the request makes them.
int64_t SizeOfLists(const PlannedOptions& options);

/// Copies bias and mask out of the request's bytes, which are not needed any more then.
void KeepScoreTensors(PlannedOptions& options);

/// What the request's sequence `index` of `kv_len` keys asks for, but for its query offset; borrows
/// from `planned`. REQUIRES: KeepScoreTensors was called.
AttentionOptions OptionsOfSequence(const PlannedOptions& planned, int64_t index, int64_t kv_len);

}  // namespace attention

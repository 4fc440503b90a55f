// The actions of each session of a load: open, prompt and steps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/lib/decode_stream.h"
#include "client/load/workload.h"
#include "proto/attention/v1/attention.pb.h"

namespace attention {

struct DecodeOptions {
  int64_t prefill = 128;    // tokens of the prompt
  int64_t steps = 64;       // after the prompt
  int64_t step_tokens = 1;  // tokens of each step
  /// The dtype in which the server keeps keys and values: FP32, BF16 or INT8.
  v1::DataType cache_dtype = v1::FP32;
};

/// Returns the rows of all parts, one after the other. REQUIRES: at least one; rows of one shape
/// and dtype.
Tensor JoinRows(const std::vector<const Tensor*>& parts);

/// Some tokens of one sequence; which member holds them depends on the kind of input.
struct TokenRows {
  std::vector<Tensor> tensors;  // hidden states [n, E]; or query, key and value [n, heads, width]
  std::vector<int32_t> ids;
};

/// The requests of a session. Prompt and steps have seeded tokens. Steps differ, because with equal
/// keys a lost key does not change the answer, and rounding errors accumulate beyond the tolerance,
/// which is that of independent rows. After kDifferentSteps steps the tokens repeat, so that memory
/// is bounded. Immutable.
class DecodePlan {
 public:
  /// Prime, so that the period of the tokens does not align with the chains of a sum.
  static constexpr int64_t kDifferentSteps = 251;

  /// Takes model, layer, options and the kind of input from `like`. Rows get the width and dtype of
  /// its tensors; token ids come from its ids. Returns INVALID_ARGUMENT for texts, memory, and
  /// other fields that a session does not support.
  static absl::StatusOr<DecodePlan> Make(const AttendRequest& like, const DecodeOptions& options,
                                         uint64_t seed);

  const DecodeOptions& options() const { return options_; }
  const v1::OpenSession& open() const { return open_; }
  /// Returns the prompt and the steps, which borrow from this object.
  StepRequest Prefill() const { return StepOf(prefill_); }
  StepRequest Step(int64_t index) const { return StepOf(steps_[index % num_different_steps()]); }
  /// Returns the number of steps after which the tokens repeat.
  int64_t num_different_steps() const { return std::ssize(steps_); }
  /// Returns one request for all tokens of a session, causal unless the options say otherwise.
  Workload AtOnce() const;

  /// Returns a description: "64 steps of 1 after prompts of 128, each of hidden states [1, 512]
  /// FP32".
  std::string Describe() const;

 private:
  StepRequest StepOf(const TokenRows& rows) const;

  AttendRequest like_;  // without its input
  v1::OpenSession open_;
  DecodeOptions options_;
  TokenRows prefill_;
  std::vector<TokenRows> steps_;  // the first num_different_steps()
};

}  // namespace attention

// Joins the blocks of a streamed answer.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "client/lib/attend_request.h"
#include "client/lib/head_rows.h"
#include "client/lib/sequences.h"

namespace attention {

class StreamAssembler {
 public:
  /// Keeps no reference to `request`. Errors of SequencesOf.
  static absl::StatusOr<StreamAssembler> Create(const AttendRequest& request);

  /// INTERNAL for a block that does not continue its sequence or does not fit the answer, and for a
  /// summary.
  absl::Status Add(const StreamMessage& message);
  absl::Status Add(const RowBlock& block);
  absl::Status Add(const WeightsBlock& block);
  absl::Status Add(const LogSumExpBlock& block);
  absl::Status Add(const TopWeightsBlock& block);
  absl::Status Add(const LayerWeightsBlock& block);
  /// REQUIRES: the tokens of all texts come before other blocks.
  absl::Status Add(const TokensBlock& block);

  /// Moves the answer into `result`; rows of padding are 0. INTERNAL when rows are missing.
  absl::Status Finish(AttendResult& result);

 private:
  struct Sequence {
    SequenceSpan span;
    int64_t received = 0;  // rows
    HeadRows<float> weights = {};
    HeadRows<float> log_sum_exp = {};
    HeadRows<float> top_weights = {};
    HeadRows<int32_t> top_keys = {};
    std::map<int64_t, HeadRows<float>> layer_weights = {};
  };

  absl::Status LayOut(const AttendRequest& request);
  /// Lays out texts by their tokens, before the first block of another kind.
  absl::Status LayOutTexts();
  absl::StatusOr<Sequence*> Find(int64_t sequence);
  absl::Status Allocate(const Tensor& rows);
  absl::Status FinishScores(AttendResult& result) const;
  absl::Status FinishLayerWeights(AttendResult& result) const;

  v1::ModelOutput model_output_ = v1::LAST_HIDDEN_STATES;
  v1::WeightsChoice weights_choice_;
  int64_t weights_top_k_ = 0;
  std::vector<v1::TokenizedText> tokens_;  // of texts
  bool is_laid_out_ = false;
  Shape leading_;    // {B, S}, {T} or {N}
  Shape row_shape_;  // {E} or {H, Dv}, known from the first block on
  std::vector<Sequence> sequences_;
  Tensor output_;
};

}  // namespace attention

// Joins the blocks of a streamed answer, or only checks that they follow each other.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/lib/attend_request.h"
#include "client/lib/head_rows.h"
#include "client/lib/sequences.h"

namespace attention {

/// Joins the blocks of a streamed answer to the answer that Attend would give, or only counts their
/// rows. For one thread at a time.
class StreamAssembler {
 public:
  /// Makes an assembler for the answer to `request`, which it does not keep. Without `has_output`,
  /// as for a step with no_output, it accepts only tokens. Without `has_options`, as for a step of
  /// a resumed session, whose options the server knows alone, it accepts any scores. Without
  /// `joins` it keeps no rows. Errors are those of SequencesOf.
  static absl::StatusOr<StreamAssembler> Create(const AttendRequest& request,
                                                bool has_output = true, bool has_options = true,
                                                bool joins = true);

  /// Adds a block. INTERNAL for a block that does not continue its sequence or does not fit the
  /// answer, and for a summary. REQUIRES: its rows have a rank that DecodeStreamMessage accepts.
  absl::Status Add(const StreamMessage& message);
  absl::Status Add(const RowBlock& block);
  absl::Status Add(const ScoresBlock& block);
  /// Adds tokens. INTERNAL unless the tokens of all texts come before other blocks.
  absl::Status Add(const TokensBlock& block);

  /// Moves the answer, if it was joined, into `result`; rows of padding are 0. INTERNAL if rows are
  /// missing.
  absl::Status Finish(AttendResult& result);

 private:
  /// The kind of the rows of heads, and their layer (kLayerWeights only).
  using ScoresKey = std::pair<ScoresBlock::Kind, int64_t>;
  struct Sequence {
    SequenceSpan span;
    int64_t received = 0;  // rows
    std::map<ScoresKey, HeadRows<float>> scores = {};
    HeadRows<int32_t> top_keys = {};
  };

  absl::Status LayOut(const AttendRequest& request);
  /// Determines the rows of texts by their tokens, before the first block of another kind.
  absl::Status LayOutTexts();
  absl::StatusOr<Sequence*> Find(int64_t sequence);
  /// Makes an output of zeros: the server does not send rows of padding.
  absl::Status Allocate(Dtype dtype);
  /// Returns the index of a head among the chosen ones. INTERNAL for a layer or head that is not
  /// chosen.
  absl::StatusOr<int64_t> ChosenHead(const ScoresBlock& block) const;
  /// Returns the maximum number of heads of a sequence: a sequence without rows has none. If none
  /// has rows, those of the query count where the request tells them.
  int64_t NumHeads(const ScoresKey& key) const;
  /// Returns the rows that each head of `sequence` has.
  static int64_t RowsOfHead(const Sequence& sequence, const ScoresKey& key);
  /// INTERNAL if rows are missing.
  absl::Status CheckWhole() const;
  absl::Status CheckScores(const Sequence& sequence) const;
  /// Joins the rows of all heads: [H, rows, width], or [H, rows] for kLogSumExp. `width` counts if
  /// no row came. REQUIRES: CheckWhole was OK.
  Tensor Joined(const Sequence& sequence, const ScoresKey& key, int64_t width) const;
  void JoinScores(int64_t index, AttendResult& result) const;

  bool has_output_ = true;
  bool joins_ = true;
  v1::ModelOutput model_output_ = v1::LAST_HIDDEN_STATES;
  v1::WeightsChoice weights_choice_;
  int64_t weights_top_k_ = 0;
  /// The heads of query_key_value, in an answer without rows: whose scores are asked for.
  int64_t query_heads_ = 0;
  std::set<ScoresBlock::Kind> asked_;
  bool has_options_ = true;
  std::vector<v1::TokenizedText> tokens_;  // of texts
  bool is_laid_out_ = false;
  Shape leading_;  // {B, S}, {T} or {N}
  /// {E} or {H, Dv}. Until the first block, an extent that the request does not tell is -1.
  Shape row_shape_;
  Dtype dtype_ = Dtype::kF32;  // of an output without rows
  std::vector<Sequence> sequences_;
  std::map<ScoresKey, int64_t> num_heads_;  // the maximum of the sequences
  std::optional<Tensor> output_;            // from the first block on
};

}  // namespace attention

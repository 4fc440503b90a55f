// Joins the blocks of a streamed answer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/lib/attend_request.h"
#include "client/lib/sequences.h"

namespace attention {

/// The rows of the heads of one sequence, which a stream sends in blocks. `what` names them in
/// errors, all of which are INTERNAL.
template <typename T>
class HeadRows {
 public:
  struct Block {
    int64_t head = 0;
    int64_t first_row = 0;
    int64_t width = 0;  // elements of a row
    std::span<const T> elements;
  };

  /// Adds a block. Heads come in order, each in row order, or interleaved block by block.
  absl::Status Add(const Block& block, const char* what) {
    if (block.width != width_.value_or(block.width)) {
      return Wrong("width of a block of ", what, *width_, block.width);
    }
    width_ = block.width;
    if (block.head < 0 || block.head > num_heads()) {
      return Wrong("head of a block, at most, of ", what, num_heads(), block.head);
    }
    if (block.head == num_heads()) {
      heads_.emplace_back();
    }
    std::vector<T>& head = heads_[block.head];
    if (block.first_row * block.width != std::ssize(head)) {
      return Wrong("elements before a block of ", what, block.first_row * block.width,
                   std::ssize(head));
    }
    head.insert(head.end(), block.elements.begin(), block.elements.end());
    return absl::OkStatus();
  }

  int64_t num_heads() const { return std::ssize(heads_); }
  /// Returns the number of rows of the first head.
  int64_t num_rows() const {
    return heads_.empty() || WidthOr(0) == 0 ? 0 : std::ssize(heads_[0]) / *width_;
  }
  /// Returns the width of a row; `absent` if no block has come.
  int64_t WidthOr(int64_t absent) const { return width_.value_or(absent); }

  /// Writes [num_heads, rows, width] to `target`. An error if rows are missing.
  absl::Status Join(int64_t num_heads, int64_t rows, const char* what, T* target) const {
    const int64_t expected = rows * WidthOr(0);
    for (int64_t h = 0; h < num_heads && rows > 0; ++h) {
      const int64_t received = h < std::ssize(heads_) ? std::ssize(heads_[h]) : 0;
      if (received != expected || !width_.has_value()) {
        return Wrong(what, " of a head", expected, received);
      }
      target = std::copy(heads_[h].begin(), heads_[h].end(), target);
    }
    return absl::OkStatus();
  }

 private:
  static absl::Status Wrong(const char* before, const char* after, int64_t expected,
                            int64_t found) {
    return absl::InternalError(absl::StrCat("streamed answer: ", before, after, ": expected ",
                                            expected, ", found ", found));
  }

  std::vector<std::vector<T>> heads_;
  std::optional<int64_t> width_;  // known from the first block on
};

/// Returns INTERNAL unless the output of a whole answer has the shape that `request` asks for, as
/// far as the request tells it.
absl::Status CheckOutput(const AttendRequest& request, const AttendResult& result);

/// Joins the blocks of a streamed answer to the answer that Attend would give. For one thread at a
/// time.
class StreamAssembler {
 public:
  /// Makes an assembler for the answer to `request`, which it does not keep. Without `has_output`,
  /// as for a step with no_output, it accepts only tokens. Errors are those of SequencesOf.
  static absl::StatusOr<StreamAssembler> Create(const AttendRequest& request,
                                                bool has_output = true);

  /// Adds a block. INTERNAL for a block that does not continue its sequence or does not fit the
  /// answer, and for a summary.
  absl::Status Add(const StreamMessage& message);
  absl::Status Add(const RowBlock& block);
  absl::Status Add(const ScoresBlock& block);
  /// Adds tokens. INTERNAL unless the tokens of all texts come before other blocks.
  absl::Status Add(const TokensBlock& block);

  /// Moves the answer into `result`; rows of padding are 0. INTERNAL if rows are missing.
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
  void Allocate(Dtype dtype);
  /// Returns the index of a head among the chosen ones. INTERNAL for a layer or head that is not
  /// chosen.
  absl::StatusOr<int64_t> ChosenHead(const ScoresBlock& block) const;
  /// Returns the maximum number of heads of a sequence: a sequence without rows has none.
  int64_t NumHeads(const ScoresKey& key) const;
  /// Joins the rows of all heads: [H, rows, width], or [H, rows] for kLogSumExp. `width` counts if
  /// no row came.
  absl::StatusOr<Tensor> Joined(const Sequence& sequence, const ScoresKey& key, int64_t rows,
                                int64_t width) const;
  absl::Status FinishScores(const Sequence& sequence, AttendResult& result) const;
  absl::Status FinishLayerWeights(int64_t index, AttendResult& result) const;

  bool has_output_ = true;
  v1::ModelOutput model_output_ = v1::LAST_HIDDEN_STATES;
  v1::WeightsChoice weights_choice_;
  int64_t weights_top_k_ = 0;
  std::vector<v1::TokenizedText> tokens_;  // of texts
  bool is_laid_out_ = false;
  Shape leading_;  // {B, S}, {T} or {N}
  /// {E} or {H, Dv}. Until the first block, an extent that the request does not tell is -1.
  Shape row_shape_;
  Dtype dtype_ = Dtype::kF32;  // of an output without rows
  std::vector<Sequence> sequences_;
  std::optional<Tensor> output_;  // from the first block on
};

}  // namespace attention

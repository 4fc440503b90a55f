// A random case computed by a layer. Where its products are the identity of f32, they change no
// bit.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "core/attention/attention.h"
#include "core/layers/multi_head_attention.h"
#include "tests/core/fuzz/fuzz_case.h"
#include "tests/core/fuzz/fuzz_problem.h"
#include "tests/core/fuzz/fuzz_weights.h"

namespace attention {

class FuzzLayer {
 public:
  /// Borrows both.
  FuzzLayer(FuzzProblem& problem, const FuzzCase& way) : problem_(problem), way_(way) {}

  absl::Status Make();

  struct Call {
    /// Of the sequence's key and value the layer reads nothing: it computes those of its rows.
    const AttentionSequence& sequence;
    int64_t row = 0;           // its first row in the problem
    KvCache* cache = nullptr;  // to which the keys of the rows are appended, or null
    bool is_cancelled = false;
  };
  /// Runs the layer on the rows of the sequence and on mates. REQUIRES: Make was called.
  absl::Status Run(const Call& call, Workspace& workspace);
  /// Runs the layer on more rows than any budget has room for. REQUIRES: Make was called.
  absl::Status RunTooLong(KvCache& cache, Workspace& workspace);

 private:
  /// Rows of several sequences, one after the other.
  struct Rows {
    MutableMatrixView view;
    int64_t first = 0;  // of the case's sequence
  };

  const MultiHeadAttentionShape& shape() const { return weights_->shape; }
  bool has_memory() const { return weights_->has_memory; }
  absl::Status MakeMateCache();
  Rows NewRows(Dtype dtype, int64_t before, int64_t count, int64_t behind, int64_t width);
  static void CopyHeads(const HeadsView& from, const Rows& rows, int64_t column);
  Rows HiddenStates(const Call& call);
  Rows Memory();
  Rows MemoryValues();
  Rows Residual(const Call& call);
  std::vector<LayerSequence> Sequences(const Call& call, const Rows& output);
  static void CopyOutput(const Rows& output, const MutableHeadsView& to);

  FuzzProblem& problem_;
  const FuzzCase& way_;
  std::optional<FuzzWeights> weights_;
  std::unique_ptr<MultiHeadAttention> layer_;
  std::optional<KvCache> mate_cache_;
  RotaryTables rotations_;
};

}  // namespace attention

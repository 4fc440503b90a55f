// A sequence of the contract of bits, and the ways to compute it.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "core/layers/multi_head_attention.h"
#include "tests/core/layers/test_layer.h"

namespace attention {

/// More than a key tile of 512 keys, and no multiple of a key block of 64.
inline constexpr int64_t kContractLength = 540;
inline constexpr MultiHeadAttentionShape kContractShape{64, 64, 4, 2, 20, 24};
inline constexpr MultiHeadAttentionShape kWiderMemoryShape{64, 80, 4, 2, 20, 24};

/// A kind of attention.
struct ContractKind {
  std::string name;
  AttentionOptions options;
  Extras extras = {};
  /// The number of keys of a memory; 0: self-attention.
  int64_t memory_len = 0;
  bool has_wide_memory = false;
  int64_t length = kContractLength;

  int64_t kv_len() const { return memory_len == 0 ? length : memory_len; }
  /// Returns whether rows attend to no key of a later row, so that they may come in steps.
  bool takes_a_cache() const {
    return options.causal && options.window_right == 0 && options.prefix == 0 &&
           extras.global_tokens.empty() && options.similarity != Similarity::kLinear &&
           memory_len == 0;
  }
};

inline void PrintTo(const ContractKind& kind, std::ostream* out) { *out << kind.name; }

/// The size of a slice in rows of a causal sequence: it takes three row ranges of 128, then 128 and
/// 28.
inline constexpr double kStageRows = 178;

/// A way to compute a sequence.
struct ContractWay {
  std::string name;
  int threads = 1;
  bool has_mates = false;
  int64_t block_rows = 0;            // of a streamed block; 0: not streamed
  double slice_rows = 0;             // of a slice, about; 0: not sliced
  bool is_interrupted = false;       // by another call on the same threads, when asked to go on
  bool follows_a_cancelled = false;  // call on the same workspace
  std::vector<int64_t> cuts = {};    // rows of each step of a cache; empty: no cache
};

struct ContractAnswer {
  std::vector<uint8_t> output;
  /// Empty with a cache.
  std::vector<uint8_t> weights, log_sum_exp;

  bool operator==(const ContractAnswer&) const = default;
};

/// One sequence of a kind, and its answers.
class ContractSubject {
 public:
  ContractSubject(const ContractKind& kind, WeightsDtype weights)
      : kind_(kind),
        layer_(kind.has_wide_memory ? kWiderMemoryShape : kContractShape, weights),
        problem_(7, Dtype::kF32,
                 {kind.length, kind.kv_len(), kContractShape.num_heads, kContractShape.num_kv_heads,
                  kContractShape.head_dim, kContractShape.value_head_dim},
                 kind.options),
        rows_(SeededTensor(1, dtype(), {kind.length, kContractShape.d_model})),
        memory_(SeededTensor(2, dtype(), {kind.memory_len, layer_.shape.d_memory})),
        mates_(SeededTensor(3, dtype(), {kMatesBefore + kMatesAfter, kContractShape.d_model})),
        mate_memory_(SeededTensor(4, dtype(), {kMateMemory, layer_.shape.d_memory})) {
    problem_.Add(kind.extras);
  }

  const MultiHeadAttention& layer() const { return *layer_.layer; }
  Dtype dtype() const { return layer().dtype(); }

  /// Computes the sequence one way. With a cache the output has the rows of all steps.
  ContractAnswer Compute(const ContractWay& way,
                         KeyValueStorage storage = KeyValueStorage::kF32) const;

 private:
  static constexpr int64_t kMatesBefore = 37;
  static constexpr int64_t kMatesAfter = 70;
  static constexpr int64_t kMateMemory = 50;

  struct Step {
    int64_t first = 0;
    int64_t count = 0;
    KvCache* cache = nullptr;
  };

  /// Returns the options of rows [first, ..).
  AttentionOptions OptionsFrom(int64_t first) const;
  ContractAnswer RunStep(const ContractWay& way, const Step& step, Workspace& workspace,
                         bool is_cancelled) const;
  void Run(const ContractWay& way, LayerCall& call, Workspace& workspace, bool is_cancelled) const;
  /// Runs a call of another sequence on the same threads.
  void RunAnother(ThreadPool& pool) const;

  const ContractKind& kind_;
  TestLayer layer_;
  AttentionProblem problem_;
  Tensor rows_, memory_, mates_, mate_memory_;
};

}  // namespace attention

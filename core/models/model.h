// A served model: one attention layer, with embeddings when it takes token ids.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/layers/multi_head_attention.h"

namespace attention {

/// What `--random-model` and the built-in model are made from.
struct SeededModelSpec {
  std::string name;
  uint64_t seed = 0;
  int64_t d_model = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;    // 0: num_heads
  int64_t head_dim = 0;        // 0: d_model / num_heads
  int64_t value_head_dim = 0;  // 0: head_dim
  int64_t vocab_size = 0;      // 0: takes no token ids
  int64_t max_positions = 0;
  Dtype dtype = Dtype::kF32;
  bool causal = false;
};

/// The model served under the name `demo`: d_model 512, 8 heads, vocabulary 1000, 2048 learned
/// positions, not causal.
SeededModelSpec DemoModelSpec();

/// `NAME:d_model=768,num_heads=12[,num_kv_heads=..][,head_dim=..][,value_head_dim=..][,vocab_size=..]
/// [,max_positions=..][,dtype=fp32|bf16][,causal=true|false][,seed=..]`. INVALID_ARGUMENT names the
/// key.
absl::StatusOr<SeededModelSpec> ParseSeededModelSpec(const std::string& text);

/// Immutable after creation; thread-safe.
class Model {
 public:
  /// INVALID_ARGUMENT when the extents do not fit together.
  static absl::StatusOr<std::unique_ptr<Model>> CreateSeeded(const SeededModelSpec& spec);

  const std::string& name() const { return spec_.name; }
  const SeededModelSpec& spec() const { return spec_; }
  const MultiHeadAttention& layer() const { return *layer_; }

  /// Rows of token plus position embeddings, rounded to the layer's dtype: hidden_states
  /// [ids.size(), d_model]. INVALID_ARGUMENT for an id out of range, or when first_position +
  /// ids.size() exceeds max_positions.
  absl::Status ValidateTokens(std::span<const int32_t> ids, int64_t first_position) const;
  /// REQUIRES: ValidateTokens was OK.
  void Embed(std::span<const int32_t> ids, int64_t first_position, void* hidden_states) const;

 private:
  Model() = default;

  SeededModelSpec spec_;
  std::unique_ptr<MultiHeadAttention> layer_;
  std::vector<float> token_embedding_;     // [vocab_size, d_model]
  std::vector<float> position_embedding_;  // [max_positions, d_model]
};

/// The models of a server, by name.
class ModelRepository {
 public:
  /// ALREADY_EXISTS for a name taken; errors of CreateSeeded.
  absl::Status AddSeeded(const SeededModelSpec& spec);

  /// Null when there is none.
  std::shared_ptr<const Model> Find(const std::string& name) const;
  /// In name order.
  std::vector<std::shared_ptr<const Model>> List() const;

 private:
  std::vector<std::shared_ptr<const Model>> models_;
};

}  // namespace attention

// A served model: attention layers, and for most families embeddings and a whole stack of blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/attention/kv_cache.h"
#include "core/layers/multi_head_attention.h"
#include "core/models/seeded_model.h"

namespace attention {

class Tokenizer;

/// One attention layer of a model.
struct ModelLayerInfo {
  MultiHeadAttentionShape shape;
  /// Unless a request says otherwise.
  bool causal = false;
  /// Keys and values come from `memory`, always.
  bool is_cross = false;
  /// Keys that the layer adds behind each sequence's own (bias_k, add_zero_attn): weights have so
  /// many columns more.
  int64_t extra_keys = 0;
};

struct ModelInfo {
  std::string name;
  int64_t version = 1;
  /// Of config.json; "seeded" for generated weights.
  std::string model_type;
  int64_t d_model = 0;
  /// Numbered as requests do: encoder layers first, then each decoder block's.
  std::vector<ModelLayerInfo> layers;
  /// Has blocks to run as a whole; otherwise it is layer 0 and nothing else.
  bool has_stack = false;
  /// The stack is a decoder that attends over an encoder of its own, which `memory` enters.
  bool has_encoder = false;
  /// 0 when it takes no token ids.
  int64_t vocab_size = 0;
  int64_t num_token_types = 0;
  /// Longest token sequence, at least 1; nullopt: any length.
  std::optional<int64_t> max_positions = {};
  bool has_logits = false;
  WeightsDtype weights_dtype = WeightsDtype::kF32;
  /// Of everything that the model keeps, and of its attention and feed-forward layers alone.
  int64_t weights_bytes = 0;
  int64_t layers_bytes = 0;
  /// Of generated weights.
  std::optional<SeededModelSpec> seeded = {};
};

/// Token ids of one sequence; `type_ids` is empty (all 0) or as long.
struct TokenSequence {
  std::span<const int32_t> ids;
  std::span<const int32_t> type_ids = {};
  int64_t first_position = 0;
};

/// What a run of the whole stack leaves for a sequence.
enum class ModelOutput {
  kHiddenStates,  // [seq_len, d_model], after the last norm
  kMeanPooled,    // [1, d_model]: their mean
  kFirstPooled,   // [1, d_model]: the first row ([CLS])
  kLogits,        // [seq_len, vocab_size]
  kLastLogits,    // [1, vocab_size]
};

/// Attention weights that are wanted of a run of the whole stack. Heads empty: all.
struct WeightsChoice {
  std::vector<int64_t> layers = {};
  std::vector<int64_t> heads = {};
};

/// One sequence of a run of the whole stack. Rows are counted in the packed inputs.
struct ModelSequence {
  int64_t first_row = 0;  // in hidden_states
  int64_t seq_len = 0;
  int64_t first_memory_row = 0;  // in memory
  int64_t memory_len = 0;
  ModelOutput wanted = ModelOutput::kHiddenStates;
  /// Model::OutputShape; any dtype.
  MutableMatrixView output = {};
  /// Null: no weights. Borrowed.
  const WeightsChoice* weights_choice = nullptr;
  /// For each chosen layer f32 [chosen heads, seq_len, keys], keys as Model::NumKeys.
  std::vector<float*> weights = {};
  /// Empty, or Model::MakeCaches': the rows follow those that are cached, as LayerSequence::cache
  /// says. Borrowed.
  std::span<KvCache> caches = {};
};

/// A run of the whole stack over a ragged batch, in row order without gaps. Views are f32.
struct ModelCall {
  /// [total_tokens, d_model]: embedded tokens, or what enters the first block.
  MatrixView hidden_states;
  /// [total_memory, d_model], of a model with an encoder: what enters the encoder. Without it such
  /// a model runs its encoder over hidden_states and answers with the encoder's output.
  std::optional<MatrixView> memory = {};
  std::span<const ModelSequence> sequences;
  /// Asked between sublayers, and within them as LayerCall::go_on; may be null.
  std::function<bool()> go_on = nullptr;
};

/// Immutable after creation; thread-safe.
class Model {
 public:
  struct State;

  /// INVALID_ARGUMENT when the extents do not fit together.
  static absl::StatusOr<std::unique_ptr<Model>> CreateSeeded(const SeededModelSpec& spec);
  explicit Model(std::unique_ptr<State> state);
  ~Model();

  const ModelInfo& info() const;
  const std::string& name() const { return info().name; }

  /// REQUIRES: 0 <= layer < info().layers.size().
  const MultiHeadAttention& layer(int64_t layer) const;

  /// What a request asks of a layer, completed by what the layer itself is made with: its rotation,
  /// norms, scale, softcap and window stand where `requested` has the default. `causal` and
  /// `query_offset` are the request's. `kv_len`: keys of the sequence, cached ones too, by
  /// which some rotations choose their frequencies. Borrows from both.
  AttentionOptions LayerOptions(int64_t layer, const AttentionOptions& requested,
                                int64_t kv_len) const;

  /// Null: the model takes no text.
  const Tokenizer* tokenizer() const;

  /// INVALID_ARGUMENT for an id out of range or too many positions, said of `token_ids`.
  absl::Status ValidateTokens(const TokenSequence& tokens) const;
  /// Embedded tokens, f32 [ids, d_model]. REQUIRES: ValidateTokens was OK.
  void Embed(const TokenSequence& tokens, float* hidden_states) const;

  /// Rows and width of ModelSequence::output.
  struct OutputExtents {
    int64_t rows = 0;
    int64_t width = 0;
  };
  OutputExtents OutputOf(ModelOutput wanted, int64_t seq_len) const;
  /// Columns of a layer's weights for a sequence; `seq_len` counts cached tokens too.
  int64_t NumKeys(int64_t layer, int64_t seq_len, int64_t memory_len) const;

  /// One cache for each layer, for a sequence that the stack continues. `memory` null: one of their
  /// own. INVALID_ARGUMENT for a model without a stack or with an encoder, and for layers that are
  /// not causal or add keys of their own: earlier rows would have to see later ones.
  absl::StatusOr<std::vector<KvCache>> MakeCaches(KeyValueStorage storage,
                                                  std::shared_ptr<KvMemory> memory) const;
  /// A cache of one layer, for LayerSequence::cache. INVALID_ARGUMENT for cross-attention and as
  /// MultiHeadAttention::CacheShape. REQUIRES: 0 <= layer < info().layers.size().
  absl::StatusOr<KvCache> MakeLayerCache(int64_t layer, KeyValueStorage storage,
                                         std::shared_ptr<KvMemory> memory) const;
  /// INVALID_ARGUMENT when a sequence of `cached_len` tokens may not grow by `new_tokens`: because
  /// the model's rotations stand for no sequence of that length (dynamic scaling), or because they
  /// choose other frequencies for it (LongRoPE) than the cached keys have. A truncation takes the
  /// same steps backwards. Holds for rows of every kind; ValidateTokens bounds those of tokens,
  /// which need position embeddings, too.
  absl::Status CheckGrowth(int64_t cached_len, int64_t new_tokens) const;

  /// Floating point operations of Forward, as MultiHeadAttention::Flops: `rows` of hidden states
  /// that see `attended_pairs` keys in all in each attention layer, and `logit_rows` rows of
  /// logits. A model with an encoder runs that over `memory_rows`; 0: over the rows, and nothing
  /// else.
  double Flops(int64_t rows, double attended_pairs, int64_t logit_rows,
               int64_t memory_rows = 0) const;

  /// The whole stack. CANCELLED when go_on said so; INVALID_ARGUMENT names what of the call is
  /// wrong; of caches, the errors and what they leave are
  /// MultiHeadAttention::Run's. Bits as there.
  absl::Status Forward(const ModelCall& call, Workspace& workspace) const;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace attention

// A served model: attention layers, and for most families embeddings and a whole stack of blocks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/attention/kv_cache.h"
#include "core/layers/multi_head_attention.h"
#include "core/models/model_info.h"
#include "core/runtime/yield.h"

namespace attention {

class Tokenizer;

struct ModelParts;

/// The token ids of one sequence. `type_ids` is empty (all 0) or as long as `ids`.
struct TokenSequence {
  std::span<const int32_t> ids;
  std::span<const int32_t> type_ids = {};
  int64_t first_position = 0;
};

/// The result of a run of the whole stack for a sequence.
enum class ModelOutput {
  kHiddenStates,  // [seq_len, d_model], after the last norm
  kMeanPooled,    // [1, d_model]: their mean
  kFirstPooled,   // [1, d_model]: the first row ([CLS])
  kLogits,        // [seq_len, vocab_size]
  kLastLogits,    // [1, vocab_size]
};

/// The layers and heads whose attention weights a run of the whole stack returns. Layers ascend,
/// each is there once. Empty `heads`: all heads.
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
  /// The memory of the result, of the extents that Model::OutputOf gives; any dtype.
  MutableMatrixView output = {};
  /// The weights to return, borrowed. Null: no weights.
  const WeightsChoice* weights_choice = nullptr;
  /// The memory of the weights: for each chosen layer f32 [chosen heads, seq_len, keys], with
  /// Model::NumKeys keys.
  std::vector<float*> weights = {};
  /// Empty, or the caches of Model::MakeCaches, borrowed: the rows then follow the cached rows, as
  /// LayerSequence::cache describes.
  std::span<KvCache> caches = {};
  /// Empty, or f32 [cached rows, d_model]: the hidden states of the cached rows after the last
  /// norm. The output is then that of the cached rows and the new ones, as if all were new.
  MatrixView earlier = {};
  /// Null, or f32 [seq_len, d_model], where the hidden states of the new rows after the last norm
  /// are written too.
  float* hidden_states = nullptr;
};

/// A run of the whole stack over a ragged batch, in row order without gaps. Views are f32.
struct ModelCall {
  /// [total_tokens, d_model]: embedded tokens, or the input of the first block.
  MatrixView hidden_states;
  /// [total_memory, d_model], for a model with an encoder: the input of the encoder. Without it
  /// such a model runs its encoder over hidden_states and returns the encoder's output.
  std::optional<MatrixView> memory = {};
  std::span<const ModelSequence> sequences;
  /// The model calls this between sublayers, and within them as LayerCall::yield. It returns
  /// whether to continue. May be null.
  Yield yield = nullptr;
};

/// A model that can be served. Immutable after creation; thread-safe.
class Model {
 public:
  /// Makes a model with generated weights. INVALID_ARGUMENT when the extents are inconsistent.
  static absl::StatusOr<std::unique_ptr<Model>> CreateSeeded(const SeededModelSpec& spec);
  explicit Model(std::unique_ptr<ModelParts> state);
  ~Model();

  const ModelInfo& info() const;
  const std::string& name() const { return info().name; }
  /// Returns a number from 1 on that no other model of the process has, also not one that takes the
  /// memory of this one after its end.
  uint64_t number() const { return number_; }

  /// REQUIRES: 0 <= layer < info().layers.size().
  const MultiHeadAttention& layer(int64_t layer) const;

  /// Returns `requested`, completed by the options of the layer: the layer's rotation, norms,
  /// scale, softcap and window replace the defaults. `causal` and `query_offset` are those of the
  /// request. `kv_len` is the number of keys of the sequence, cached keys included; some rotations
  /// choose their frequencies by it. The result borrows from the model and from `requested`.
  AttentionOptions LayerOptions(int64_t layer, const AttentionOptions& requested,
                                int64_t kv_len) const;

  /// Returns the tokenizer; null when the model takes no text.
  const Tokenizer* tokenizer() const;

  /// Returns the id of tokens that have no position of their own (RoBERTa's rule): the positions of
  /// later tokens depend on how many there are. None: every token has its own position.
  std::optional<int32_t> padding_id() const;

  /// Checks the tokens. INVALID_ARGUMENT, which names `token_ids`, for an id out of range or too
  /// many positions.
  absl::Status ValidateTokens(const TokenSequence& tokens) const;
  /// Writes the embedded tokens, f32 [ids, d_model]. REQUIRES: ValidateTokens was OK.
  void Embed(const TokenSequence& tokens, float* hidden_states) const {
    EmbedRows(tokens, 0, std::ssize(tokens.ids), hidden_states);
  }
  /// Writes the embedded tokens [first, first + count), f32 [count, d_model]: the same rows as
  /// Embed. REQUIRES: ValidateTokens was OK.
  void EmbedRows(const TokenSequence& tokens, int64_t first, int64_t count,
                 float* hidden_states) const;

  /// The number of rows and the width of ModelSequence::output.
  struct OutputExtents {
    int64_t rows = 0;
    int64_t width = 0;
  };
  OutputExtents OutputOf(ModelOutput wanted, int64_t seq_len) const;
  /// Returns the number of columns of a layer's weights for a sequence. `seq_len` includes cached
  /// tokens.
  int64_t NumKeys(int64_t layer, int64_t seq_len, int64_t memory_len) const;

  /// Makes one cache for each layer, for a sequence that the stack continues. With `memory` null
  /// the caches have a budget of their own. INVALID_ARGUMENT for a model without a stack or with an
  /// encoder, for layers that are not causal (earlier rows would attend to later keys), and for
  /// layers that add keys.
  absl::StatusOr<std::vector<KvCache>> MakeCaches(KeyValueStorage storage,
                                                  std::shared_ptr<KvMemory> memory,
                                                  int64_t page_tokens = kDefaultPageTokens) const;
  /// Makes a cache of one layer, for LayerSequence::cache. INVALID_ARGUMENT for cross-attention,
  /// and for the errors of MultiHeadAttention::CacheShape. REQUIRES: 0 <= layer <
  /// info().layers.size().
  absl::StatusOr<KvCache> MakeLayerCache(int64_t layer, KeyValueStorage storage,
                                         std::shared_ptr<KvMemory> memory,
                                         int64_t page_tokens = kDefaultPageTokens) const;
  /// Returns INVALID_ARGUMENT when a sequence of `cached_len` tokens may not grow by `new_tokens`:
  /// because the model's rotations are not valid for that length (dynamic scaling), or because they
  /// would use other frequencies (LongRoPE) than the cached keys have. A truncation is checked in
  /// the same way. The check applies to rows of every kind; ValidateTokens also bounds tokens,
  /// which need position embeddings.
  absl::Status CheckGrowth(int64_t cached_len, int64_t new_tokens) const;

  /// Returns the number of floating point operations of Forward, counted as in
  /// MultiHeadAttention::Flops: `rows` rows of hidden states attend to `attended_pairs` keys in
  /// total in each attention layer, and `logit_rows` rows have logits. A model with an encoder runs
  /// it over `memory_rows` rows; 0: it runs the encoder over the rows, and nothing else.
  double Flops(int64_t rows, double attended_pairs, int64_t logit_rows,
               int64_t memory_rows = 0) const;

  /// Runs the whole stack. CANCELLED when yield returned false; INVALID_ARGUMENT names the wrong
  /// field of the call. Errors of caches, exceptions, the state after them, the rule about threads
  /// and the promise about bits are those of MultiHeadAttention::Run.
  absl::Status Forward(const ModelCall& call, Workspace& workspace) const;

 private:
  const uint64_t number_;
  std::unique_ptr<ModelParts> state_;
};

}  // namespace attention

// What a client asks for, and what it gets. B batch size, S sequence length, E d_model, H query
// heads, Hkv key/value heads, D key width, Dv value width, T total tokens of a packed batch, V
// vocabulary size, N number of sequences, as in attention.proto, whose field comments hold here
// too.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "core/tensor/tensor.h"
#include "proto/attention/v1/attention.pb.h"

namespace attention {

/// Input rows of a model's layer, or of its whole stack. Tensors are borrowed until the call
/// returns.
struct HiddenStatesInput {
  /// [B, S, E] or [T, E]; null beside `memory`: the encoder alone.
  const Tensor* tensor = nullptr;
  std::vector<int64_t> lengths = {};
  const Tensor* memory = nullptr;  // [B, Sm, E] or [Tm, E]; null for self-attention
  std::vector<int64_t> memory_lengths = {};
  const Tensor* memory_values = nullptr;  // where values come from rows of another width
};

struct TokenIdsInput {
  std::vector<int32_t> ids;
  std::vector<int64_t> lengths = {};
  std::vector<int32_t> type_ids = {};  // empty, or one for each id
};

/// For the model's own tokenizer; one sequence for each text.
struct TextInput {
  std::vector<std::string> texts;
  bool no_special_tokens = false;
};

/// Attention without weights. Tensors are borrowed until the call returns.
struct QueryKeyValueInput {
  const Tensor* query = nullptr;  // [B, Sq, H, D] or [T, H, D]
  const Tensor* key = nullptr;    // [B, Sk, Hkv, D] or [Tk, Hkv, D]
  const Tensor* value = nullptr;  // [B, Sk, Hkv, Dv] or [Tk, Hkv, Dv]
  std::vector<int64_t> lengths = {};
  std::vector<int64_t> kv_lengths = {};
  std::vector<int64_t> query_offsets = {};
};

/// Which keys a row may see: 0 hides one.
struct MaskTensor {
  Shape shape;
  std::vector<uint8_t> values = {};
};

struct AttendRequest {
  std::string model;  // empty for QueryKeyValueInput
  std::variant<HiddenStatesInput, TokenIdsInput, QueryKeyValueInput, TextInput> input;
  /// Attention of this layer; none: the whole stack of a model that has one.
  std::optional<int64_t> layer = std::nullopt;
  /// None: the highest.
  std::optional<int64_t> model_version = std::nullopt;
  /// What a whole stack leaves, and of which of its layers and heads the weights are wanted too (no
  /// layers: of none).
  v1::ModelOutput model_output = v1::LAST_HIDDEN_STATES;
  v1::WeightsChoice weights_choice = {};
  /// What kind of attention, and what to return beside the output; without its tensors, which are
  /// the two members below.
  v1::AttentionOptions options = {};
  /// [1 or B, 1 or H, Sq, Sk], borrowed until the call returns, or null. The bias is FP32.
  const Tensor* bias = nullptr;
  const MaskTensor* mask = nullptr;
};

/// Where the time of one call went.
struct Timings {
  /// By the server's clock: waiting for a batch, computing, and from arrival to answer.
  absl::Duration queue, compute, server_total;
  /// By the server's too: from the arrival of the call until all of the request was there.
  absl::Duration receive;
  /// By the client's: from encoding the request to the decoded answer.
  absl::Duration client_total;

  /// Transport, encoding and decoding.
  absl::Duration wire() const { return client_total - server_total; }
};

/// What a request was computed together with, itself included.
struct BatchFacts {
  uint64_t id = 0;
  int64_t requests = 0;
  int64_t sequences = 0;
  int64_t tokens = 0;
};

/// The k largest weights of each row of a sequence.
struct LargestWeights {
  Tensor weights;             // FP32 [H, query_len, k]
  std::vector<int32_t> keys;  // of the same shape; -1 where a row sees fewer keys
};

/// Of one layer in a run of the whole stack.
struct LayerWeights {
  int64_t layer = 0;
  int64_t sequence = 0;
  Tensor weights;  // FP32 [chosen heads, query_len, kv_len]
};

struct AttendResult {
  /// [B, S, E] or [T, E] as the input was, [T, E] for token ids and texts, or as model_output says;
  /// [B, Sq, H, Dv] or [T, H, Dv].
  Tensor output;
  /// One FP32 [H, query_len, kv_len] per sequence when asked for.
  std::vector<Tensor> weights;
  /// One FP32 [H, query_len] per sequence when asked for.
  std::vector<Tensor> log_sum_exp;
  std::vector<LargestWeights> top_weights;
  /// For texts: one per sequence.
  std::vector<v1::TokenizedText> tokens;
  /// For each sequence its chosen layers, in order.
  std::vector<LayerWeights> layer_weights;
  Timings timings;
  BatchFacts batch;
};

/// Some rows of one sequence, or of one head's weights of it, as they arrive.
struct RowBlock {
  int64_t sequence = 0;
  int64_t first_row = 0;
  Tensor rows;  // [rows, E], [rows, V] or [rows, H, Dv]; weights: [rows, kv_len]
};
struct WeightsBlock {
  int64_t head = 0;
  RowBlock block;
};
struct LogSumExpBlock {
  int64_t head = 0;
  RowBlock block;  // [rows]
};
struct TopWeightsBlock {
  int64_t head = 0;
  RowBlock block;  // weights [rows, k]
  std::vector<int32_t> keys;
};

struct LayerWeightsBlock {
  int64_t layer = 0;
  int64_t head = 0;  // its number in the layer
  RowBlock block;
};
/// Some tokens of one text.
struct TokensBlock {
  int64_t sequence = 0;
  int64_t first_token = 0;
  v1::TokenizedText tokens;
};

/// What becomes of a streamed answer.
struct StreamSink {
  /// Receives rows of the output as they arrive, on the calling thread. When it returns false, the
  /// call is cancelled and returns CANCELLED. May be empty.
  std::function<bool(const RowBlock&)> on_rows = nullptr;
  /// Also put all blocks together as the tensors of AttendResult, which else stay empty.
  bool assemble = false;
};

}  // namespace attention

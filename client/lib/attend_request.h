// Requests of a client, and their answers. B batch size, S sequence length, E d_model, H query
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
  /// The rows, [B, S, E] or [T, E]; null with `memory`: only the encoder runs.
  const Tensor* tensor = nullptr;
  std::vector<int64_t> lengths = {};
  const Tensor* memory = nullptr;  // [B, Sm, E] or [Tm, E]; null for self-attention
  std::vector<int64_t> memory_lengths = {};
  const Tensor* memory_values = nullptr;  // rows of values, if their width differs
};

/// Token ids for a model with embeddings.
struct TokenIdsInput {
  std::vector<int32_t> ids;
  std::vector<int64_t> lengths = {};
  std::vector<int32_t> type_ids = {};  // empty, or one for each id
};

/// Texts for the model's tokenizer; each text is a sequence.
struct TextInput {
  std::vector<std::string> texts;
  bool no_special_tokens = false;
};

/// Attention without a model. Tensors are borrowed until the call returns.
struct QueryKeyValueInput {
  const Tensor* query = nullptr;  // [B, Sq, H, D] or [T, H, D]
  const Tensor* key = nullptr;    // [B, Sk, Hkv, D] or [Tk, Hkv, D]
  const Tensor* value = nullptr;  // [B, Sk, Hkv, Dv] or [Tk, Hkv, Dv]
  std::vector<int64_t> lengths = {};
  std::vector<int64_t> kv_lengths = {};
  std::vector<int64_t> query_offsets = {};
};

/// A mask of keys by row, in which 0 hides a key.
struct MaskTensor {
  Shape shape;
  std::vector<uint8_t> values = {};
};

/// A request. Absent options have the defaults of attention.proto.
struct AttendRequest {
  std::string model;  // empty for QueryKeyValueInput
  std::variant<HiddenStatesInput, TokenIdsInput, QueryKeyValueInput, TextInput> input;
  /// The layer to run; absent: the whole stack.
  std::optional<int64_t> layer = std::nullopt;
  /// The version of the model; absent: the highest.
  std::optional<int64_t> model_version = std::nullopt;
  /// The output of a whole stack.
  v1::ModelOutput model_output = v1::LAST_HIDDEN_STATES;
  /// The layers and heads of a whole stack whose weights are returned too; no layers: none.
  v1::WeightsChoice weights_choice = {};
  /// The kind of attention, and the scores to return beside the output. Bias and mask must not be
  /// set in it: they are the two members below.
  v1::AttentionOptions options = {};
  /// The bias, FP32 [1 or B, 1 or H, Sq, Sk], borrowed until the call returns, or null.
  const Tensor* bias = nullptr;
  /// The mask, [1 or B, 1 or H, Sq, Sk], borrowed until the call returns, or null.
  const MaskTensor* mask = nullptr;
};

/// The next tokens of a session's sequence. Tensors are borrowed until the call returns.
struct StepRequest {
  /// The input of one packed sequence: [n, E]; ids; one text; query [n, H, D] with key and value of
  /// as many rows. Lengths and memory must not be set. With one value of query_offsets,
  /// the position of the first query row, query and key may have different numbers of rows, and
  /// either may have none.
  decltype(AttendRequest::input) input = {};
  v1::ModelOutput model_output = v1::LAST_HIDDEN_STATES;
  /// The number of largest logits after the last token that replace the output; 0: none.
  int64_t top_logits = 0;
  /// Whether the step only adds the tokens to the sequence.
  bool no_output = false;
};

/// The k largest weights of each row of a sequence.
struct LargestWeights {
  Tensor weights;             // FP32 [H, query_len, k]
  std::vector<int32_t> keys;  // [H, query_len, k]; -1 where a row has fewer keys
};

/// The weights of one layer in a run of the whole stack.
struct LayerWeights {
  int64_t layer = 0;
  int64_t sequence = 0;
  Tensor weights;  // FP32 [chosen heads, query_len, kv_len]
};

/// An answer.
struct AttendResult {
  /// The output. It has the form of the input: [B, S, E] or [T, E] ([T, E] for token ids and
  /// texts); [N, E], [T, V] or [N, V] as model_output says; [B, Sq, H, Dv] or [T, H, Dv] without a
  /// model.
  Tensor output;
  /// The weights of each sequence, FP32 [H, query_len, kv_len], with return_weights.
  std::vector<Tensor> weights;
  /// The log-sum-exps of each sequence, FP32 [H, query_len], with return_log_sum_exp.
  std::vector<Tensor> log_sum_exp;
  /// The largest weights of each sequence, with weights_top_k.
  std::vector<LargestWeights> top_weights;
  /// The tokens of each text.
  std::vector<v1::TokenizedText> tokens;
  /// The weights of the chosen layers, sequence by sequence.
  std::vector<LayerWeights> layer_weights;
  /// The server's measurements: times, batch and cached tokens; empty if the protocol has none.
  v1::Summary summary;
  /// The time, of the client's clock, from encoding the request to the decoded answer.
  absl::Duration client_total;
};

/// Rows of one sequence, as they arrive.
struct RowBlock {
  int64_t sequence = 0;
  int64_t first_row = 0;
  Tensor rows;  // of the output: [rows, E], [rows, V] or [rows, H, Dv]
};
/// Scores of rows of one head of a sequence.
struct ScoresBlock {
  enum class Kind { kWeights, kLogSumExp, kTopWeights, kLayerWeights };
  Kind kind = Kind::kWeights;
  int64_t layer = 0;  // of kLayerWeights
  int64_t head = 0;   // its number in the layer
  /// The scores, FP32 [rows, kv_len]; for kLogSumExp [rows]; for kTopWeights [rows, k].
  RowBlock block = {};
  std::vector<int32_t> keys = {};  // of kTopWeights, [rows, k]
};

/// Tokens of one text.
struct TokensBlock {
  int64_t sequence = 0;
  int64_t first_token = 0;
  v1::TokenizedText tokens;
};

/// One message of a streamed answer; the last of a stream is its summary.
using StreamMessage = std::variant<RowBlock, ScoresBlock, TokensBlock, v1::Summary>;

/// The receiver of a streamed answer.
struct StreamSink {
  /// A function that receives rows of the output as they arrive, on the calling thread; may be
  /// empty. When it returns false, the call is cancelled and returns CANCELLED.
  std::function<bool(const RowBlock&)> on_rows = nullptr;
  /// Whether blocks are joined to the tensors of AttendResult, which otherwise stay empty.
  bool assemble = false;
};

}  // namespace attention

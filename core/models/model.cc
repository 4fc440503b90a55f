#include "core/models/model.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/models/model_parts.h"

namespace attention {
namespace {

absl::Status OutOfRange(const char* field, int64_t end, int64_t found, int64_t position) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": expected 0 to ", end - 1, ", found ",
                                                 found, " at position ", position));
}

absl::Status CheckRange(const char* field, std::span<const int32_t> values, int64_t end) {
  const auto bad = std::find_if(values.begin(), values.end(),
                                [end](int32_t value) { return value < 0 || value >= end; });
  return bad == values.end() ? absl::OkStatus()
                             : OutOfRange(field, end, *bad, bad - values.begin());
}

RmsNorm Borrow(const Norm& norm) { return {norm.weight.data(), norm.epsilon}; }

/// Copies row `id` of the token table to `row`, as f32.
void CopyTokenRow(const ModelParts& state, int32_t id, float* row) {
  const Embedding& embedding = *state.embedding;
  const int64_t width = state.info.d_model;
  if (embedding.tokens.size_bytes() == 0) {
    state.head->linear.CopyChannel(id, row);
    return;
  }
  Convert(embedding.dtype, ElementAt(embedding.tokens.data(), embedding.dtype, id * width),
          Dtype::kF32, row, width);
}

void Add(const std::vector<float>& table, int64_t index, int64_t width, float* row) {
  const float* added = &table[index * width];
  std::transform(row, row + width, added, row, std::plus<>());
}

/// Returns 1, 2, 3 and so on; any thread.
uint64_t NextNumber() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

}  // namespace

Model::Model(std::unique_ptr<ModelParts> state) : number_(NextNumber()), state_(std::move(state)) {}
Model::~Model() = default;

const ModelInfo& Model::info() const { return state_->info; }

const MultiHeadAttention& Model::layer(int64_t layer) const {
  return *state_->layers[layer].attention;
}

const Tokenizer* Model::tokenizer() const { return state_->tokenizer.get(); }

std::optional<int32_t> Model::padding_id() const {
  return state_->embedding.has_value() ? state_->embedding->padding_id : std::nullopt;
}

AttentionOptions Model::LayerOptions(int64_t layer, const AttentionOptions& requested,
                                     int64_t kv_len) const {
  const ModelLayer& own = state_->layers[layer];
  AttentionOptions options = requested;
  if (requested.similarity == Similarity::kDotProduct) {
    options.scale = requested.scale.has_value() ? requested.scale : own.scale;
    options.softcap = requested.softcap > 0 ? requested.softcap : own.softcap;
  }
  if (requested.window == 0 && requested.similarity != Similarity::kLinear) {
    options.window = info().layers[layer].window;
  }
  if (!requested.query_norm.has_value() && own.query_norm.has_value()) {
    options.query_norm = Borrow(*own.query_norm);
  }
  if (!requested.key_norm.has_value() && own.key_norm.has_value()) {
    options.key_norm = Borrow(*own.key_norm);
  }
  if (!requested.rotary.has_value() && own.rotary.has_value()) {
    options.rotary = own.rotary->rotary;
    const bool is_long = !own.rotary->long_frequencies.empty() && kv_len > own.rotary->long_from;
    const std::vector<double>& frequencies =
        is_long ? own.rotary->long_frequencies : own.rotary->frequencies;
    options.rotary->frequencies = frequencies.empty() ? nullptr : frequencies.data();
  }
  return options;
}

absl::Status Model::ValidateTokens(const TokenSequence& tokens) const {
  const ModelInfo& info = state_->info;
  if (info.vocab_size == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model ", info.name, " takes no token ids: expected hidden_states, found token_ids"));
  }
  absl::Status status = CheckRange("token_ids.ids", tokens.ids, info.vocab_size);
  if (status.ok() && !tokens.type_ids.empty() && info.num_token_types == 0) {
    status =
        absl::InvalidArgumentError(absl::StrCat("token_ids.type_ids: expected none, since model ",
                                                info.name, " has no token types, found some"));
  }
  if (status.ok() && !tokens.type_ids.empty()) {
    status = CheckRange("token_ids.type_ids", tokens.type_ids, info.num_token_types);
  }
  const int64_t end = tokens.first_position + std::ssize(tokens.ids);
  if (status.ok() && info.max_positions.has_value() && end > *info.max_positions) {
    status =
        absl::InvalidArgumentError(absl::StrCat("token_ids: expected at most ", *info.max_positions,
                                                " positions, found a sequence that ends at ", end));
  }
  return status;
}

void Model::EmbedRows(const TokenSequence& tokens, int64_t first, int64_t count,
                      float* hidden_states) const {
  const Embedding& embedding = *state_->embedding;
  const int64_t width = state_->info.d_model;
  int64_t counted = 0;  // tokens that are no padding
  if (embedding.padding_id.has_value()) {
    counted =
        first - std::count(tokens.ids.begin(), tokens.ids.begin() + first, *embedding.padding_id);
  }
  for (int64_t i = first; i < first + count; ++i) {
    float* row = hidden_states + (i - first) * width;
    CopyTokenRow(*state_, tokens.ids[i], row);
    if (embedding.scale != 1) {
      std::transform(row, row + width, row, [&](float x) { return x * embedding.scale; });
    }
    if (!embedding.positions.empty()) {
      int64_t position = tokens.first_position + i;
      if (embedding.padding_id.has_value()) {
        const bool is_padding = tokens.ids[i] == *embedding.padding_id;
        position = *embedding.padding_id + (is_padding ? 0 : tokens.first_position + ++counted);
      }
      Add(embedding.positions, position, width, row);
    }
    if (!embedding.types.empty()) {
      Add(embedding.types, tokens.type_ids.empty() ? 0 : tokens.type_ids[i], width, row);
    }
  }
  if (embedding.norm.has_value()) {
    ThreadPool alone(1);
    const MutableMatrixView rows{hidden_states, Dtype::kF32, count, width, width};
    embedding.norm->Run({rows.data, rows.dtype, rows.rows, width, width}, rows, alone);
  }
}

Model::OutputExtents Model::OutputOf(ModelOutput wanted, int64_t seq_len) const {
  const bool is_logits = wanted == ModelOutput::kLogits || wanted == ModelOutput::kLastLogits;
  const bool is_every_row = wanted == ModelOutput::kLogits || wanted == ModelOutput::kHiddenStates;
  return {is_every_row ? seq_len : 1, is_logits ? info().vocab_size : info().d_model};
}

int64_t Model::NumKeys(int64_t layer, int64_t seq_len, int64_t memory_len) const {
  const ModelLayerInfo& info_of_layer = info().layers[layer];
  return (info_of_layer.is_cross ? memory_len : seq_len) + info_of_layer.extra_keys;
}

}  // namespace attention

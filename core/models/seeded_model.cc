#include "core/models/seeded_model.h"

#include <cstring>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/models/model.h"
#include "core/models/model_name.h"
#include "core/models/model_parts.h"
#include "core/runtime/call_field.h"
#include "core/runtime/status_macros.h"
#include "core/tensor/seeded.h"

namespace attention {
namespace {

absl::Status BadValue(const std::string& key, const char* expected, const std::string& found) {
  return absl::InvalidArgumentError(
      absl::StrCat(key, ": expected ", expected, ", found '", found, "'"));
}

absl::Status SetDtype(const std::string& value, SeededModelSpec& spec) {
  if (value != "fp32" && value != "bf16") {
    return BadValue("dtype", "fp32 or bf16", value);
  }
  spec.dtype = value == "bf16" ? Dtype::kBf16 : Dtype::kF32;
  return absl::OkStatus();
}

absl::Status SetCausal(const std::string& value, SeededModelSpec& spec) {
  if (!absl::SimpleAtob(value, &spec.causal)) {
    return BadValue("causal", "true or false", value);
  }
  return absl::OkStatus();
}

absl::Status SetField(const std::string& key, const std::string& value, SeededModelSpec& spec) {
  if (key == "dtype") {
    return SetDtype(value, spec);
  }
  if (key == "causal") {
    return SetCausal(value, spec);
  }
  if (key == "seed") {
    return absl::SimpleAtoi(value, &spec.seed) ? absl::OkStatus()
                                               : BadValue(key, "a number", value);
  }
  const std::map<std::string, int64_t*> fields = {{"d_model", &spec.d_model},
                                                  {"num_heads", &spec.num_heads},
                                                  {"num_kv_heads", &spec.num_kv_heads},
                                                  {"head_dim", &spec.head_dim},
                                                  {"value_head_dim", &spec.value_head_dim},
                                                  {"vocab_size", &spec.vocab_size},
                                                  {"max_positions", &spec.max_positions}};
  const auto field = fields.find(key);
  if (field == fields.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "unknown key '", key, "': expected one of ",
        absl::StrJoin(fields, ", ", [](std::string* out, const auto& f) { out->append(f.first); }),
        ", dtype, causal, seed"));
  }
  if (!absl::SimpleAtoi(value, field->second) || *field->second < 1) {
    return BadValue(key, "a positive number", value);
  }
  return absl::OkStatus();
}

MultiHeadAttentionWeights Borrow(const SeededLayer& layer) {
  return {.query = {.data = layer.query.data(), .bias = layer.query_bias.data()},
          .key = {.data = layer.key.data(), .bias = layer.key_bias.data()},
          .value = {.data = layer.value.data(), .bias = layer.value_bias.data()},
          .output = {.data = layer.output.data(), .bias = layer.output_bias.data()}};
}

/// The largest extent of a seeded model. The number of its weights then fits 64 bits.
constexpr int64_t kMaxExtent = 1 << 20;
/// The most weights of a seeded model: 1 TiB as f32.
constexpr int64_t kMaxWeights = int64_t{1} << 38;

/// Checks the extents, of which some may be 0: left out.
absl::Status ValidateExtents(const SeededModelSpec& spec) {
  RETURN_IF_ERROR(ExpectWithin({"d_model"}, 1, kMaxExtent, spec.d_model));
  RETURN_IF_ERROR(ExpectWithin({"num_heads"}, 1, kMaxExtent, spec.num_heads));
  RETURN_IF_ERROR(ExpectWithin({"num_kv_heads"}, 0, kMaxExtent, spec.num_kv_heads));
  RETURN_IF_ERROR(ExpectWithin({"head_dim"}, 0, kMaxExtent, spec.head_dim));
  RETURN_IF_ERROR(ExpectWithin({"value_head_dim"}, 0, kMaxExtent, spec.value_head_dim));
  RETURN_IF_ERROR(ExpectWithin({"vocab_size"}, 0, kMaxExtent, spec.vocab_size));
  const int64_t least = spec.vocab_size > 0 ? 1 : 0;  // a vocabulary needs positions
  RETURN_IF_ERROR(ExpectWithin({"max_positions"}, least, kMaxExtent, spec.max_positions));
  return spec.head_dim > 0 || spec.d_model % spec.num_heads == 0
             ? absl::OkStatus()
             : WrongField({"d_model"},
                          absl::StrCat("a multiple of num_heads ", spec.num_heads,
                                       " unless head_dim is given"),
                          spec.d_model);
}

/// Returns the specification with the extents that it leaves out.
absl::StatusOr<SeededModelSpec> Completed(SeededModelSpec spec) {
  RETURN_IF_ERROR(ValidateExtents(spec));
  spec.num_kv_heads = spec.num_kv_heads > 0 ? spec.num_kv_heads : spec.num_heads;
  spec.head_dim = spec.head_dim > 0 ? spec.head_dim : spec.d_model / spec.num_heads;
  spec.value_head_dim = spec.value_head_dim > 0 ? spec.value_head_dim : spec.head_dim;
  const int64_t layer_rows =
      (spec.num_heads + spec.num_kv_heads) * (spec.head_dim + spec.value_head_dim);
  const int64_t embedding_rows = spec.vocab_size > 0 ? spec.vocab_size + spec.max_positions : 0;
  RETURN_IF_ERROR(ExpectWithin({"number of weights"}, 1, kMaxWeights,
                               spec.d_model * (layer_rows + embedding_rows)));
  return spec;
}

Embedding SeededEmbedding(const SeededModelSpec& spec) {
  const std::vector<float> tokens =
      MakeSeededEmbedding(spec.seed, spec.dtype, "token_embedding", spec.vocab_size, spec.d_model);
  Embedding embedding{.tokens = MappedBuffer(tokens.size() * sizeof(float)),
                      .positions = MakeSeededEmbedding(spec.seed, spec.dtype, "position_embedding",
                                                       spec.max_positions, spec.d_model)};
  std::memcpy(embedding.tokens.data(), tokens.data(), embedding.tokens.size_bytes());
  return embedding;
}

}  // namespace

SeededModelSpec DemoModelSpec() {
  return {.name = "demo",
          .seed = 1,
          .d_model = 512,
          .num_heads = 8,
          .vocab_size = 1000,
          .max_positions = 2048};
}

absl::StatusOr<SeededModelSpec> ParseSeededModelSpec(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits(':', 1));
  SeededModelSpec spec{.name = parts.front()};
  if (parts.size() != 2 || spec.name.empty()) {
    return BadValue("specification", "NAME:d_model=N,num_heads=N", text);
  }
  RETURN_IF_ERROR(ValidateModelName(spec.name));
  std::set<std::string> keys;
  for (const std::string& item : std::vector<std::string>(absl::StrSplit(parts[1], ','))) {
    const std::vector<std::string> pair = absl::StrSplit(item, absl::MaxSplits('=', 1));
    if (pair.size() != 2) {
      return BadValue("specification", "key=value", item);
    }
    if (!keys.insert(pair[0]).second) {
      return absl::InvalidArgumentError(absl::StrCat(pair[0], ": given twice"));
    }
    RETURN_IF_ERROR(SetField(pair[0], pair[1], spec));
  }
  return spec;
}

absl::StatusOr<std::unique_ptr<Model>> Model::CreateSeeded(const SeededModelSpec& given) {
  ASSIGN_OR_RETURN(const SeededModelSpec spec, Completed(given));
  auto state = std::make_unique<ModelParts>();
  const SeededLayer layer = MakeSeededLayer(spec.seed, spec.dtype,
                                            {.d_model = spec.d_model,
                                             .num_heads = spec.num_heads,
                                             .num_kv_heads = spec.num_kv_heads,
                                             .head_dim = spec.head_dim,
                                             .value_head_dim = spec.value_head_dim});
  const MultiHeadAttentionShape shape{.d_model = spec.d_model,
                                      .d_memory = spec.d_model,
                                      .num_heads = spec.num_heads,
                                      .num_kv_heads = spec.num_kv_heads,
                                      .head_dim = spec.head_dim,
                                      .value_head_dim = spec.value_head_dim};
  const WeightsDtype kept = spec.dtype == Dtype::kBf16 ? WeightsDtype::kBf16 : WeightsDtype::kF32;
  ModelLayer& only = state->layers.emplace_back();
  ASSIGN_OR_RETURN(only.attention, MultiHeadAttention::Create(shape, Borrow(layer), kept));
  only.causal = spec.causal;
  state->info = {.name = spec.name,
                 .version = spec.version,
                 .model_type = "seeded",
                 .d_model = spec.d_model,
                 .layers = {{.shape = shape, .causal = spec.causal}},
                 .vocab_size = spec.vocab_size,
                 .weights_dtype = kept,
                 .seeded = spec};
  if (spec.vocab_size > 0) {
    state->embedding = SeededEmbedding(spec);
    state->info.max_positions = spec.max_positions;
  }
  CountBytes(*state);
  return std::make_unique<Model>(std::move(state));
}

}  // namespace attention

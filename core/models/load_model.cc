#include "core/models/load_model.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/models/build_model.h"
#include "core/models/families/blocks.h"
#include "core/models/families/families.h"
#include "core/models/model_config.h"
#include "core/models/model_folder.h"
#include "core/runtime/status_macros.h"

namespace attention {

namespace {

namespace fs = std::filesystem;

absl::Status AddTokenizer(const std::string& folder, ModelParts& state) {
  constexpr char kFile[] = "tokenizer.json";
  const absl::StatusOr<std::string> path = ResolveInside(folder, kFile);
  std::error_code ignored;
  // A link that leads nowhere is a tokenizer that is missing, not a model without one.
  if (absl::IsNotFound(path.status()) &&
      !fs::is_symlink(fs::symlink_status(fs::path(folder) / kFile, ignored))) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(path.status());
  ASSIGN_OR_RETURN(state.tokenizer, Tokenizer::Load(*path));
  return absl::OkStatus();
}

/// Refuses weights that were stored quantized: their scales would not be applied.
void RefuseQuantization(ModelConfig& config) {
  if (!config.Has("quantization_config")) {
    return;
  }
  ModelConfig quantization = config.Object({"quantization_config"});
  const std::string method = quantization.Text({"quant_method"}, "");
  quantization.Refuse("quant_method",
                      "no quantization_config, since weights must be stored as F32, BF16, F16 or "
                      "F64 (--weights-dtype rounds them)",
                      method.empty() ? "one without a method" : absl::StrCat("\"", method, "\""));
  config.Adopt(quantization.status());
}

/// Reads `is_causal`, by which the config of any family says that a decoder was made an
/// encoder.
void ReadIsCausal(ModelConfig& config, StackDescription& stack) {
  if (config.Flag({"is_causal"}, true)) {
    return;
  }
  families::ForEachAttention(stack, [&](int64_t layer, AttentionDescription& attention) {
    attention.causal = false;
    if (attention.window > 0) {
      config.Refuse("is_causal", absl::StrCat("true beside the window of layer ", layer), "false");
    }
  });
}

}  // namespace

absl::StatusOr<LoadedModel> LoadModel(const ModelSource& source, WeightsDtype weights_dtype) {
  ASSIGN_OR_RETURN(const std::string config_path, ResolveInside(source.folder, "config.json"));
  ASSIGN_OR_RETURN(ModelConfig config, ModelConfig::Load(config_path));
  const std::string model_type = config.Text({"model_type"}, "");
  const DescribeFamily describe = FindFamily(model_type);
  if (describe == nullptr) {
    config.Refuse("model_type", absl::StrCat("one of ", absl::StrJoin(FamilyNames(), ", ")),
                  absl::StrCat("\"", model_type, "\""));
    return config.status();
  }
  RefuseQuantization(config);
  RETURN_IF_ERROR(config.status());
  ASSIGN_OR_RETURN(const std::unique_ptr<Checkpoint> checkpoint, Checkpoint::Open(source.folder));
  ModelDescription description = describe(config, *checkpoint);
  ReadIsCausal(config, description.stack);
  RETURN_IF_ERROR(config.status());
  ASSIGN_OR_RETURN(std::unique_ptr<ModelParts> state,
                   BuildModel(description, weights_dtype, *checkpoint));
  absl::Status tokenizer_status;
  if (state->embedding.has_value()) {
    tokenizer_status = AddTokenizer(source.folder, *state);
  }
  state->info.name = source.name;
  state->info.version = source.version;
  state->info.model_type = model_type;
  return LoadedModel{.model = std::make_unique<Model>(std::move(state)),
                     .unused_tensors = checkpoint->UnusedTensors(),
                     .read_bytes = checkpoint->used_bytes(),
                     .tokenizer_status = tokenizer_status};
}

}  // namespace attention

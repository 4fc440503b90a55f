#include "server/services/open_inference/model_interface.h"

#include <algorithm>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "server/services/plan/plan_run.h"

namespace attention {
namespace {

constexpr int64_t kAny = -1;
// The name of the highest version by Triton's clients.
constexpr char kLatestVersion[] = "-1";

const std::vector<std::string>& Floats() {
  static const std::vector<std::string> datatypes = {"FP32", "BF16", "FP16"};
  return datatypes;
}
// The integer datatypes, first the one that clients of Hugging Face send.
const std::vector<std::string>& Integers() {
  static const std::vector<std::string> datatypes = {"INT64", "INT32"};
  return datatypes;
}

TensorInterface LengthsInput(const std::string& name) {
  return {.name = name, .datatypes = {"INT32"}, .shape = {kAny}, .is_optional = true};
}

ModelInterface InterfaceWithoutModel() {
  const Shape shape(4, kAny);
  return {.inputs = {{"query", Floats(), shape},
                     {"key", Floats(), shape},
                     {"value", Floats(), shape},
                     {"bias", {"FP32"}, shape, true},
                     LengthsInput("kv_lengths")},
          .outputs = {{"output", Floats(), shape}, {"weights", {"FP32"}, shape}}};
}

// Returns the value that all layers share; -1 if they differ.
template <typename Value>
int64_t CommonOf(const std::vector<ModelLayerInfo>& layers, Value value) {
  const auto differs = [&](const ModelLayerInfo& layer) {
    return value(layer) != value(layers[0]);
  };
  return std::any_of(layers.begin(), layers.end(), differs) ? kAny : value(layers[0]);
}

void AddTokenInputs(const ModelInfo& info, ModelInterface& interface) {
  if (info.vocab_size > 0) {
    interface.inputs.push_back({"input_ids", Integers(), {kAny, kAny}, true, true});
  }
  if (info.num_token_types > 0) {
    interface.inputs.push_back({"token_type_ids", Integers(), {kAny, kAny}, true});
  }
}

// Adds the inputs of memory if a layer or an encoder takes them.
void AddMemoryInputs(const ModelInfo& info, ModelInterface& interface) {
  const auto is_cross = [](const ModelLayerInfo& layer) { return layer.is_cross; };
  if (info.has_stack && !info.has_encoder &&
      std::none_of(info.layers.begin(), info.layers.end(), is_cross)) {
    return;
  }
  const bool is_required_in_metadata =
      info.has_stack ? info.has_encoder : info.layers[0].needs_memory();
  const auto add = [&](const std::string& name, int64_t width) {
    interface.inputs.push_back(
        {name, Floats(), {kAny, kAny, width}, true, is_required_in_metadata});
  };
  add("memory", CommonOf(info.layers, [](const auto& layer) { return layer.shape.d_memory; }));
  interface.inputs.push_back(LengthsInput("memory_lengths"));
  const auto has_values = [](const auto& layer) { return layer.shape.has_memory_values(); };
  if (std::any_of(info.layers.begin(), info.layers.end(), has_values)) {
    add("memory_values",
        CommonOf(info.layers, [](const auto& layer) { return layer.shape.d_memory_value; }));
  }
}

ModelInterface InterfaceOfModel(const ModelInfo& info) {
  const int64_t width =
      CommonOf(info.layers, [](const auto& layer) { return layer.shape.d_model; });
  const int64_t heads =
      CommonOf(info.layers, [](const auto& layer) { return layer.shape.num_heads; });
  ModelInterface interface;
  AddTokenInputs(info, interface);
  const bool has_choice = info.vocab_size > 0 || info.has_encoder;
  interface.inputs.push_back(
      {"hidden_states", Floats(), {kAny, kAny, width}, has_choice, info.vocab_size == 0});
  interface.inputs.push_back(LengthsInput("lengths"));
  interface.inputs.push_back({"attention_mask", Integers(), {kAny, kAny}, true});
  AddMemoryInputs(info, interface);
  interface.outputs = {{"output", Floats(), {kAny, kAny, width}}};
  if (!info.has_stack) {
    interface.outputs.push_back({"weights", {"FP32"}, {kAny, heads, kAny, kAny}});
  }
  return interface;
}

absl::StatusOr<std::optional<int64_t>> ReadVersion(const std::string& text,
                                                   const ModelField& field) {
  if (text.empty() || text == kLatestVersion) {
    return std::optional<int64_t>();
  }
  int64_t version = 0;
  if (!std::all_of(text.begin(), text.end(), absl::ascii_isdigit) ||
      !absl::SimpleAtoi(text, &version)) {
    return absl::InvalidArgumentError(
        absl::StrCat(field.version_path, ": expected a decimal number, or nothing or ",
                     kLatestVersion, " for the highest, found \"", text, "\""));
  }
  return std::optional<int64_t>(version);
}

}  // namespace

absl::StatusOr<InferTarget> FindTarget(const ModelRepository& models, const std::string& name,
                                       const std::string& version, ModelField field) {
  field.other_names = {kWithoutModel};
  ASSIGN_OR_RETURN(const std::optional<int64_t> number, ReadVersion(version, field));
  if (name != kWithoutModel) {
    ASSIGN_OR_RETURN(std::shared_ptr<const Model> model, FindModel(models, name, number, field));
    const int64_t found = model->info().version;
    return InferTarget{name, found, std::move(model)};
  }
  if (number.value_or(kWithoutModelVersion) != kWithoutModelVersion) {
    return absl::NotFoundError(absl::StrCat(field.version_path, ": expected ", kWithoutModelVersion,
                                            " of model \"", name, "\", found ", *number));
  }
  return InferTarget{name, kWithoutModelVersion, nullptr};
}

ModelInterface InterfaceOf(const InferTarget& target) {
  return target.model == nullptr ? InterfaceWithoutModel() : InterfaceOfModel(target.model->info());
}

std::string NameInErrors(const InferTarget& target) {
  return absl::StrCat("model \"", target.name, "\"");
}

}  // namespace attention

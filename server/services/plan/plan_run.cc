#include "server/services/plan/plan_run.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "server/services/plan/field_error.h"

namespace attention {
namespace {

// The enumerators are in the order of the wire's.
static_assert(static_cast<int>(ModelOutput::kHiddenStates) == v1::LAST_HIDDEN_STATES &&
              static_cast<int>(ModelOutput::kMeanPooled) == v1::MEAN_POOLED &&
              static_cast<int>(ModelOutput::kFirstPooled) == v1::CLS_POOLED &&
              static_cast<int>(ModelOutput::kLogits) == v1::LOGITS &&
              static_cast<int>(ModelOutput::kLastLogits) == v1::LAST_LOGITS);

bool IsLogits(ModelOutput output) {
  return output == ModelOutput::kLogits || output == ModelOutput::kLastLogits;
}

// Refuses fields for a whole stack; `why` names the reason: "with layer".
absl::Status ExpectNoStackFields(const v1::AttendRequest& request, const std::string& why) {
  if (request.model_output() != v1::LAST_HIDDEN_STATES) {
    return Wrong(FieldPath{"model_output"}, ": expected LAST_HIDDEN_STATES ", why, ", found ",
                 v1::ModelOutput_IsValid(request.model_output())
                     ? v1::ModelOutput_Name(request.model_output())
                     : absl::StrCat(static_cast<int>(request.model_output())));
  }
  if (request.has_weights_choice()) {
    return Wrong(FieldPath{"weights_choice"}, ": expected none ", why, ", found one");
  }
  return absl::OkStatus();
}

absl::Status ExpectNoModel(const v1::AttendRequest& request) {
  if (!request.model().empty()) {
    return Wrong(FieldPath{"model"}, ": expected none with query_key_value, found \"",
                 request.model(), "\"");
  }
  if (request.has_layer()) {
    return Wrong(FieldPath{"layer"}, ": expected none with query_key_value, found ",
                 request.layer());
  }
  if (request.has_model_version()) {
    return Wrong(FieldPath{"model_version"}, ": expected none with query_key_value, found ",
                 request.model_version());
  }
  return ExpectNoStackFields(request, "with query_key_value");
}

// Refuses options; names the first that is set.
absl::Status ExpectNoOptions(const v1::AttentionOptions& options, const AttendPlan& plan) {
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  options.GetReflection()->ListFields(options, &fields);
  if (!fields.empty()) {
    return Wrong(FieldPath{absl::StrCat("options.", fields.front()->name())},
                 ": expected none without ", FieldPath{"layer"}, ", since the whole stack of ",
                 plan.ModelName(), " takes no options, found one");
  }
  return absl::OkStatus();
}

absl::Status ChooseOutput(const v1::AttendRequest& request, AttendPlan& plan) {
  if (!v1::ModelOutput_IsValid(request.model_output())) {
    return Wrong(
        FieldPath{"model_output"},
        ": expected LAST_HIDDEN_STATES (0), MEAN_POOLED (1), CLS_POOLED (2), LOGITS (3) or "
        "LAST_LOGITS (4), found ",
        static_cast<int>(request.model_output()));
  }
  plan.wanted = static_cast<ModelOutput>(request.model_output());
  if (IsLogits(plan.wanted) && !plan.model->info().has_logits) {
    return Wrong(FieldPath{"model_output"},
                 ": expected LAST_HIDDEN_STATES, MEAN_POOLED or CLS_POOLED of ", plan.ModelName(),
                 ", which has no logits, found ", v1::ModelOutput_Name(request.model_output()));
  }
  return absl::OkStatus();
}

using Numbers = google::protobuf::RepeatedField<int64_t>;

absl::Status CheckAscending(const Numbers& numbers, int64_t end, const char* field) {
  int64_t next = 0;
  for (int i = 0; i < numbers.size(); ++i) {
    if (numbers[i] < next || numbers[i] >= end) {
      return Wrong(FieldPath{absl::StrCat("weights_choice.", field)}, "[", i,
                   "]: expected ascending numbers of 0 to ", end - 1, ", found ", numbers[i],
                   i > 0 ? absl::StrCat(" after ", numbers[i - 1]) : "");
    }
    next = numbers[i] + 1;
  }
  return absl::OkStatus();
}

absl::Status ChooseWeights(const v1::WeightsChoice& choice, AttendPlan& plan) {
  const ModelInfo& info = plan.model->info();
  if (choice.layers().empty()) {
    return Wrong(FieldPath{"weights_choice.layers"}, ": expected at least one, found none");
  }
  const bool is_encoder_alone = plan.key.layer == kEncoderAlone;
  RETURN_IF_ERROR(CheckAscending(
      choice.layers(), is_encoder_alone ? NumEncoderLayers(info) : std::ssize(info.layers),
      "layers"));
  int64_t num_heads = info.layers[choice.layers(0)].shape.num_heads;
  for (const int64_t layer : choice.layers()) {
    num_heads = std::min(num_heads, info.layers[layer].shape.num_heads);
  }
  RETURN_IF_ERROR(CheckAscending(choice.heads(), num_heads, "heads"));
  plan.weights_choice = {.layers = {choice.layers().begin(), choice.layers().end()},
                         .heads = {choice.heads().begin(), choice.heads().end()}};
  return absl::OkStatus();
}

absl::Status PlanStack(const v1::AttendRequest& request, AttendPlan& plan) {
  const bool has_decoder_input = !request.has_hidden_states() ||
                                 request.hidden_states().has_tensor() ||
                                 !request.hidden_states().has_memory();
  const bool is_encoder_alone = plan.model->info().has_encoder && !has_decoder_input;
  plan.key.layer = is_encoder_alone ? kEncoderAlone : kWholeStack;
  RETURN_IF_ERROR(ExpectNoOptions(request.options(), plan));
  RETURN_IF_ERROR(ChooseOutput(request, plan));
  return request.has_weights_choice() ? ChooseWeights(request.weights_choice(), plan)
                                      : absl::OkStatus();
}

absl::Status PlanLayer(const v1::AttendRequest& request, AttendPlan& plan) {
  const std::vector<ModelLayerInfo>& layers = plan.model->info().layers;
  const int64_t layer = request.has_layer() ? request.layer() : 0;
  if (layer < 0 || layer >= std::ssize(layers)) {
    return Wrong(FieldPath{"layer"}, ": expected 0 to ", layers.size() - 1, " of the ",
                 layers.size(), layers.size() == 1 ? " layer" : " layers", " of ", plan.ModelName(),
                 ", found ", layer);
  }
  RETURN_IF_ERROR(ExpectNoStackFields(
      request, request.has_layer()
                   ? std::string("with layer")
                   : absl::StrCat("of ", plan.ModelName(), ", which is one attention layer")));
  plan.key.layer = layer;
  plan.num_heads = layers[layer].shape.num_heads;
  plan.head_dim = layers[layer].shape.head_dim;
  plan.extra_keys = layers[layer].extra_keys;
  return absl::OkStatus();
}

}  // namespace

absl::Status PlanRun(const v1::AttendRequest& request, AttendPlan& plan) {
  if (plan.model == nullptr) {
    return ExpectNoModel(request);
  }
  plan.key.model = plan.model.get();
  plan.key.model_number = plan.model->number();
  return plan.model->info().has_stack && !request.has_layer() ? PlanStack(request, plan)
                                                              : PlanLayer(request, plan);
}

void PlanStackOutput(AttendPlan& plan) {
  plan.output_width = plan.model->OutputOf(plan.wanted, 1).width;
  plan.output_shape.back() = plan.output_width;
  if (plan.wanted == ModelOutput::kHiddenStates || plan.wanted == ModelOutput::kLogits) {
    return;
  }
  for (int64_t i = 0; i < std::ssize(plan.sequences); ++i) {
    plan.sequences[i].output = {i, plan.sequences[i].query.rows > 0 ? 1 : 0};
  }
  plan.output_shape = {std::ssize(plan.sequences), plan.output_width};
}

MemoryUse MemoryUseOf(const AttendPlan& plan) {
  const ModelInfo& info = plan.model->info();
  if (plan.key.is_stack()) {
    return plan.key.layer == kWholeStack && info.has_encoder ? MemoryUse::kAlways
                                                             : MemoryUse::kNever;
  }
  if (info.layers[plan.key.layer].needs_memory()) {
    return MemoryUse::kAlways;
  }
  return info.has_stack ? MemoryUse::kNever : MemoryUse::kOptional;
}

}  // namespace attention

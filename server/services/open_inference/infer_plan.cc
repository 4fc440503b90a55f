#include "server/services/open_inference/infer_plan.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/runtime/prefixed.h"
#include "core/runtime/status_macros.h"
#include "server/services/open_inference/native_errors.h"
#include "server/services/open_inference/native_request.h"
#include "server/services/plan/field_error.h"
#include "server/services/plan/saturating.h"

namespace attention {
namespace {

absl::StatusOr<std::vector<InferOutput>> ReadOutputs(const inference::ModelInferRequest& request) {
  std::vector<InferOutput> outputs;
  for (const auto& wire : request.outputs()) {
    if (wire.name() != "output" && wire.name() != "weights") {
      return Wrong("outputs: expected \"output\" or \"weights\", found \"", wire.name(), "\"");
    }
    const std::string owner = OutputName(wire.name());
    InferOutput output = {.is_weights = wire.name() == "weights"};
    ASSIGN_OR_RETURN(output.range, ReadRegionRange(wire.parameters(), owner));
    const auto first = std::ranges::find(outputs, output.is_weights, &InferOutput::is_weights);
    if (first == outputs.end()) {
      outputs.push_back(std::move(output));
    } else if (first->range.has_value() || output.range.has_value()) {
      return Wrong(owner, ": expected one of this name in shared memory, found a second");
    }
  }
  return outputs.empty() ? std::vector<InferOutput>(1) : std::move(outputs);
}

// Sets where the rows of each sequence begin in the padded tensors. Of tokens only the output is
// padded; other rows begin behind the padding if that is on the left.
void PlaceRows(const NativeRequest& native, AttendPlan& plan) {
  if (plan.is_token_request && native.rows.empty()) {
    plan.sequences.clear();  // an empty list of ids would be one empty sequence
  }
  for (size_t i = 0; i < native.rows.size() && i < plan.sequences.size(); ++i) {
    PlannedSequence& sequence = plan.sequences[i];
    const int64_t first = native.rows[i].first_row;
    if (plan.is_token_request) {
      sequence.output.first_row = static_cast<int64_t>(i) * native.extents.seq_len + first;
      continue;
    }
    sequence.query.first_row += first;
    sequence.output.first_row += first;
    if (!plan.key.has_memory) {
      sequence.key.first_row += first;
    }
  }
  if (plan.is_token_request) {
    plan.output_shape = {native.extents.batch_size, native.extents.seq_len, plan.output_width};
  }
}

// The heads and extra keys of the layer whose weights are returned, or of attention without a
// model.
struct WeightsLayer {
  int64_t num_heads = 0;
  int64_t extra_keys = 0;
};
WeightsLayer WeightsLayerOf(const AttendPlan& plan) {
  if (plan.weights_choice.layers.empty()) {
    return {plan.num_heads, plan.extra_keys};
  }
  const ModelLayerInfo& layer = plan.model->info().layers[plan.weights_choice.layers[0]];
  return {layer.shape.num_heads, layer.extra_keys};
}

Shape WeightsShape(const AttendPlan& plan, const NativeRequest& native) {
  const bool has_own_keys =
      plan.key.has_memory;  // rows of the memory, or the key of attention without a model
  const int64_t keys = has_own_keys ? plan.operands[1].shape[1] : native.extents.seq_len;
  const auto [num_heads, extra_keys] = WeightsLayerOf(plan);
  return {plan.output_shape[0], num_heads, plan.output_shape[1], keys + extra_keys};
}

std::vector<WeightsRange> WeightsRanges(const AttendPlan& plan, const NativeRequest& native) {
  std::vector<WeightsRange> ranges;
  ranges.reserve(plan.sequences.size());
  for (size_t i = 0; i < plan.sequences.size(); ++i) {
    const int64_t first = i < native.rows.size() ? native.rows[i].first_row : 0;
    ranges.push_back({.first_row = first,
                      .rows = plan.sequences[i].query.rows,
                      .first_key = plan.key.has_memory ? 0 : first,
                      .keys = plan.sequences[i].key.rows});
  }
  return ranges;
}

absl::Status FindRegion(const InferLimits& limits, InferOutput& output) {
  RETURN_IF_ERROR(CheckSharedMemory(limits.shared_memory, limits.caller));
  const std::string owner = OutputName(output.is_weights ? "weights" : "output");
  if (output.range->byte_size < output.size_bytes) {
    return Wrong(owner, ": expected a shared_memory_byte_size of at least ", output.size_bytes,
                 ", found ", output.range->byte_size);
  }
  auto region = limits.shared_memory->Find(*output.range);
  if (!region.ok()) {
    return Prefixed(owner, region.status());
  }
  output.region = *std::move(region);
  return absl::OkStatus();
}

absl::Status CompleteOutputs(const NativeRequest& native, const InferLimits& limits,
                             InferPlan& plan) {
  int64_t reply_bytes = 0;
  for (InferOutput& output : plan.answer.outputs) {
    output.shape = output.is_weights ? WeightsShape(plan.attend, native) : plan.attend.output_shape;
    const Dtype dtype = output.is_weights ? Dtype::kF32 : plan.attend.output_dtype;
    output.datatype = std::string(Name(dtype));
    output.size_bytes =
        SaturatingProduct({SaturatingProduct(output.shape), static_cast<int64_t>(SizeOf(dtype))});
    reply_bytes = SaturatingSum(reply_bytes, output.size_bytes);
    if (output.is_weights) {  // padded, beside those computed
      plan.attend.copied_reply_bytes =
          SaturatingSum(plan.attend.copied_reply_bytes, output.size_bytes);
    }
  }
  RETURN_IF_ERROR(limits.reply.Check(reply_bytes));
  for (InferOutput& output : plan.answer.outputs) {
    if (output.range.has_value()) {
      RETURN_IF_ERROR(FindRegion(limits, output));
    }
  }
  return absl::OkStatus();
}

// Asks for weights, of a whole stack by those of one of its layers.
absl::Status ChooseWeights(const InferTarget& target, const InferPlan& plan,
                           v1::AttendRequest& native) {
  const std::optional<int64_t>& layer = plan.parameters.weights_layer;
  const bool wants_weights = std::ranges::any_of(plan.answer.outputs, &InferOutput::is_weights);
  const bool is_stack = target.model != nullptr && target.model->info().has_stack &&
                        !plan.parameters.layer.has_value();
  if (!is_stack || !wants_weights) {
    native.mutable_options()->set_return_weights(wants_weights);
    return layer.has_value() ? Wrong(ParameterName("weights_layer"), ": expected none without ",
                                     OutputName("weights"), " of a whole stack, found ", *layer)
                             : absl::OkStatus();
  }
  if (!layer.has_value()) {
    return Wrong(OutputName("weights"), ": expected ", ParameterName("weights_layer"),
                 ", or \"layer\" for the attention of one layer alone, of ", NameInErrors(target),
                 ", found neither");
  }
  const ModelInfo& info = target.model->info();
  if (info.has_encoder) {
    return Wrong(ParameterName("weights_layer"), ": expected none for ", NameInErrors(target),
                 ", which has an encoder (Attend's weights_choice has such weights), found ",
                 *layer);
  }
  if (*layer < 0 || *layer >= std::ssize(info.layers)) {
    return Wrong(ParameterName("weights_layer"), ": expected 0 to ", info.layers.size() - 1, " of ",
                 NameInErrors(target), ", found ", *layer);
  }
  native.mutable_weights_choice()->add_layers(*layer);
  return absl::OkStatus();
}

// Returns false for a message without the datatype of texts, which is quicker than to decode it.
bool MayHaveTexts(const grpc::ByteBuffer& wire) {
  std::vector<grpc::Slice> slices;
  if (!wire.Dump(&slices).ok() || slices.size() != 1) {
    return true;
  }
  const std::string_view bytes(reinterpret_cast<const char*>(slices[0].begin()), slices[0].size());
  return bytes.find("BYTES") != std::string_view::npos;
}

}  // namespace

absl::StatusOr<ReceivedInfer> DecodeInfer(const grpc::ByteBuffer& wire, const PlanTerms& terms) {
  ReceivedInfer received;
  RETURN_IF_ERROR(DecodeEnvelope(wire, EnvelopeFieldsOf<inference::ModelInferRequest>(),
                                 *received.message, terms.Begin()));
  received.wire = wire;
  return received;
}

int64_t InferPlanningCost(const grpc::ByteBuffer& wire, int64_t max_shared_bytes) {
  const bool has_shared_memory = max_shared_bytes > 0;
  if (!has_shared_memory && static_cast<int64_t>(wire.Length()) <= kSmallPlanBytes / kTextWeight) {
    return 0;
  }
  if (const int64_t cost = EnvelopeCost<inference::ModelInferRequest>(wire); cost > 0) {
    return cost;
  }
  if (!has_shared_memory && static_cast<int64_t>(wire.Length()) <= kSmallPlanBytes &&
      !MayHaveTexts(wire)) {
    return 0;
  }
  const absl::StatusOr<ReceivedInfer> received = DecodeInfer(wire);
  return received.ok() ? BytesToRead(*received->message, max_shared_bytes) : 0;
}

absl::StatusOr<InferPlan> PlanInfer(const ReceivedInfer& request, const InferTarget& target,
                                    const InferLimits& limits) {
  InferPlan plan;
  plan.answer = {.model_name = target.name,
                 .model_version = absl::StrCat(target.version),
                 .id = request.message->id()};
  ASSIGN_OR_RETURN(plan.parameters, ReadParameters(request.message->parameters()));
  ASSIGN_OR_RETURN(plan.answer.outputs, ReadOutputs(*request.message));
  ASSIGN_OR_RETURN(const InferInputs inputs,
                   ReadInputs(*request.message, target,
                              {request.wire, limits.caller, limits.shared_memory,
                               limits.reply.max_bytes, limits.terms}));
  ASSIGN_OR_RETURN(NativeRequest native, MakeNativeRequest(inputs, plan.parameters, target));
  RETURN_IF_ERROR(ChooseWeights(target, plan, native.attend.message));
  absl::StatusOr<AttendPlan> attend =
      PlanAttendOn(target.model, native.attend, limits.reply, limits.terms);
  if (!attend.ok()) {
    return WithOpenInferenceNames(attend.status());
  }
  plan.attend = *std::move(attend);
  plan.attend.extra_bytes = inputs.appended_bytes;
  PlaceRows(native, plan.attend);
  plan.answer.weights_ranges = WeightsRanges(plan.attend, native);
  plan.answer.extra_keys = WeightsLayerOf(plan.attend).extra_keys;
  RETURN_IF_ERROR(CompleteOutputs(native, limits, plan));
  return plan;
}

absl::StatusOr<InferTarget> Identify(const inference::ModelInferRequest& request,
                                     const InferLimits& limits, InferIdentity& identity) {
  identity.id = request.id();
  RETURN_IF_ERROR(limits.caller.CheckModel(request.model_name()));
  absl::StatusOr<InferTarget> target =
      FindTarget(limits.models, request.model_name(), request.model_version(),
                 {"model_name", "model_version"});
  RETURN_IF_ERROR(limits.caller.HideOtherModels(target.status()));
  if (target->model != nullptr) {
    identity.model = target->name;
    identity.version = target->version;
  }
  return target;
}

absl::StatusOr<InferPlan> ReadInfer(const grpc::ByteBuffer& wire, const InferLimits& limits,
                                    InferIdentity& identity) {
  ASSIGN_OR_RETURN(const ReceivedInfer received, DecodeInfer(wire, limits.terms));
  ASSIGN_OR_RETURN(const InferTarget target, Identify(*received.message, limits, identity));
  return PlanInfer(received, target, limits);
}

}  // namespace attention

#include "server/services/open_inference/native_request.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "proto/codec/tensor.h"
#include "server/services/open_inference/native_errors.h"
#include "server/services/plan/field_error.h"
#include "server/services/plan/saturating.h"

namespace attention {
namespace {

v1::DataType NativeDtype(const std::string& datatype) {
  return datatype == "FP32" ? v1::FP32 : datatype == "BF16" ? v1::BF16 : v1::FP16;
}

void SetTensor(const InferInput* input, v1::Tensor* (*field)(v1::AttendRequest&),
               v1::AttendRequest& request) {
  if (input == nullptr) {
    return;
  }
  v1::Tensor& tensor = *field(request);
  WriteTensorHeader(NativeDtype(input->datatype), input->shape, tensor);
  tensor.set_data(wire::ToField(input->reference));
}

// Refuses inputs that belong to another one, which is absent.
absl::Status ExpectAbsent(const InferInputs& inputs, std::initializer_list<const char*> names,
                          const std::string& needed) {
  for (const char* const name : names) {
    if (inputs.Find(name) != nullptr) {
      return Wrong(InputName(name), ": expected none without ", needed, ", found one");
    }
  }
  return absl::OkStatus();
}

absl::Status FillWithoutModel(const InferInputs& inputs, const InferParameters& parameters,
                              v1::AttendRequest& request) {
  if (parameters.layer.has_value()) {
    return Wrong(ParameterName("layer"), ": expected none for model \"", kWithoutModel,
                 "\", found ", *parameters.layer);
  }
  using Request = v1::AttendRequest;
  SetTensor(
      inputs.Find("query"), [](Request& r) { return r.mutable_query_key_value()->mutable_query(); },
      request);
  SetTensor(
      inputs.Find("key"), [](Request& r) { return r.mutable_query_key_value()->mutable_key(); },
      request);
  SetTensor(
      inputs.Find("value"), [](Request& r) { return r.mutable_query_key_value()->mutable_value(); },
      request);
  SetTensor(
      inputs.Find("bias"), [](Request& r) { return r.mutable_options()->mutable_bias(); }, request);
  ASSIGN_OR_RETURN(const std::vector<int64_t> lengths,
                   ReadLengthsInput(inputs, "kv_lengths", inputs.Find("key")->shape[0]));
  request.mutable_query_key_value()->mutable_kv_lengths()->Assign(lengths.begin(), lengths.end());
  return absl::OkStatus();
}

// Packs the integers of `name`, `[B, S]`, without padding. Each is in 0..end-1.
struct TokenInput {
  std::string name;
  int64_t end = 0;
};
absl::StatusOr<std::vector<int32_t>> PackTokens(const InferInputs& inputs, const TokenInput& tokens,
                                                const NativeRequest& native) {
  const InferInput& input = *inputs.Find(tokens.name);
  const int64_t seq_len = native.extents.seq_len;
  if (input.shape != Shape{native.extents.batch_size, seq_len}) {
    return Wrong(InputName(tokens.name), ": expected shape ",
                 ShapeText({native.extents.batch_size, seq_len}), " as input_ids, found ",
                 ShapeText(input.shape));
  }
  const std::vector<int64_t> values = inputs.Integers(input);
  std::vector<int32_t> packed;
  for (int64_t i = 0; i < std::ssize(native.rows); ++i) {
    const auto [first, count] = native.rows[i];
    for (int64_t position = first; position < first + count; ++position) {
      const int64_t value = values[i * seq_len + position];
      if (value < 0 || value >= tokens.end) {
        return Wrong(InputName(tokens.name), "[", i, ", ", position, "]: expected 0 to ",
                     tokens.end - 1, ", found ", value);
      }
      packed.push_back(static_cast<int32_t>(value));
    }
  }
  return packed;
}

absl::Status FillTokens(const InferInputs& inputs, const ModelInfo& info, NativeRequest& native) {
  RETURN_IF_ERROR(ExpectAbsent(inputs, {"memory", "memory_lengths", "memory_values"},
                               "input \"hidden_states\""));
  v1::TokenIds& tokens = *native.attend.message.mutable_token_ids();
  ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                   PackTokens(inputs, {"input_ids", info.vocab_size}, native));
  tokens.mutable_ids()->Assign(ids.begin(), ids.end());
  if (inputs.Find("token_type_ids") != nullptr) {
    ASSIGN_OR_RETURN(const std::vector<int32_t> types,
                     PackTokens(inputs, {"token_type_ids", info.num_token_types}, native));
    tokens.mutable_type_ids()->Assign(types.begin(), types.end());
  }
  for (const SequenceRows& rows : native.rows) {
    tokens.add_lengths(rows.rows);
  }
  return absl::OkStatus();
}

absl::Status FillHiddenStates(const InferInputs& inputs, NativeRequest& native) {
  RETURN_IF_ERROR(ExpectAbsent(inputs, {"token_type_ids"}, "input \"input_ids\""));
  v1::AttendRequest& request = native.attend.message;
  v1::HiddenStates& hidden_states = *request.mutable_hidden_states();
  using Request = v1::AttendRequest;
  SetTensor(
      inputs.Find("hidden_states"),
      [](Request& r) { return r.mutable_hidden_states()->mutable_tensor(); }, request);
  SetTensor(
      inputs.Find("memory"), [](Request& r) { return r.mutable_hidden_states()->mutable_memory(); },
      request);
  SetTensor(
      inputs.Find("memory_values"),
      [](Request& r) { return r.mutable_hidden_states()->mutable_memory_values(); }, request);
  for (const SequenceRows& rows : native.rows) {
    hidden_states.add_lengths(rows.rows);
  }
  const InferInput* const memory = inputs.Find("memory");
  if (memory == nullptr) {
    return ExpectAbsent(inputs, {"memory_lengths", "memory_values"}, "input \"memory\"");
  }
  ASSIGN_OR_RETURN(const std::vector<int64_t> lengths,
                   ReadLengthsInput(inputs, "memory_lengths", memory->shape[0]));
  hidden_states.mutable_memory_lengths()->Assign(lengths.begin(), lengths.end());
  return absl::OkStatus();
}

// Refuses too many rows before their ids are packed.
absl::Status CheckNumRows(const std::vector<SequenceRows>& sequences) {
  int64_t rows = 0;
  for (const SequenceRows& sequence : sequences) {
    rows = SaturatingSum(rows, sequence.rows);
  }
  return rows <= kMaxTokens
             ? absl::OkStatus()
             : absl::ResourceExhaustedError(absl::StrCat("inputs: expected at most ", kMaxTokens,
                                                         " tokens in a request, found ", rows));
}

absl::Status ReadMainInput(const InferInputs& inputs, const InferTarget& target,
                           NativeRequest& native) {
  const InferInput* const ids = inputs.Find("input_ids");
  const InferInput* const rows = inputs.Find("hidden_states");
  if (ids != nullptr && rows != nullptr) {
    return Wrong("inputs: expected \"input_ids\" or \"hidden_states\", found both");
  }
  if (ids == nullptr && rows == nullptr) {
    RETURN_IF_ERROR(ExpectAbsent(inputs, {"lengths", "attention_mask"},
                                 "input \"input_ids\" or \"hidden_states\""));
    // An encoder alone takes its rows from memory.
    if (inputs.Find("memory") != nullptr && target.model->info().has_encoder) {
      return absl::OkStatus();
    }
    return Wrong("inputs: expected \"input_ids\" or \"hidden_states\" of ", NameInErrors(target),
                 ", found neither");
  }
  const Shape& shape = (ids != nullptr ? ids : rows)->shape;
  native.extents = {shape[0], shape[1]};
  ASSIGN_OR_RETURN(native.rows, ReadInputRows(inputs, native.extents));
  return CheckNumRows(native.rows);
}

}  // namespace

absl::StatusOr<NativeRequest> MakeNativeRequest(const InferInputs& inputs,
                                                const InferParameters& parameters,
                                                const InferTarget& target) {
  NativeRequest native;
  native.attend.bytes = inputs.bytes;
  v1::AttendRequest& request = native.attend.message;
  *request.mutable_options() = parameters.options;
  if (target.model == nullptr) {
    RETURN_IF_ERROR(FillWithoutModel(inputs, parameters, request));
    return native;
  }
  request.set_model(target.name);
  request.set_model_version(target.version);
  if (parameters.layer.has_value()) {
    request.set_layer(*parameters.layer);
  }
  RETURN_IF_ERROR(ReadMainInput(inputs, target, native));
  RETURN_IF_ERROR(inputs.Find("input_ids") != nullptr
                      ? FillTokens(inputs, target.model->info(), native)
                      : FillHiddenStates(inputs, native));
  return native;
}

}  // namespace attention

#include "client/lib/request_codec.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "proto/attention/v1/attention.pb.h"
#include "proto/codec/encode.h"
#include "proto/codec/tensor.h"

namespace attention {
namespace {

/// Builds a request; remembers the first tensor that was missing.
class RequestBuilder {
 public:
  explicit RequestBuilder(const SliceOf& slice_of) : slice_of_(slice_of) {}

  void Write(const HiddenStatesInput& input) {
    v1::HiddenStates& wire = *request_.mutable_hidden_states();
    if (input.tensor != nullptr || input.memory == nullptr) {
      Attach(input.tensor, "hidden_states.tensor", *wire.mutable_tensor());
    }
    wire.mutable_lengths()->Add(input.lengths.begin(), input.lengths.end());
    if (input.memory != nullptr) {
      Attach(input.memory, "hidden_states.memory", *wire.mutable_memory());
    }
    wire.mutable_memory_lengths()->Add(input.memory_lengths.begin(), input.memory_lengths.end());
    if (input.memory_values != nullptr) {
      Attach(input.memory_values, "hidden_states.memory_values", *wire.mutable_memory_values());
    }
  }

  void Write(const TokenIdsInput& input) {
    v1::TokenIds& wire = *request_.mutable_token_ids();
    wire.mutable_ids()->Add(input.ids.begin(), input.ids.end());
    wire.mutable_lengths()->Add(input.lengths.begin(), input.lengths.end());
    wire.mutable_type_ids()->Add(input.type_ids.begin(), input.type_ids.end());
  }

  void Write(const TextInput& input) {
    v1::TextInput& wire = *request_.mutable_text();
    wire.mutable_texts()->Add(input.texts.begin(), input.texts.end());
    wire.set_no_special_tokens(input.no_special_tokens);
  }

  void Write(const QueryKeyValueInput& input) {
    v1::QueryKeyValue& wire = *request_.mutable_query_key_value();
    Attach(input.query, "query_key_value.query", *wire.mutable_query());
    Attach(input.key, "query_key_value.key", *wire.mutable_key());
    Attach(input.value, "query_key_value.value", *wire.mutable_value());
    wire.mutable_lengths()->Add(input.lengths.begin(), input.lengths.end());
    wire.mutable_kv_lengths()->Add(input.kv_lengths.begin(), input.kv_lengths.end());
    wire.mutable_query_offsets()->Add(input.query_offsets.begin(), input.query_offsets.end());
  }

  absl::StatusOr<grpc::ByteBuffer> Encode(const AttendRequest& request) {
    request_.set_model(request.model);
    std::visit([this](const auto& input) { Write(input); }, request.input);
    RETURN_IF_ERROR(missing_tensor_);
    WriteRun(request);
    RETURN_IF_ERROR(WriteOptions(request));
    return encoder_.Encode(request_);
  }

 private:
  void Attach(const Tensor* tensor, const char* name, v1::Tensor& wire) {
    if (tensor == nullptr) {
      missing_tensor_.Update(
          absl::InvalidArgumentError(absl::StrCat(name, ": expected a tensor, found none")));
      return;
    }
    WriteTensorHeader(tensor->dtype(), tensor->shape(), wire);
    encoder_.Attach(slice_of_(*tensor), wire);
  }

  void WriteRun(const AttendRequest& request) {
    if (request.layer.has_value()) {
      request_.set_layer(*request.layer);
    }
    if (request.model_version.has_value()) {
      request_.set_model_version(*request.model_version);
    }
    request_.set_model_output(request.model_output);
    if (!request.weights_choice.layers().empty() || !request.weights_choice.heads().empty()) {
      *request_.mutable_weights_choice() = request.weights_choice;
    }
  }

  absl::Status WriteOptions(const AttendRequest& request) {
    if (request.options.has_bias() || request.options.has_mask()) {
      return absl::InvalidArgumentError(
          "options: expected no bias and no mask, which are members of the request, found one");
    }
    v1::AttentionOptions& options = *request_.mutable_options();
    options = request.options;
    if (request.bias != nullptr) {
      Attach(request.bias, "options.bias", *options.mutable_bias());
    }
    if (request.mask != nullptr) {
      const MaskTensor& mask = *request.mask;
      WriteTensorHeader(v1::BOOL, mask.shape, *options.mutable_mask());
      encoder_.Attach(grpc::Slice(mask.values.data(), mask.values.size()), *options.mutable_mask());
    }
    return absl::OkStatus();
  }

  const SliceOf& slice_of_;
  v1::AttendRequest request_;
  Encoder encoder_;
  absl::Status missing_tensor_;
};

}  // namespace

grpc::Slice CopiedSlice(const Tensor& tensor) {
  return grpc::Slice(tensor.data(), tensor.size_bytes());
}

absl::StatusOr<grpc::ByteBuffer> EncodeRequest(const AttendRequest& request,
                                               const SliceOf& slice_of) {
  return RequestBuilder(slice_of).Encode(request);
}

}  // namespace attention

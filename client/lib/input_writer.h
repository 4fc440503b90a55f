// Writes inputs and their tensors to wire messages.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstddef>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/lib/attend_request.h"
#include "core/runtime/status_macros.h"
#include "proto/attention/v1/attention.pb.h"
#include "proto/codec/encode.h"
#include "proto/codec/tensor.h"

namespace attention {

/// Returns the elements of a tensor in the form of the transport.
using SliceOf = std::function<grpc::Slice(const Tensor&)>;

/// Copies the elements, because the transport may hold them longer than the call lasts.
inline grpc::Slice CopiedSlice(const Tensor& tensor) {
  return grpc::Slice(tensor.data(), tensor.size_bytes());
}

/// Returns INVALID_ARGUMENT unless a request of so many bytes can be sent. gRPC writes the size in
/// 32 bits: the server would read a larger one as a message of the size modulo 2^32, and then the
/// rest.
inline absl::Status CheckRequestSize(size_t bytes) {
  constexpr size_t kLimit = size_t{1} << 32;
  return bytes < kLimit ? absl::OkStatus()
                        : absl::InvalidArgumentError(absl::StrCat("request: expected fewer than ",
                                                                  kLimit, " bytes, found ", bytes));
}

/// Writes one message, and remembers the first tensor that was missing.
class InputWriter {
 public:
  /// Borrows `slice_of`.
  explicit InputWriter(const SliceOf& slice_of) : slice_of_(slice_of) {}

  /// Writes the input of an AttendRequest or a DecodeStep, which have fields of the same names.
  template <typename Message>
  void Write(const decltype(AttendRequest::input)& input, Message& message) {
    std::visit([&](const auto& kind) { WriteKind(kind, message); }, input);
  }

  void Attach(const Tensor* tensor, const char* name, v1::Tensor& wire) {
    if (tensor == nullptr) {
      missing_tensor_.Update(
          absl::InvalidArgumentError(absl::StrCat(name, ": expected a tensor, found none")));
      return;
    }
    WriteTensorHeader(tensor->dtype(), tensor->shape(), wire);
    encoder_.Attach(slice_of_(*tensor), wire);
  }

  void Attach(const MaskTensor& mask, v1::Tensor& wire) {
    WriteTensorHeader(v1::BOOL, mask.shape, wire);
    encoder_.Attach(grpc::Slice(mask.values.data(), mask.values.size()), wire);
  }

  /// Encodes `message` with its tensors. INVALID_ARGUMENT if a tensor was missing, or the message
  /// is too large. REQUIRES: this object wrote the tensors.
  template <typename Message>
  absl::StatusOr<grpc::ByteBuffer> Encode(const Message& message) {
    RETURN_IF_ERROR(missing_tensor_);
    grpc::ByteBuffer bytes = encoder_.Encode(message);
    RETURN_IF_ERROR(CheckRequestSize(bytes.Length()));
    return bytes;
  }

 private:
  template <typename Message>
  void WriteKind(const HiddenStatesInput& input, Message& message) {
    v1::HiddenStates& wire = *message.mutable_hidden_states();
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

  template <typename Message>
  void WriteKind(const TokenIdsInput& input, Message& message) {
    v1::TokenIds& wire = *message.mutable_token_ids();
    wire.mutable_ids()->Add(input.ids.begin(), input.ids.end());
    wire.mutable_lengths()->Add(input.lengths.begin(), input.lengths.end());
    wire.mutable_type_ids()->Add(input.type_ids.begin(), input.type_ids.end());
  }

  template <typename Message>
  void WriteKind(const TextInput& input, Message& message) {
    v1::TextInput& wire = *message.mutable_text();
    wire.mutable_texts()->Add(input.texts.begin(), input.texts.end());
    wire.set_no_special_tokens(input.no_special_tokens);
  }

  template <typename Message>
  void WriteKind(const QueryKeyValueInput& input, Message& message) {
    v1::QueryKeyValue& wire = *message.mutable_query_key_value();
    Attach(input.query, "query_key_value.query", *wire.mutable_query());
    Attach(input.key, "query_key_value.key", *wire.mutable_key());
    Attach(input.value, "query_key_value.value", *wire.mutable_value());
    wire.mutable_lengths()->Add(input.lengths.begin(), input.lengths.end());
    wire.mutable_kv_lengths()->Add(input.kv_lengths.begin(), input.kv_lengths.end());
    wire.mutable_query_offsets()->Add(input.query_offsets.begin(), input.query_offsets.end());
  }

  const SliceOf& slice_of_;
  Encoder encoder_;
  absl::Status missing_tensor_;
};

}  // namespace attention

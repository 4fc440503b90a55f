// Encoding of messages with tensors: the tensors' bytes go to the transport by reference.
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor/tensor.h"
#include "proto/attention/v1/attention.pb.h"
#include "proto/codec/payload_fields.h"

namespace attention {

/// Returns a slice of memory that the transport may hold for longer than the call lives, as it does
/// after a cancellation. The slice keeps `owner`. `data` is read only until the slice is released.
/// Memory that no message refers to yet may be written meanwhile.
grpc::Slice SharedSlice(std::shared_ptr<const void> owner, const void* data, size_t size_bytes);

/// Encodes one message with the payloads attached to it.
class Encoder {
 public:
  /// Makes `bytes` the payload of `tensor`, without a copy.
  void Attach(grpc::Slice bytes, v1::Tensor& tensor) {
    Attach(std::move(bytes), *tensor.mutable_data());
  }
  /// Attaches bytes to any payload field, including one element of a repeated field.
  void Attach(grpc::Slice bytes, std::string& payload);

  /// Returns the wire form of `message`: its own encoding, with each field once and the attached
  /// slices in their places. REQUIRES: the payload fields of `message` were set by Attach of this
  /// object, or are empty.
  template <typename M>
  grpc::ByteBuffer Encode(const M& message) {
    return EncodeEnvelope(message, PayloadFieldsOf<M>());
  }

 private:
  grpc::ByteBuffer EncodeEnvelope(const google::protobuf::Message& message,
                                  const PayloadFields& fields);

  std::vector<grpc::Slice> payloads_;
};

}  // namespace attention

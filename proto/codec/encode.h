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

/// Memory that the transport may hold for longer than the call lives (it does after a cancel): the
/// slice keeps `owner`. `data` is read only until the slice is gone and may be written meanwhile
/// where no message refers to it yet.
grpc::Slice SharedSlice(std::shared_ptr<const void> owner, const void* data, size_t size_bytes);

/// One message with the payloads attached to it.
class Encoder {
 public:
  /// Makes `bytes` the payload of `tensor`, without a copy.
  void Attach(grpc::Slice bytes, v1::Tensor& tensor) {
    Attach(std::move(bytes), *tensor.mutable_data());
  }
  /// The same for any payload field: one element of a repeated one, too.
  void Attach(grpc::Slice bytes, std::string& payload);

  /// The wire form of `message`: its own encoding, every field once, with the attached slices in
  /// their places. REQUIRES: the payload fields of `message` were set by Attach of this object, or
  /// are empty.
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

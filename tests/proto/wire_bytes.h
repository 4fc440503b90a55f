// Wire messages as strings, and as transports cut them.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "proto/codec/envelope.h"
#include "tests/support/byte_buffer.h"

namespace attention {

inline std::string Bytes(std::initializer_list<int> values) {
  std::string bytes;
  for (const int value : values) {
    bytes.push_back(static_cast<char>(value));
  }
  return bytes;
}

/// A field of bytes, shorter than 128.
inline std::string Delimited(int field, const std::string& body) {
  return Bytes({field << 3 | 2, static_cast<int>(body.size())}) + body;
}

/// `bytes` as slices of at most `slice_bytes` each.
inline grpc::ByteBuffer Cut(const std::string& bytes, size_t slice_bytes = 1 << 20) {
  std::vector<grpc::Slice> slices;
  for (size_t begin = 0; begin < bytes.size(); begin += slice_bytes) {
    slices.emplace_back(bytes.substr(begin, slice_bytes));
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

inline std::string BytesOf(const Payload& payload) {
  std::string bytes(payload.size_bytes(), '\0');
  payload.CopyTo(0, bytes.size(), bytes.data());
  return bytes;
}

/// Puts the payload into the message, as protobuf itself would have parsed it.
inline void Fill(v1::Tensor& tensor, const std::shared_ptr<const ReceivedBytes>& bytes) {
  if (!tensor.data().empty()) {
    tensor.set_data(BytesOf(ResolvePayload(tensor.data(), bytes)));
  }
}

/// Puts the payloads of all tensors below the message into it.
inline void FillBelow(google::protobuf::Message& message,
                      const std::shared_ptr<const ReceivedBytes>& bytes) {
  if (message.GetDescriptor() == v1::Tensor::descriptor()) {
    return Fill(static_cast<v1::Tensor&>(message), bytes);
  }
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const google::protobuf::FieldDescriptor* field : fields) {
    if (field->message_type() == nullptr) {
      continue;
    }
    for (int i = 0; field->is_repeated() && i < reflection.FieldSize(message, field); ++i) {
      FillBelow(*reflection.MutableRepeatedMessage(&message, field, i), bytes);
    }
    if (!field->is_repeated()) {
      FillBelow(*reflection.MutableMessage(&message, field), bytes);
    }
  }
}

inline v1::AttendRequest Filled(Received<v1::AttendRequest> received) {
  FillBelow(received.message, received.bytes);
  return received.message;
}

/// A request with every kind of field, and tensors whose bytes say where they come from.
inline v1::AttendRequest RichRequest() {
  v1::AttendRequest request;
  request.set_model("demo");
  v1::HiddenStates& input = *request.mutable_hidden_states();
  for (v1::Tensor* tensor :
       {input.mutable_tensor(), input.mutable_memory(), input.mutable_memory_values()}) {
    tensor->set_dtype(v1::FP16);
    tensor->add_shape(2);
    tensor->add_shape(150);
  }
  input.mutable_tensor()->set_data(std::string(600, 't'));
  input.mutable_memory()->set_data(std::string(600, 'm'));
  input.mutable_memory_values()->set_data(std::string(600, 'v'));
  input.add_lengths(2);
  input.add_memory_lengths(300);
  request.mutable_options()->set_causal(true);
  request.mutable_options()->set_scale(0.5);
  v1::AttentionOptions& options = *request.mutable_options();
  options.mutable_bias()->set_data(std::string(300, 'b'));
  options.mutable_mask()->set_data(std::string(200, 'x'));
  options.add_global_tokens(3);
  options.add_sinks(0.5f);
  options.mutable_rotary()->set_base(500000);
  options.add_sequences()->set_prefix(2);
  return request;
}

}  // namespace attention

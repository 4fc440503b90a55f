// Tensors in and out of typed messages, for tests that talk to the server through the generated
// stub.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/models/model.h"
#include "core/reference/reference.h"
#include "core/tensor/seeded.h"
#include "core/tensor/tensor.h"
#include "gtest/gtest.h"
#include "proto/attention/v1/attention.grpc.pb.h"
#include "proto/codec/tensor.h"

namespace attention {

/// d_model of `demo`.
inline constexpr int64_t kDemoWidth = 512;

inline void ToWireTensor(const Tensor& tensor, v1::Tensor* wire) {
  WriteTensorHeader(tensor.dtype(), tensor.shape(), *wire);
  wire->set_data(tensor.data(), tensor.size_bytes());
}

/// Values of a typed tensor. REQUIRES: its size fits its shape.
inline std::vector<double> ToDoubles(const v1::Tensor& wire) {
  const int64_t element = wire.dtype() == v1::FP32 ? 4 : 2;
  const Dtype dtype = wire.dtype() == v1::FP32   ? Dtype::kF32
                      : wire.dtype() == v1::BF16 ? Dtype::kBf16
                                                 : Dtype::kF16;
  std::vector<float> values(wire.data().size() / element);
  Convert(dtype, wire.data().data(), Dtype::kF32, values.data(), std::ssize(values));
  return {values.begin(), values.end()};
}

inline std::vector<double> ToDoubles(const Tensor& tensor) {
  const Tensor f32 = tensor.ConvertedTo(Dtype::kF32);
  return {f32.as<float>(), f32.as<float>() + f32.num_elements()};
}

/// Rows [first, first + count) of values that are `width` per row.
inline std::vector<double> Rows(const std::vector<double>& values, int64_t width, int64_t first,
                                int64_t count) {
  return {values.begin() + first * width, values.begin() + (first + count) * width};
}

/// A request for `demo`.
inline v1::AttendRequest DemoRequest(const Tensor& hidden_states,
                                     const std::vector<int64_t>& lengths = {}) {
  v1::AttendRequest request;
  request.set_model("demo");
  ToWireTensor(hidden_states, request.mutable_hidden_states()->mutable_tensor());
  request.mutable_hidden_states()->mutable_lengths()->Assign(lengths.begin(), lengths.end());
  return request;
}

/// A request for attention without a model.
inline v1::AttendRequest QkvRequest(const Tensor& query, const Tensor& key, const Tensor& value) {
  v1::AttendRequest request;
  v1::QueryKeyValue& input = *request.mutable_query_key_value();
  ToWireTensor(query, input.mutable_query());
  ToWireTensor(key, input.mutable_key());
  ToWireTensor(value, input.mutable_value());
  return request;
}

/// The seeded model's layer, for the reference.
inline reference::Layer ReferenceLayer(const SeededModelSpec& given) {
  const auto model = Model::CreateSeeded(given);
  const SeededModelSpec& spec = *(*model)->info().seeded;
  const SeededLayer layer = MakeSeededLayer(spec.seed, spec.dtype,
                                            {.d_model = spec.d_model,
                                             .num_heads = spec.num_heads,
                                             .num_kv_heads = spec.num_kv_heads,
                                             .head_dim = spec.head_dim,
                                             .value_head_dim = spec.value_head_dim});
  const auto widen = [](const std::vector<float>& values) {
    return std::vector<double>(values.begin(), values.end());
  };
  return {.d_model = spec.d_model,
          .d_memory = spec.d_model,
          .num_heads = spec.num_heads,
          .num_kv_heads = spec.num_kv_heads,
          .head_dim = spec.head_dim,
          .value_head_dim = spec.value_head_dim,
          .query = widen(layer.query),
          .key = widen(layer.key),
          .value = widen(layer.value),
          .output = widen(layer.output),
          .query_bias = widen(layer.query_bias),
          .key_bias = widen(layer.key_bias),
          .value_bias = widen(layer.value_bias),
          .output_bias = widen(layer.output_bias)};
}

/// Blocking calls with a generous deadline.
class AttendClient {
 public:
  explicit AttendClient(const std::shared_ptr<grpc::Channel>& channel)
      : stub_(v1::AttentionService::NewStub(channel)) {}

  v1::AttentionService::Stub& stub() { return *stub_; }

  grpc::Status Attend(const v1::AttendRequest& request, v1::AttendResponse* response) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(5));
    return stub_->Attend(&context, request, response);
  }
  /// Returns the answer to a request that must succeed.
  v1::AttendResponse Must(const v1::AttendRequest& request) {
    v1::AttendResponse response;
    const grpc::Status status = Attend(request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }

  /// All messages of a stream.
  grpc::Status AttendStream(const v1::AttendRequest& request,
                            std::vector<v1::AttendStreamResponse>* parts) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(5));
    const auto reader = stub_->AttendStream(&context, request);
    for (v1::AttendStreamResponse part; reader->Read(&part);) {
      parts->push_back(part);
    }
    return reader->Finish();
  }

  v1::ServerStatistics Statistics() {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(5));
    v1::ServerStatistics statistics;
    const grpc::Status status = stub_->GetStatistics(&context, {}, &statistics);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return statistics;
  }

 private:
  std::unique_ptr<v1::AttentionService::Stub> stub_;
};

}  // namespace attention

// Open Inference requests for tests.
#pragma once

#include <google/protobuf/text_format.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor/tensor.h"
#include "gtest/gtest.h"
#include "proto/inference/open_inference.pb.h"

namespace attention {

/// From protobuf's text format.
inline inference::ModelInferRequest InferText(const std::string& text) {
  inference::ModelInferRequest request;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &request)) << text;
  return request;
}

inline inference::ModelInferRequest InferRequest(const std::string& model) {
  inference::ModelInferRequest request;
  request.set_model_name(model);
  return request;
}

inline inference::ModelInferRequest::InferInputTensor& AddHeader(
    inference::ModelInferRequest& request, const std::string& name, const std::string& datatype,
    const Shape& shape) {
  auto& input = *request.add_inputs();
  input.set_name(name);
  input.set_datatype(datatype);
  input.mutable_shape()->Assign(shape.begin(), shape.end());
  return input;
}

/// A raw input of these bytes.
inline void AddBytes(inference::ModelInferRequest& request, const std::string& name,
                     const std::string& datatype, const Shape& shape, std::string bytes) {
  AddHeader(request, name, datatype, shape);
  request.add_raw_input_contents(std::move(bytes));
}

inline std::string BytesOf(const Tensor& tensor) {
  return {static_cast<const char*>(tensor.data()), tensor.size_bytes()};
}

template <typename T>
std::string BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

inline void AddTensor(inference::ModelInferRequest& request, const std::string& name,
                      const Tensor& tensor) {
  AddBytes(request, name, std::string(Name(tensor.dtype())), tensor.shape(), BytesOf(tensor));
}
inline void AddInt32(inference::ModelInferRequest& request, const std::string& name,
                     const Shape& shape, const std::vector<int32_t>& values) {
  AddBytes(request, name, "INT32", shape, BytesOf(values));
}
inline void AddInt64(inference::ModelInferRequest& request, const std::string& name,
                     const Shape& shape, const std::vector<int64_t>& values) {
  AddBytes(request, name, "INT64", shape, BytesOf(values));
}

inline void SetLayer(inference::ModelInferRequest& request, int64_t layer) {
  (*request.mutable_parameters())["layer"].set_int64_param(layer);
}

/// [2, 3] token ids for the model.
inline inference::ModelInferRequest Ids(const std::string& model) {
  inference::ModelInferRequest request = InferRequest(model);
  AddInt64(request, "input_ids", {2, 3}, {1, 2, 3, 4, 5, 6});
  return request;
}

}  // namespace attention

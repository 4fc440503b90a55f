// Options of a request, and biases and masks for the wire and for the reference alike.
#pragma once

#include <google/protobuf/text_format.h>

#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "proto/attention/v1/attention.pb.h"
#include "proto/codec/tensor.h"

namespace attention {

/// From protobuf's text format.
inline v1::AttentionOptions Options(const std::string& text) {
  v1::AttentionOptions options;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &options)) << text;
  return options;
}

/// Element [batch, head, row, key] of a full bias.
inline float BiasAt(int64_t batch, int64_t head, int64_t row, int64_t key) {
  return static_cast<float>((batch * 31 + head * 17 + row * 7 + key * 3) % 11) / 4.0f - 1.0f;
}
inline bool MaskAt(int64_t batch, int64_t head, int64_t row, int64_t key) {
  return (batch * 5 + head * 3 + row * 2 + key) % 3 != 0;
}

/// `at` over shape [batch, heads, rows, keys] as elements of T.
template <typename T, typename At>
void SetScores(v1::DataType dtype, const Shape& shape, At at, v1::Tensor* wire) {
  WriteTensorHeader(dtype, shape, *wire);
  std::vector<T> values;
  for (int64_t b = 0; b < shape[0]; ++b) {
    for (int64_t h = 0; h < shape[1]; ++h) {
      for (int64_t i = 0; i < shape[2]; ++i) {
        for (int64_t j = 0; j < shape[3]; ++j) {
          values.push_back(static_cast<T>(at(b, h, i, j)));
        }
      }
    }
  }
  wire->set_data(values.data(), values.size() * sizeof(T));
}

/// The same for one sequence of the reference.
template <typename T, typename At>
std::vector<T> Scores(int64_t batch, int64_t heads, int64_t rows, int64_t keys, At at) {
  std::vector<T> values;
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < keys; ++j) {
        values.push_back(static_cast<T>(at(batch, h, i, j)));
      }
    }
  }
  return values;
}

}  // namespace attention

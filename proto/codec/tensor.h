// Tensors on the wire: dtype, shape and size, believed only when they agree.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/tensor/tensor.h"
#include "proto/attention/v1/attention.pb.h"
#include "proto/codec/payload.h"

namespace attention {

v1::DataType ToWire(Dtype dtype);

/// "[2, 5, 512]".
std::string ShapeText(const Shape& shape);

/// A received tensor whose bytes are still in the message. size_bytes of `payload` is what dtype
/// and shape ask for.
struct ReceivedTensor {
  Dtype dtype = Dtype::kF32;
  Shape shape;
  Payload payload;
};

/// `path` names the tensor in errors, e.g. `hidden_states.tensor`. INVALID_ARGUMENT for an unknown
/// dtype, more than 8 extents, a negative extent, a size that does not fit 63 bits, or a payload of
/// another size.
absl::StatusOr<ReceivedTensor> ReadTensor(const v1::Tensor& wire, Payload payload,
                                          const std::string& path);

/// A received tensor of one element type, which need not be one of core/tensor's.
struct ReceivedElements {
  Shape shape;
  Payload payload;
};

/// As ReadTensor, and INVALID_ARGUMENT for another dtype than `dtype`. REQUIRES: `dtype` is a known
/// type.
absl::StatusOr<ReceivedElements> ReadElements(const v1::Tensor& wire, Payload payload,
                                              v1::DataType dtype, const std::string& path);

/// A copy in memory of its own.
Tensor CopyTensor(const ReceivedTensor& received);

/// Set dtype and shape; the payload is Encoder::Attach's.
void WriteTensorHeader(v1::DataType dtype, const Shape& shape, v1::Tensor& wire);
void WriteTensorHeader(Dtype dtype, const Shape& shape, v1::Tensor& wire);

}  // namespace attention

// Tensors on the wire: dtype, shape and size, which must agree.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/tensor/tensor.h"
#include "proto/attention/v1/attention.pb.h"
#include "proto/codec/payload.h"

namespace attention {

v1::DataType ToWire(Dtype dtype);

/// Returns the name of a dtype for errors, or the number of one that the API does not have.
std::string DtypeText(v1::DataType dtype);

/// A received tensor whose bytes are still in the message. The size of `payload` agrees with dtype
/// and shape.
struct ReceivedTensor {
  Dtype dtype = Dtype::kF32;
  Shape shape;
  Payload payload;
};

/// Reads a tensor. `path` names it in errors, e.g. `hidden_states.tensor`. INVALID_ARGUMENT for an
/// unknown dtype, more than 8 extents, a negative extent, a size of 2^63 bytes or more, or a
/// payload of another size.
absl::StatusOr<ReceivedTensor> ReadTensor(const v1::Tensor& wire, Payload payload,
                                          const std::string& path);

/// A received tensor of one element type, which need not be one of core/tensor's.
struct ReceivedElements {
  Shape shape;
  Payload payload;
};

/// Reads elements of one dtype. Errors as ReadTensor's, and INVALID_ARGUMENT for another dtype than
/// `dtype`. REQUIRES: `dtype` is a known type.
absl::StatusOr<ReceivedElements> ReadElements(const v1::Tensor& wire, Payload payload,
                                              v1::DataType dtype, const std::string& path);

/// Copies the tensor to memory of its own.
Tensor CopyTensor(const ReceivedTensor& received);

/// Sets dtype and shape. Encoder::Attach sets the payload.
void WriteTensorHeader(v1::DataType dtype, const Shape& shape, v1::Tensor& wire);
void WriteTensorHeader(Dtype dtype, const Shape& shape, v1::Tensor& wire);

}  // namespace attention

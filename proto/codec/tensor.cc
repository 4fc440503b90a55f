#include "proto/codec/tensor.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

// More extents than any tensor of the API has, and few enough for an error text.
constexpr int kMaxRank = 8;

absl::StatusOr<Dtype> ReadDtype(v1::DataType wire, const std::string& path) {
  switch (wire) {
    case v1::FP32:
      return Dtype::kF32;
    case v1::BF16:
      return Dtype::kBf16;
    case v1::FP16:
      return Dtype::kF16;
    default:
      return absl::InvalidArgumentError(absl::StrCat(
          path, ".dtype: expected FP32 (1), BF16 (2) or FP16 (3), found ", DtypeText(wire)));
  }
}

int64_t ElementBytes(v1::DataType dtype) {
  switch (dtype) {
    case v1::BOOL:
      return 1;
    case v1::BF16:
    case v1::FP16:
      return 2;
    default:
      return 4;
  }
}

// Returns the size of the tensor in bytes.
absl::StatusOr<int64_t> SizeBytes(v1::DataType dtype, const Shape& shape, const std::string& path) {
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] < 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ".shape[", axis, "]: expected an extent of at least 0, found ", shape[axis]));
    }
  }
  const std::optional<int64_t> size = CheckedBytes(shape, ElementBytes(dtype));
  if (!size.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ".shape: expected a size below 2^63 bytes, found ", ShapeText(shape)));
  }
  return *size;
}

}  // namespace

std::string DtypeText(v1::DataType dtype) {
  return v1::DataType_IsValid(dtype) ? v1::DataType_Name(dtype)
                                     : absl::StrCat(static_cast<int>(dtype));
}

v1::DataType ToWire(Dtype dtype) {
  switch (dtype) {
    case Dtype::kBf16:
      return v1::BF16;
    case Dtype::kF16:
      return v1::FP16;
    default:
      return v1::FP32;
  }
}

absl::StatusOr<ReceivedElements> ReadElements(const v1::Tensor& wire, Payload payload,
                                              v1::DataType dtype, const std::string& path) {
  if (wire.dtype() != dtype) {
    return absl::InvalidArgumentError(absl::StrCat(path, ".dtype: expected ", DtypeText(dtype),
                                                   ", found ", DtypeText(wire.dtype())));
  }
  if (wire.shape_size() > kMaxRank) {
    return absl::InvalidArgumentError(absl::StrCat(path, ".shape: expected at most ", kMaxRank,
                                                   " extents, found ", wire.shape_size()));
  }
  ReceivedElements elements;
  elements.shape.assign(wire.shape().begin(), wire.shape().end());
  ASSIGN_OR_RETURN(const int64_t expected, SizeBytes(dtype, elements.shape, path));
  if (elements.shape.empty() && static_cast<int64_t>(payload.size_bytes()) != expected) {
    return absl::InvalidArgumentError(absl::StrCat(path, ".shape: expected the extents of ",
                                                   payload.size_bytes(),
                                                   " bytes of data, found none"));
  }
  if (static_cast<int64_t>(payload.size_bytes()) != expected) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ".data: expected ", expected, " bytes for ", DtypeText(dtype), " ",
                     ShapeText(elements.shape), ", found ", payload.size_bytes()));
  }
  elements.payload = std::move(payload);
  return elements;
}

absl::StatusOr<ReceivedTensor> ReadTensor(const v1::Tensor& wire, Payload payload,
                                          const std::string& path) {
  ASSIGN_OR_RETURN(const Dtype dtype, ReadDtype(wire.dtype(), path));
  ASSIGN_OR_RETURN(ReceivedElements elements,
                   ReadElements(wire, std::move(payload), wire.dtype(), path));
  return ReceivedTensor{dtype, std::move(elements.shape), std::move(elements.payload)};
}

Tensor CopyTensor(const ReceivedTensor& received) {
  Tensor tensor(received.dtype, received.shape);
  received.payload.CopyTo(0, received.payload.size_bytes(), tensor.data());
  return tensor;
}

void WriteTensorHeader(v1::DataType dtype, const Shape& shape, v1::Tensor& wire) {
  wire.set_dtype(dtype);
  wire.mutable_shape()->Assign(shape.begin(), shape.end());
}

void WriteTensorHeader(Dtype dtype, const Shape& shape, v1::Tensor& wire) {
  WriteTensorHeader(ToWire(dtype), shape, wire);
}

}  // namespace attention

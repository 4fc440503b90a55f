#include "proto/codec/tensor.h"

#include <limits>

#include "gmock/gmock.h"
#include "tests/proto/wire_bytes.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

absl::StatusOr<ReceivedTensor> Read(v1::DataType dtype, const Shape& shape, size_t size_bytes) {
  v1::Tensor wire;
  wire.set_dtype(dtype);
  wire.mutable_shape()->Assign(shape.begin(), shape.end());
  return ReadTensor(wire, Payload(nullptr, 0, size_bytes), "hidden_states.tensor");
}

auto IsRefused(const std::string& text) {
  return StatusIs(absl::StatusCode::kInvalidArgument, text);
}

TEST(TensorTest, RefusesAnotherSizeThanTheShapeAsksFor) {
  EXPECT_THAT(
      Read(v1::FP32, {2, 5, 512}, 20476),
      IsRefused(
          "hidden_states.tensor.data: expected 20480 bytes for FP32 [2, 5, 512], found 20476"));
  EXPECT_THAT(
      Read(v1::BF16, {2, 5, 512}, 20480),
      IsRefused(
          "hidden_states.tensor.data: expected 10240 bytes for BF16 [2, 5, 512], found 20480"));
  EXPECT_THAT(
      Read(v1::FP16, {}, 4),
      IsRefused("hidden_states.tensor.shape: expected the extents of 4 bytes of data, found "
                "none"));
}

TEST(TensorTest, RefusesExtentsThatAreNone) {
  EXPECT_THAT(
      Read(v1::FP32, {2, -5, 512}, 0),
      IsRefused("hidden_states.tensor.shape[1]: expected an extent of at least 0, found -5"));
  EXPECT_THAT(
      Read(v1::FP32, {0, -1}, 0),
      IsRefused("hidden_states.tensor.shape[1]: expected an extent of at least 0, found -1"));
}

TEST(TensorTest, RefusesASizeThatWrapsAround) {
  EXPECT_THAT(Read(v1::FP32, {int64_t{1} << 32, int64_t{1} << 30}, 0),
              IsRefused("hidden_states.tensor.shape: expected a size below 2^63 bytes, found "
                        "[4294967296, 1073741824]"));
  EXPECT_THAT(Read(v1::FP16, {kMax, 2}, 0), ::testing::Not(IsOk()));
}

TEST(TensorTest, RefusesAnUnknownDtype) {
  EXPECT_THAT(
      Read(v1::DATA_TYPE_UNSPECIFIED, {1}, 4),
      IsRefused("hidden_states.tensor.dtype: expected FP32 (1), BF16 (2) or FP16 (3), found "
                "DATA_TYPE_UNSPECIFIED"));
  EXPECT_THAT(
      Read(static_cast<v1::DataType>(9), {1}, 4),
      IsRefused("hidden_states.tensor.dtype: expected FP32 (1), BF16 (2) or FP16 (3), found 9"));
}

TEST(TensorTest, RefusesDtypesThatAreNoInput) {
  EXPECT_THAT(
      Read(v1::BOOL, {4}, 4),
      IsRefused("hidden_states.tensor.dtype: expected FP32 (1), BF16 (2) or FP16 (3), found BOOL"));
  EXPECT_THAT(Read(v1::INT32, {1}, 4),
              IsRefused("hidden_states.tensor.dtype: expected FP32 (1), BF16 (2) or FP16 (3), "
                        "found INT32"));
}

TEST(TensorTest, ReadsElementsOfTheOneDtypeAskedFor) {
  v1::Tensor wire;
  WriteTensorHeader(v1::BOOL, {2, 3}, wire);
  const auto read = [&](v1::DataType dtype, size_t size_bytes) {
    return ReadElements(wire, Payload(nullptr, 0, size_bytes), dtype, "options.mask");
  };
  EXPECT_THAT(read(v1::BOOL, 6), IsOk());
  EXPECT_THAT(read(v1::BOOL, 24),
              IsRefused("options.mask.data: expected 6 bytes for BOOL [2, 3], found 24"));
  EXPECT_THAT(read(v1::FP32, 24), IsRefused("options.mask.dtype: expected FP32, found BOOL"));
  WriteTensorHeader(v1::INT32, {2, 3}, wire);
  EXPECT_THAT(read(v1::INT32, 24), IsOk());
}

TEST(TensorTest, AcceptsZeroExtents) {
  EXPECT_THAT(Read(v1::FP32, {0}, 0), IsOk());
  EXPECT_THAT(Read(v1::FP32, {kMax, 0, kMax}, 0), IsOk());
  EXPECT_THAT(Read(v1::FP32, {3, 0, 512}, 4), ::testing::Not(IsOk()));
}

TEST(TensorTest, CopiesDtypeShapeAndBytes) {
  const std::string bytes = Bytes({1, 2, 3, 4, 5, 6, 7, 8});
  const auto message = std::make_shared<const ReceivedBytes>(Cut(bytes, 3));
  v1::Tensor wire;
  WriteTensorHeader(Dtype::kBf16, {2, 2}, wire);
  const auto received = ReadTensor(wire, Payload(message, 0, 8), "t");
  ASSERT_THAT(received, IsOk());
  const Tensor tensor = CopyTensor(*received);
  EXPECT_EQ(tensor.dtype(), Dtype::kBf16);
  EXPECT_THAT(tensor.shape(), ::testing::ElementsAre(2, 2));
  EXPECT_EQ(std::string(static_cast<const char*>(tensor.data()), 8), bytes);
}

}  // namespace
}  // namespace attention

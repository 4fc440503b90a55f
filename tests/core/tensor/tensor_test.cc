#include "core/tensor/tensor.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "gmock/gmock.h"

namespace attention {
namespace {

TEST(TensorTest, CountsElementsAndBytes) {
  EXPECT_EQ(NumElements({}), 1);
  EXPECT_EQ(NumElements({2, 5, 512}), 5120);
  EXPECT_EQ(NumElements({2, 0, 512}), 0);
  EXPECT_EQ(Tensor(Dtype::kF32, {2, 3}).size_bytes(), 24u);
  EXPECT_EQ(Tensor(Dtype::kBf16, {2, 3}).size_bytes(), 12u);
  EXPECT_EQ(Tensor().num_elements(), 0);
}

TEST(TensorTest, ChecksThatBytesFit) {
  EXPECT_EQ(CheckedBytes(Shape{}, 4), 4);
  EXPECT_EQ(CheckedBytes(Shape{2, 5, 512}, 2), 10240);
  constexpr int64_t kHalf = int64_t{1} << 31;
  EXPECT_EQ(CheckedBytes(Shape{kHalf, kHalf}, 1), int64_t{1} << 62);
  EXPECT_EQ(CheckedBytes(Shape{kHalf, kHalf}, 2), std::nullopt);
  EXPECT_EQ(CheckedBytes(Shape{kHalf, kHalf, 4}, 1), std::nullopt);
  EXPECT_EQ(CheckedBytes(Shape{kHalf, kHalf, 4, 0}, 1), 0);
  EXPECT_EQ(NumElements({kHalf, kHalf, 4, 0}), 0);
}

TEST(TensorTest, MovingKeepsTheMemory) {
  Tensor tensor(Dtype::kF32, {4});
  const void* const data = tensor.data();
  const Tensor moved = std::move(tensor);
  EXPECT_EQ(moved.data(), data);
}

TEST(TensorTest, ConvertedToKeepsShapeAndValues) {
  Tensor tensor(Dtype::kF32, {2, 1});
  tensor.as<float>()[0] = 1.5f;
  tensor.as<float>()[1] = -2.0f;
  const Tensor converted = tensor.ConvertedTo(Dtype::kBf16);
  EXPECT_EQ(converted.dtype(), Dtype::kBf16);
  EXPECT_EQ(converted.shape(), (Shape{2, 1}));
  EXPECT_EQ(ToFloat(converted.as<Bf16>()[0]), 1.5f);
  EXPECT_EQ(ToFloat(converted.as<Bf16>()[1]), -2.0f);
}

TEST(HeadsViewTest, SlicesOfADenseViewKeepItsStrides) {
  uint16_t elements[5 * 2 * 3] = {};
  const MutableHeadsView view = DenseHeads<void*>(elements, Dtype::kBf16, 5, 2, 3);
  EXPECT_EQ(view.token_stride, 6);
  EXPECT_EQ(view.head_stride, 3);
  const MutableHeadsView slice = SliceTokens(view, 2, 3);
  EXPECT_EQ(slice.data, elements + 12);
  EXPECT_EQ(slice.tokens, 3);
  EXPECT_EQ(slice.num_heads, 2);
  EXPECT_EQ(slice.token_stride, 6);
}

}  // namespace
}  // namespace attention

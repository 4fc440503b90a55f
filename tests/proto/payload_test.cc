#include "proto/codec/payload.h"

#include <cstring>
#include <numeric>

#include "core/tensor/seeded.h"
#include "gmock/gmock.h"
#include "tests/proto/wire_bytes.h"

namespace attention {
namespace {

constexpr int64_t kCount = 10000;
constexpr size_t kHeaderBytes = 3;  // so that elements straddle slices

Payload PayloadOf(const Tensor& tensor, size_t slice_bytes) {
  const std::string bytes =
      "xyz" + std::string(static_cast<const char*>(tensor.data()), tensor.size_bytes()) + "end";
  return Payload(std::make_shared<const ReceivedBytes>(Cut(bytes, slice_bytes)), kHeaderBytes,
                 tensor.size_bytes());
}

TEST(PayloadTest, CopiesAnyRangeHoweverItIsCut) {
  std::string bytes(1000, '\0');
  std::iota(bytes.begin(), bytes.end(), '\0');
  for (const size_t slice_bytes : {1, 7, 100, 1000}) {
    const ReceivedBytes received(Cut(bytes, slice_bytes));
    ASSERT_EQ(received.size_bytes(), bytes.size());
    for (size_t offset = 0; offset < bytes.size(); offset += 13) {
      std::string part(std::min<size_t>(101, bytes.size() - offset), '\0');
      received.CopyTo(offset, part.size(), part.data());
      ASSERT_EQ(part, bytes.substr(offset, part.size()))
          << offset << " in slices of " << slice_bytes;
    }
  }
}

TEST(PayloadTest, ConvertsWhileItCopies) {
  for (const Dtype from : {Dtype::kF32, Dtype::kBf16, Dtype::kF16}) {
    const Tensor source = SeededTensor(1, from, {kCount});
    for (const Dtype to : {Dtype::kF32, Dtype::kBf16, Dtype::kF16}) {
      const Tensor expected = source.ConvertedTo(to);
      for (const size_t slice_bytes : {1001, 8192, 1 << 20}) {
        Tensor actual(to, {kCount});
        PayloadOf(source, slice_bytes).ConvertTo(from, {0, kCount}, to, actual.data());
        EXPECT_EQ(std::memcmp(actual.data(), expected.data(), expected.size_bytes()), 0)
            << Name(from) << " to " << Name(to) << " in slices of " << slice_bytes;
      }
    }
  }
}

TEST(PayloadTest, ConvertsARangeOfElements) {
  const Tensor source = SeededTensor(2, Dtype::kF16, {kCount});
  const Tensor expected = source.ConvertedTo(Dtype::kF32);
  std::vector<float> actual(77);
  PayloadOf(source, 100).ConvertTo(Dtype::kF16, {5001, 77}, Dtype::kF32, actual.data());
  EXPECT_EQ(std::memcmp(actual.data(), expected.as<float>() + 5001, 77 * sizeof(float)), 0);
}

TEST(PayloadTest, OfNothingIsEmpty) {
  const Payload payload;
  EXPECT_EQ(payload.size_bytes(), 0);
  payload.CopyTo(0, 0, nullptr);
  payload.ConvertTo(Dtype::kF32, {0, 0}, Dtype::kBf16, nullptr);
}

}  // namespace
}  // namespace attention

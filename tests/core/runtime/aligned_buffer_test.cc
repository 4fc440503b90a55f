#include "core/runtime/aligned_buffer.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace attention {
namespace {

TEST(AlignedBufferTest, IsAlignedAtEverySize) {
  for (const size_t size_bytes : {0, 1, 63, 64, 65, 4097}) {
    const AlignedBuffer buffer(size_bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u) << size_bytes;
    EXPECT_EQ(buffer.size_bytes(), size_bytes);
  }
}

}  // namespace
}  // namespace attention

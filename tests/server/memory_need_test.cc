// The memory that the limits allow, beside that of the control group.
#include "server/memory_need.h"

#include <limits>

#include "gmock/gmock.h"

namespace attention {
namespace {

constexpr int64_t kMiB = 1 << 20;

TEST(MemoryNeedTest, IsTheSumOfTheLimits) {
  const ServerOptions options = {.connections = {.max_connections = 1024},
                                 .max_message_bytes = 16 * kMiB,
                                 .max_queue_bytes = 100 * kMiB,
                                 .max_queue_requests = 512,
                                 .max_reply_bytes = 50 * kMiB,
                                 .max_cache_bytes = 32 * kMiB};
  EXPECT_EQ(MemoryNeed(options),
            (512 + 8 * 16 + 140 + 25 + 50 + 32 + 256 + 4) * kMiB + 1024 * 20'000);
  ServerOptions other = options;
  other.max_queue_requests = 8192;  // of 64 KiB each
  EXPECT_EQ(MemoryNeed(other) - MemoryNeed(options), (512 - 140) * kMiB);
  other.tls_certificate = "cert.pem";
  EXPECT_EQ(MemoryNeed(other) - MemoryNeed(options), (512 - 140) * kMiB + 1024 * 61'000);
  ServerOptions few = options;
  few.max_cache_bytes = kMiB;
  EXPECT_EQ(MemoryNeed(few) - MemoryNeed(options), (1 + 1 - 32 - 4) * kMiB) << "1 MiB of tables";
  few.max_cache_bytes = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(MemoryNeed(few), few.max_cache_bytes);
  ServerOptions many = options;
  many.max_cache_bytes = 2048 * kMiB;
  EXPECT_EQ(MemoryNeed(many) - MemoryNeed(options), (2048 + 512 + 256 - 32 - 256 - 4) * kMiB);
}

TEST(MemoryNeedTest, AGroupThatAllowsLessIsWarnedOf) {
  const ServerOptions options;
  const int64_t need = MemoryNeed(options);
  EXPECT_EQ(MemoryWarning(options, 0), "") << "no limit";
  EXPECT_EQ(MemoryWarning(options, need), "");
  EXPECT_THAT(MemoryWarning(options, 256 * kMiB),
              ::testing::AllOf(::testing::HasSubstr("its control group allows 256 MiB"),
                               ::testing::HasSubstr("--max-queue-bytes")));
  ServerOptions huge;
  huge.max_cache_bytes = huge.max_queue_bytes = std::numeric_limits<int64_t>::max();
  EXPECT_NE(MemoryWarning(huge, need), "") << "the sum does not overflow";
}

}  // namespace
}  // namespace attention

// Compressed messages: inflated up to a bound, whatever they hold.
#include "proto/codec/inflate.h"

#include <random>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "tests/proto/wire_bytes.h"
#include "tests/support/compressed.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

constexpr grpc_compression_algorithm kAlgorithms[] = {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE};

// Half of it compresses, half does not.
std::string Message(size_t size) {
  std::mt19937 random(size);
  std::string message(size / 2, 'a');
  while (message.size() < size) {
    message.push_back(static_cast<char>(random()));
  }
  return message;
}

std::string NameOf(grpc_compression_algorithm algorithm) {
  return algorithm == GRPC_COMPRESS_GZIP ? "gzip" : "deflate";
}

TEST(InflateTest, OnlyWhatIsMarkedIsCompressed) {
  const std::string bytes = Compressed("message", GRPC_COMPRESS_GZIP);
  EXPECT_FALSE(IsCompressed(Cut(bytes)));
  EXPECT_FALSE(IsCompressed(grpc::ByteBuffer()));
  EXPECT_TRUE(IsCompressed(AsCompressed(Cut(bytes), GRPC_COMPRESS_GZIP)));
  EXPECT_FALSE(IsCompressed(AsCompressed(Cut(""), GRPC_COMPRESS_GZIP))) << "nothing is nothing";
}

TEST(InflateTest, MessagesOfEverySizeComeOutHoweverTheyAreCut) {
  for (const grpc_compression_algorithm algorithm : kAlgorithms) {
    for (const size_t size : {0, 1, 4095, 4096, 4097, 100'000, 3'000'000}) {
      const std::string message = Message(size);
      const std::string bytes = Compressed(message, algorithm);
      for (const size_t slice : {size_t{7}, size_t{65536}}) {
        if (bytes.size() / slice > 10'000) {
          continue;
        }
        const auto inflated = Inflate(AsCompressed(Cut(bytes, slice), algorithm),
                                      {.max_bytes = static_cast<int64_t>(size)});
        ASSERT_THAT(inflated, IsOk());
        EXPECT_TRUE(Join(*inflated) == message) << size;
        EXPECT_LE(static_cast<int64_t>(size), MaxInflatedBytes(Cut(bytes)));
      }
    }
  }
}

TEST(InflateTest, OneByteMoreThanThereMayBeIsRefused) {
  for (const grpc_compression_algorithm algorithm : kAlgorithms) {
    for (const size_t size : {1, 4096, 4097, 1 << 20}) {
      const std::string bytes = Compressed(Message(size), algorithm);
      const auto inflated = Inflate(AsCompressed(Cut(bytes), algorithm),
                                    {static_cast<int64_t>(size) - 1, "--max-message-bytes"});
      EXPECT_THAT(inflated,
                  StatusIs(absl::StatusCode::kResourceExhausted,
                           absl::StrCat("expected a message of at most ", size - 1,
                                        " bytes (--max-message-bytes), found ", bytes.size(),
                                        " bytes of ", NameOf(algorithm), " that inflate to more")));
    }
  }
}

// 256 MiB of zeros.
TEST(InflateTest, ABombIsInflatedNoFurtherThanToTheBound) {
  for (const grpc_compression_algorithm algorithm : kAlgorithms) {
    const std::string bomb = Compressed(std::string(1 << 20, '\0'), algorithm, 256);
    int64_t taken = 0;
    const InflateLimit limit = {.max_bytes = 3 << 20, .flag = {}, .begin_block = [&](int64_t size) {
                                  taken += size;
                                  return absl::OkStatus();
                                }};
    EXPECT_THAT(Inflate(AsCompressed(Cut(bomb), algorithm), limit).status().code(),
                absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(taken, (3 << 20) + 1);
  }
}

TEST(InflateTest, WhoIsAskedBeforeABlockMayEndIt) {
  const std::string bytes = Compressed(Message(3 << 20), GRPC_COMPRESS_GZIP);
  int asked = 0;
  const InflateLimit limit = {
      .max_bytes = 3 << 20, .flag = {}, .begin_block = [&](int64_t) -> absl::Status {
        return ++asked < 2 ? absl::OkStatus() : absl::CancelledError("enough");
      }};
  EXPECT_THAT(Inflate(AsCompressed(Cut(bytes), GRPC_COMPRESS_GZIP), limit),
              StatusIs(absl::StatusCode::kCancelled, "enough"));
  EXPECT_EQ(asked, 2);
}

TEST(InflateTest, BytesThatAreNotInTheirEncodingAreRefused) {
  const std::string bytes = Compressed(Message(5000), GRPC_COMPRESS_GZIP);
  const auto expect_refused = [](const std::string& wire, grpc_compression_algorithm algorithm) {
    EXPECT_THAT(Inflate(AsCompressed(Cut(wire), algorithm), {.max_bytes = 1 << 20}),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         absl::StrCat("expected a message in ", NameOf(algorithm),
                                      " as its grpc-encoding says, found ", wire.size(),
                                      " bytes that cannot be inflated")));
  };
  expect_refused("no gzip at all", GRPC_COMPRESS_GZIP);
  expect_refused(bytes, GRPC_COMPRESS_DEFLATE);
  expect_refused(Compressed("message", GRPC_COMPRESS_DEFLATE), GRPC_COMPRESS_GZIP);
  expect_refused(bytes + "x", GRPC_COMPRESS_GZIP);
  expect_refused(bytes + bytes, GRPC_COMPRESS_GZIP);
  for (size_t length = 1; length < bytes.size(); ++length) {
    expect_refused(bytes.substr(0, length), GRPC_COMPRESS_GZIP);
  }
}

// An answer or an error, never a crash, whatever was changed on the way.
TEST(InflateTest, BytesThatWereChanged) {
  const std::string whole = Compressed(Message(3000), GRPC_COMPRESS_DEFLATE);
  std::mt19937 random(7);
  for (int round = 0; round < 5000; ++round) {
    std::string bytes = whole;
    for (uint32_t change = 0; change < 1 + random() % 3; ++change) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    const auto inflated =
        Inflate(AsCompressed(Cut(bytes, 101), GRPC_COMPRESS_DEFLATE), {.max_bytes = 4000});
    EXPECT_LE(inflated.ok() ? inflated->Length() : 0, 4000u);
  }
}

}  // namespace
}  // namespace attention

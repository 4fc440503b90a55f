// Room that a cache makes ahead of what is appended.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "core/attention/kv_cache.h"
#include "gtest/gtest.h"
#include "tests/support/attention_problem.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

constexpr int64_t kPage = kDefaultPageTokens;
const KvCacheShape kShape{1, 16, 16, KeyValueStorage::kF32};

class KvReserveTest : public ::testing::Test {
 protected:
  static KvCache NewCache(std::shared_ptr<KvMemory> memory) {
    return *KvCache::Create(kShape, std::move(memory));
  }
  absl::Status Append(KvCache& cache, int64_t count) {
    const AttentionSequence all = problem_.Sequence();
    return cache.Append(SliceTokens(all.key, 0, count), SliceTokens(all.value, 0, count));
  }
  static size_t Bytes(int64_t tokens) { return KvCache::SizeBytes(kShape, tokens); }

  AttentionProblem problem_{1, Dtype::kF32, {1, 2 * kPage, 1, 1, 16, 16}};
};

TEST_F(KvReserveTest, TwiceOrAppendingAfterItTakesNoPageTwice) {
  for (const int64_t held : {int64_t{0}, int64_t{1}, int64_t{70}, kPage - 1, kPage, kPage + 1}) {
    for (const int64_t more : {int64_t{0}, int64_t{1}, int64_t{64}, int64_t{500}, kPage}) {
      const auto memory = std::make_shared<KvMemory>();
      KvCache cache = NewCache(memory);
      ASSERT_THAT(Append(cache, held), IsOk());
      ASSERT_THAT(cache.Reserve(more), IsOk());
      const size_t reserved = memory->used_bytes();
      EXPECT_EQ(reserved, cache.size_bytes());
      EXPECT_EQ(reserved, Bytes(held + more)) << held << " + " << more;
      const CachedKeyValues view = cache.View();
      ASSERT_THAT(cache.Reserve(more), IsOk());
      ASSERT_THAT(Append(cache, more / 2), IsOk());
      ASSERT_THAT(Append(cache, more - more / 2), IsOk());
      EXPECT_EQ(memory->used_bytes(), reserved) << held << " + " << more;
      EXPECT_EQ(cache.View().pages.data(), view.pages.data()) << "views stay valid";
      EXPECT_EQ(cache.length(), held + more);
    }
  }
}

TEST_F(KvReserveTest, AReplacedPageIsFreeToThePagesBehindItToo) {
  const auto memory = std::make_shared<KvMemory>(Bytes(kPage + 64));
  KvCache cache = NewCache(memory);
  ASSERT_THAT(Append(cache, 300), IsOk());
  EXPECT_THAT(cache.Reserve(kPage + 65 - 300),
              StatusIs(absl::StatusCode::kResourceExhausted, ::testing::_));
  EXPECT_EQ(memory->used_bytes(), Bytes(300));
  EXPECT_THAT(Append(cache, kPage + 64 - 300), IsOk());
  EXPECT_EQ(memory->used_bytes(), memory->max_bytes());
}

TEST_F(KvReserveTest, ReservedRoomIsNotTakenByOthers) {
  const auto memory = std::make_shared<KvMemory>(Bytes(128) + Bytes(64));
  KvCache one = NewCache(memory);
  KvCache two = NewCache(memory);
  ASSERT_THAT(one.Reserve(128), IsOk());
  ASSERT_THAT(Append(two, 64), IsOk());
  EXPECT_THAT(Append(two, 1), StatusIs(absl::StatusCode::kResourceExhausted, ::testing::_));
  EXPECT_THAT(Append(one, 128), IsOk());
  EXPECT_THAT(one.Reserve(1), StatusIs(absl::StatusCode::kResourceExhausted, ::testing::_));
  EXPECT_EQ(one.length(), 128);
  EXPECT_EQ(memory->used_bytes(), memory->max_bytes());
}

TEST_F(KvReserveTest, TruncatingGivesBackReservedPages) {
  const auto memory = std::make_shared<KvMemory>();
  KvCache cache = NewCache(memory);
  ASSERT_THAT(Append(cache, 64), IsOk());
  ASSERT_THAT(cache.Reserve(3 * kPage), IsOk());
  ASSERT_THAT(cache.Truncate(64), IsOk());
  EXPECT_EQ(memory->used_bytes(), Bytes(kPage)) << "the page that holds tokens stays as it is";
  ASSERT_THAT(cache.Reserve(3 * kPage), IsOk());
  ASSERT_THAT(cache.Truncate(0), IsOk());
  EXPECT_EQ(memory->used_bytes(), 0);
}

TEST_F(KvReserveTest, ForksShareNoReservedPages) {
  const auto memory = std::make_shared<KvMemory>();
  KvCache cache = NewCache(memory);
  ASSERT_THAT(Append(cache, kPage), IsOk());
  ASSERT_THAT(cache.Reserve(100), IsOk());
  KvCache fork = cache.Fork();
  EXPECT_EQ(fork.size_bytes(), Bytes(kPage));
  const size_t before = memory->used_bytes();
  ASSERT_THAT(Append(cache, 100), IsOk());
  EXPECT_EQ(memory->used_bytes(), before);
  ASSERT_THAT(Append(fork, 64), IsOk());
  EXPECT_EQ(memory->used_bytes(), before + Bytes(64));
}

TEST_F(KvReserveTest, ASharedPageIsCopiedWhenTokensAreAppended) {
  const auto memory = std::make_shared<KvMemory>();
  KvCache cache = NewCache(memory);
  ASSERT_THAT(Append(cache, 100), IsOk());
  KvCache fork = cache.Fork();
  ASSERT_THAT(fork.Reserve(100), IsOk());
  EXPECT_EQ(memory->used_bytes(), Bytes(100) + Bytes(200)) << "the room is there";
  EXPECT_EQ(fork.PageOf(0), cache.PageOf(0)) << "and nothing was copied";
  EXPECT_EQ(fork.size_bytes(), memory->used_bytes());
  ASSERT_THAT(fork.Reserve(300), IsOk());
  EXPECT_EQ(memory->used_bytes(), Bytes(100) + Bytes(400)) << "a larger page replaces the other";
  ASSERT_THAT(fork.Truncate(100), IsOk());
  EXPECT_EQ(memory->used_bytes(), Bytes(100)) << "and can be given back";
  ASSERT_THAT(fork.Reserve(1), IsOk());
  ASSERT_THAT(Append(fork, 1), IsOk());
  EXPECT_NE(fork.PageOf(0), cache.PageOf(0));
  EXPECT_EQ(memory->used_bytes(), 2 * Bytes(100));
}

TEST_F(KvReserveTest, TellsWhatItWouldCopyAtOnce) {
  KvCache cache = NewCache(nullptr);
  EXPECT_EQ(cache.BytesToMove(100), 0);
  ASSERT_THAT(Append(cache, 60), IsOk());
  EXPECT_EQ(cache.BytesToMove(4), 0) << "there is room";
  EXPECT_EQ(cache.BytesToMove(5), Bytes(64));
  KvCache fork = cache.Fork();
  for (const KvCache* one : {&fork, &cache}) {
    EXPECT_EQ(one->BytesToMove(5), 0) << "a shared page is copied later";
  }
  ASSERT_THAT(fork.Reserve(kPage - 60), IsOk());
  ASSERT_THAT(Append(fork, kPage - 60), IsOk());
  EXPECT_EQ(fork.BytesToMove(1000), 0) << "a full page stays";
}

TEST_F(KvReserveTest, RefusesANegativeNumber) {
  KvCache cache = NewCache(nullptr);
  EXPECT_THAT(cache.Reserve(-1),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       ::testing::Eq("tokens: expected 0 to 1099511627776, found -1")));
}

}  // namespace
}  // namespace attention

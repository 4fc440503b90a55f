// Room that a cache makes ahead of what is appended.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
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

TEST_F(KvReserveTest, ReservingAgainTakesNoPage) {
  for (const int64_t held : {int64_t{0}, int64_t{1}, int64_t{70}, kPage - 1, kPage, kPage + 1}) {
    for (const int64_t more : {int64_t{0}, int64_t{1}, int64_t{64}, int64_t{500}, kPage}) {
      const auto memory = std::make_shared<KvMemory>();
      KvCache cache = NewCache(memory);
      ASSERT_THAT(Append(cache, held), IsOk());
      const KvGrowth growth = cache.GrowthFor(more);
      const size_t before = memory->used_bytes();
      ASSERT_THAT(cache.Reserve(more), IsOk());
      const size_t reserved = memory->used_bytes();
      EXPECT_EQ(static_cast<int64_t>(reserved - before), growth.bytes);
      EXPECT_EQ(growth.last_page_bytes > 0, reserved > before);
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

TEST_F(KvReserveTest, APageThatNobodySharesAnyMoreIsNotCopied) {
  const auto memory = std::make_shared<KvMemory>(Bytes(128));
  KvCache cache = NewCache(memory);
  ASSERT_THAT(Append(cache, 100), IsOk());
  for (int64_t length = 100; length < 110; ++length) {
    std::optional<KvCache> fork = cache.Fork();
    std::optional<KvCache> fork_of_fork = fork->Fork();
    (length % 2 == 0 ? fork : fork_of_fork).reset();
    EXPECT_EQ(cache.GrowthFor(1).bytes, static_cast<int64_t>(Bytes(128))) << "one still shares it";
    fork.reset();
    fork_of_fork.reset();
    EXPECT_EQ(cache.GrowthFor(1).bytes, 0);
    ASSERT_THAT(Append(cache, 1), IsOk()) << "a copy would have no room";
  }
  EXPECT_EQ(memory->used_bytes(), Bytes(128));
}

TEST_F(KvReserveTest, TheLastOfSeveralForksOwnsThePage) {
  const auto memory = std::make_shared<KvMemory>(Bytes(128));
  std::optional<KvCache> cache = NewCache(memory);
  ASSERT_THAT(Append(*cache, 100), IsOk());
  std::optional<KvCache> fork = cache->Fork();
  KvCache fork_of_fork = fork->Fork();
  fork.reset();
  cache.reset();
  ASSERT_THAT(fork_of_fork.Truncate(70), IsOk());
  ASSERT_THAT(Append(fork_of_fork, 58), IsOk());
  EXPECT_EQ(memory->used_bytes(), Bytes(128));
}

TEST_F(KvReserveTest, APageThatAnotherSharesAgainIsCopied) {
  const auto memory = std::make_shared<KvMemory>();
  KvCache cache = NewCache(memory);
  ASSERT_THAT(Append(cache, 100), IsOk());
  std::optional<KvCache> fork = cache.Fork();
  fork.reset();
  ASSERT_THAT(cache.Reserve(1), IsOk());
  const KvCache other = cache.Fork();
  EXPECT_EQ(cache.GrowthFor(1).bytes, static_cast<int64_t>(Bytes(128)));
  ASSERT_THAT(Append(cache, 1), IsOk());
  EXPECT_NE(cache.PageOf(0), other.PageOf(0));
}

TEST_F(KvReserveTest, APageThatIsOwnAgainIsCopiedToALargerOneAtOnce) {
  const auto memory = std::make_shared<KvMemory>(Bytes(128));
  KvCache cache = NewCache(memory);
  ASSERT_THAT(Append(cache, 60), IsOk());
  cache.Fork();
  EXPECT_EQ(cache.BytesToMove(5), Bytes(64));
  ASSERT_THAT(Append(cache, 68), IsOk()) << "its memory counts as free";
  EXPECT_EQ(memory->used_bytes(), Bytes(128));
}

TEST_F(KvReserveTest, TheErrorSaysWhoseShareIsUsed) {
  const auto whole = std::make_shared<KvMemory>(10 * Bytes(64));
  const auto may_take = [](size_t own, size_t more, size_t, size_t max) {
    return own + more <= max / 5;
  };
  KvCache cache = NewCache(std::make_shared<KvMemory>(whole, may_take, "tenant \"a\""));
  KvCache other = NewCache(whole);
  ASSERT_THAT(Append(cache, 128), IsOk());
  ASSERT_THAT(Append(other, 64), IsOk());
  EXPECT_EQ(cache.memory().RoomFor(cache.GrowthFor(1)), KvMemory::Room::kShareUsed);
  EXPECT_EQ(other.memory().RoomFor(other.GrowthFor(1)), KvMemory::Room::kEnough);
  const auto text = [](size_t bytes) { return std::to_string(bytes); };
  EXPECT_THAT(Append(cache, 1),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       ::testing::Eq("key/value cache: expected room for 1 tokens more (" +
                                     text(Bytes(192)) +
                                     " bytes a page), found tenant \"a\" has used its share: " +
                                     text(Bytes(128)) + " of the " + text(Bytes(128) + Bytes(64)) +
                                     " bytes in use of " + text(10 * Bytes(64)) + ", " +
                                     text(Bytes(192) - Bytes(128)) + " more would exceed it")));
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

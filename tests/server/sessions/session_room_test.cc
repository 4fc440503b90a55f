// The memory of a session's caches: what a step may take, what gives way to it, and what is
// reported.
#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "server/scheduling/refusal.h"
#include "server/sessions/session_table.h"
#include "tests/support/many_slabs.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

constexpr KvCacheShape kShape{
    .num_kv_heads = 1, .head_dim = 16, .value_head_dim = 16, .page_tokens = 512};
constexpr int64_t kLayers = 2;

int64_t Bytes(int64_t tokens) {
  return kLayers * static_cast<int64_t>(KvCache::SizeBytes(kShape, tokens));
}

void Append(std::vector<KvCache>& caches, int64_t tokens) {
  const std::vector<float> rows(tokens * 16);
  const void* data = rows.data();
  const HeadsView view = DenseHeads(data, Dtype::kF32, tokens, 1, 16);
  for (KvCache& cache : caches) {
    ASSERT_THAT(cache.Append(view, view), IsOk());
  }
}

class SessionRoomTest : public ::testing::Test {
 protected:
  static constexpr auto kYes = MayEndParked::kYes;

  std::vector<KvCache> NewCaches(const std::string& account = "a") {
    std::vector<KvCache> caches;
    for (int64_t i = 0; i < kLayers; ++i) {
      caches.push_back(*KvCache::Create(kShape, table_.memory(account)));
    }
    return caches;
  }

  std::shared_ptr<Session> NewSession(int64_t tokens, const std::string& account = "a") {
    SessionPlan plan;
    plan.time_to_live = absl::Hours(1);
    plan.target.make_caches = [this, account] { return NewCaches(account); };
    auto session = std::make_shared<Session>(std::move(plan));
    EXPECT_THAT(session->Add(0), IsOk());
    SessionSequence& sequence = **session->Find(0);
    Append(sequence.caches, tokens);
    sequence.length = tokens;
    SetSize(sequence);
    return session;
  }

  void Park(std::shared_ptr<Session> session, const std::string& account = "a") {
    auto slot = table_.TakeSlot(account);
    ASSERT_THAT(slot, IsOk());
    table_.Park("token " + std::to_string(++parked_), {std::move(session), *std::move(slot), ""});
  }

  void Keep(std::vector<KvCache>& caches, int32_t first_id, const std::string& account = "a") {
    const std::vector<int32_t> ids(caches[0].length(), first_id);
    const std::vector<float> hidden(ids.size() * 16);
    table_.prefixes().Add({.model = model_, .account = account},
                          {.ids = ids, .caches = caches, .hidden = hidden});
  }

  int64_t used_bytes() const { return table_.statistics().cache_bytes; }

  const std::shared_ptr<const Model> model_ = *Model::CreateSeeded(
      {.name = "m", .d_model = 16, .num_heads = 1, .vocab_size = 2, .max_positions = 1});
  SessionTable table_{{.max_sessions = 100,
                       .max_cache_bytes = 18 * Bytes(512),  // an account alone may have 16
                       .max_prefix_bytes = 18 * Bytes(512)}};
  int parked_ = 0;
};

TEST_F(SessionRoomTest, AStepBeyondTheShareEndsNothing) {
  for (int i = 0; i < 3; ++i) {
    Park(NewSession(512));
  }
  std::vector<KvCache> prompt = NewCaches();
  Append(prompt, 512);
  Keep(prompt, 1);
  prompt.clear();
  std::vector<KvCache> caches = NewCaches();
  EXPECT_THAT(table_.ReserveFor("a", caches, 17 * 512, kYes),
              StatusIs(absl::StatusCode::kResourceExhausted, ::testing::_));
  EXPECT_EQ(table_.statistics().parked, 3);
  EXPECT_EQ(table_.prefixes().statistics().prefixes, 1);
  EXPECT_THAT(table_.ReserveFor("a", caches, 16 * 512, kYes), IsOk());
  EXPECT_EQ(table_.statistics().parked, 0) << "it needed all of it";
  EXPECT_EQ(table_.prefixes().statistics().prefixes, 0);
  std::vector<KvCache> more = NewCaches();
  const absl::Status refused = table_.ReserveFor("a", more, 1, kYes);
  EXPECT_EQ(ReasonOf(refused), RefusalReason::kTenantShare);
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted,
                                ::testing::AllOf(::testing::HasSubstr("a has used its share: "),
                                                 ::testing::HasSubstr("(--max-cache-bytes)"))));
}

/// A sequence whose prompt is kept as a prefix, which shares its last page. There is no room for a
/// copy of that page.
class SharedPromptTest : public SessionRoomTest {
 protected:
  SharedPromptTest() {
    Append(full_, 3 * 512);
    Append(prompt_, 12 * 512 + 300);
    Keep(prompt_, 1);
  }
  bool HasRoomFor(int64_t tokens, MayEndParked may_end_parked = kYes) {
    return table_.ReserveFor("a", prompt_, tokens, may_end_parked).ok();
  }
  int64_t num_prefixes() const { return table_.prefixes().statistics().prefixes; }

  std::vector<KvCache> full_ = NewCaches();
  std::vector<KvCache> prompt_ = NewCaches();
  const std::vector<int32_t> ids_ = std::vector<int32_t>(12 * 512 + 300, 1);
  const PrefixOwner owner_{.model = model_, .account = "a"};
};

// A session must not need more room than it would without prefixes.
TEST_F(SharedPromptTest, GivesWayToItsSession) {
  ASSERT_EQ(used_bytes(), 15 * Bytes(512) + Bytes(300));
  EXPECT_FALSE(HasRoomFor(513));
  EXPECT_EQ(num_prefixes(), 1) << "it would not fit even then";
  EXPECT_FALSE(HasRoomFor(200, MayEndParked::kNo)) << "who has no session forgoes its prefix";
  EXPECT_EQ(num_prefixes(), 1);
  EXPECT_TRUE(HasRoomFor(200));
  EXPECT_EQ(num_prefixes(), 0);
  EXPECT_EQ(used_bytes(), 16 * Bytes(512)) << "no page is there twice";
  Append(prompt_, 200);
}

TEST_F(SharedPromptTest, StaysWhileAnotherSessionSharesThePage) {
  Prefix other = table_.prefixes().Find(owner_, ids_, std::ssize(ids_));
  EXPECT_FALSE(HasRoomFor(200));
  EXPECT_EQ(num_prefixes(), 1) << "the page would be copied nevertheless";
  other = {};
  EXPECT_TRUE(HasRoomFor(200));
}

TEST_F(SharedPromptTest, StaysWhileARequestWaitsForIt) {
  {
    const PrefixHold waits = table_.prefixes().Hold(owner_, ids_, std::ssize(ids_));
    EXPECT_FALSE(HasRoomFor(200));
    EXPECT_EQ(num_prefixes(), 1);
  }
  EXPECT_TRUE(HasRoomFor(200));
}

// Two sequences differ within the last page of their prompts. What they have in common has the page
// of the first, and stays as a prefix of the second.
TEST_F(SessionRoomTest, WhatTwoPromptsHaveInCommonGivesUpThePageOfOne) {
  std::vector<KvCache> first = NewCaches();
  Append(first, 11 * 512 + 300);
  Keep(first, 1);
  std::vector<int32_t> ids(first[0].length(), 1);
  const PrefixOwner owner{.model = model_, .account = "a"};
  ids[11 * 512 + 290] = 0;
  Prefix known = table_.prefixes().Find(owner, ids, std::ssize(ids));
  ASSERT_EQ(known.length, 11 * 512 + 290);
  std::vector<KvCache> second = std::move(known.caches);
  Append(second, 10);
  const std::vector<float> hidden(10 * 16);
  table_.prefixes().Add(owner,
                        {.ids = ids, .caches = second, .known = known.length, .hidden = hidden});
  EXPECT_EQ(table_.prefixes().statistics().prefixes, 3);
  std::vector<KvCache> full = NewCaches();
  ASSERT_THAT(table_.ReserveFor("a", full, 3 * 512, kYes), IsOk());
  ASSERT_THAT(table_.ReserveFor("a", first, 10, kYes), IsOk());
  Append(first, 10);
  EXPECT_EQ(table_.prefixes().statistics().prefixes, 2);
  EXPECT_EQ(table_.prefixes().Find(owner, ids, std::ssize(ids)).length, std::ssize(ids));
  ASSERT_THAT(table_.ReserveFor("a", second, 10, kYes), IsOk());
  EXPECT_EQ(table_.prefixes().statistics().prefixes, 0);
  Append(second, 10);
}

TEST_F(SessionRoomTest, WhatLiveSessionsHoldIsNoRoom) {
  const std::shared_ptr<Session> live = NewSession(8 * 512);
  std::vector<KvCache>& shared = (*live->Find(0))->caches;
  Keep(shared, 1);  // whose eviction would free nothing
  Park(NewSession(512));
  std::vector<KvCache> caches = NewCaches();
  EXPECT_THAT(table_.ReserveFor("a", caches, 9 * 512, kYes),
              StatusIs(absl::StatusCode::kResourceExhausted, ::testing::_));
  EXPECT_EQ(table_.statistics().parked, 1);
  EXPECT_EQ(table_.prefixes().statistics().prefixes, 1);
  EXPECT_THAT(table_.ReserveFor("a", caches, 8 * 512, kYes), IsOk());
  EXPECT_EQ(table_.statistics().parked, 0);
  EXPECT_EQ(table_.prefixes().statistics().prefixes, 1);
}

/// A prompt has two continuations, of which a request holds one.
TEST_F(SessionRoomTest, WhatIsBeforeAHeldPrefixIsNoRoom) {
  const PrefixOwner owner = {.model = model_, .account = "a"};
  std::vector<int32_t> held(1024, 1), other(1024, 1);
  std::fill(held.begin() + 512, held.end(), 2);
  std::fill(other.begin() + 512, other.end(), 3);
  for (const std::vector<int32_t>& ids : {held, other}) {
    Prefix known = table_.prefixes().Find(owner, ids, 1023);
    std::vector<KvCache> caches = known.length > 0 ? std::move(known.caches) : NewCaches();
    Append(caches, 1024 - known.length);
    const std::vector<float> hidden((1024 - known.length) * 16);
    table_.prefixes().Add(owner,
                          {.ids = ids, .caches = caches, .known = known.length, .hidden = hidden});
  }
  Park(NewSession(512));
  ASSERT_EQ(used_bytes(), 4 * Bytes(512));
  std::vector<KvCache> caches = NewCaches();
  {
    const PrefixHold hold = table_.prefixes().Hold(owner, held, 1023);
    EXPECT_THAT(table_.ReserveFor("a", caches, 15 * 512, kYes),
                StatusIs(absl::StatusCode::kResourceExhausted, ::testing::_));
    EXPECT_EQ(table_.statistics().parked, 1);
    EXPECT_EQ(used_bytes(), 4 * Bytes(512)) << "nothing was evicted in vain";
    EXPECT_THAT(table_.ReserveFor("a", caches, 14 * 512, kYes), IsOk());
    EXPECT_EQ(table_.statistics().parked, 0);
  }
  EXPECT_THAT(table_.ReserveFor("a", caches, 15 * 512, kYes), IsOk());
}

/// Neither of the two would free the pages alone.
TEST_F(SessionRoomTest, PagesThatParkedSessionsShareWithPrefixesAreRoom) {
  std::shared_ptr<Session> session = NewSession(8 * 512);
  Keep((*session->Find(0))->caches, 1);
  Park(std::move(session));
  std::vector<KvCache> caches = NewCaches();
  EXPECT_FALSE(table_.ReserveFor("a", caches, 16 * 512, MayEndParked::kNo).ok());
  EXPECT_EQ(table_.prefixes().statistics().prefixes, 1);
  EXPECT_THAT(table_.ReserveFor("a", caches, 16 * 512, kYes), IsOk());
  EXPECT_EQ(used_bytes(), 16 * Bytes(512));
}

// A hundred forks need a few bytes each, and no more time of those who look for room.
TEST_F(SessionRoomTest, PagesThatForksShareAreLookedAtOnce) {
  std::shared_ptr<Session> session = NewSession(4 * 512);
  for (int64_t fork = 1; fork <= 100; ++fork) {
    ASSERT_THAT(session->Fork(**session->Find(0), fork), IsOk());
  }
  const SessionPages own = session->pages();
  EXPECT_EQ(own.size_bytes, used_bytes());
  EXPECT_EQ(own.own_bytes, used_bytes());
  EXPECT_TRUE(own.shared.empty());
  Keep((*session->Find(0))->caches, 1);
  const SessionPages pages = session->pages();
  EXPECT_EQ(pages.size_bytes, own.size_bytes);
  EXPECT_EQ(pages.own_bytes, 0);
  ASSERT_EQ(pages.shared.size(), 4u);
  EXPECT_EQ(pages.shared[0].num_users, 101);
}

TEST_F(SessionRoomTest, AForkedSessionIsNoMoreRoomThanItsPages) {
  std::vector<KvCache> live = NewCaches();
  Append(live, 4 * 512);
  std::shared_ptr<Session> session = NewSession(8 * 512);
  for (int64_t fork = 1; fork <= 30; ++fork) {
    ASSERT_THAT(session->Fork(**session->Find(0), fork), IsOk());
  }
  Park(std::move(session));
  std::vector<KvCache> caches = NewCaches();
  EXPECT_FALSE(table_.ReserveFor("a", caches, 13 * 512, kYes).ok());
  EXPECT_EQ(table_.statistics().parked, 1);
  EXPECT_THAT(table_.ReserveFor("a", caches, 12 * 512, kYes), IsOk());
  EXPECT_EQ(table_.statistics().parked, 0);
}

TEST_F(SessionRoomTest, WhatAccountsWithMoreHaveParkedIsRoom) {
  for (int i = 0; i < 16; ++i) {
    Park(NewSession(512, "greedy"), "greedy");
  }
  std::vector<KvCache> caches = NewCaches("modest");
  EXPECT_THAT(table_.ReserveFor("modest", caches, 4 * 512, kYes), IsOk());
  EXPECT_GT(table_.statistics().parked, 8);
}

/// Four sequences take prompts of other sequences from the prefix cache, grow to three pages, end
/// and begin anew. Until its next tokens are there, each may have a fourth page, the copy of the
/// last one. The account may have 16 pages, so that all fit at any time.
TEST_F(SessionRoomTest, StepsThatFitAtOnceAreNotRefused) {
  const PrefixOwner owner{.model = model_, .account = "a"};
  std::vector<std::jthread> threads;
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([&, number] {
      std::mt19937 random(number);
      for (int turn = 0; turn < 200; ++turn) {
        std::vector<int32_t> ids(1 + random() % 1000, static_cast<int32_t>(random() % 4));
        ids.resize(ids.size() + 1 + random() % 500, number);
        Prefix known = table_.prefixes().Find(owner, ids, std::ssize(ids) - 1);
        std::vector<KvCache> caches = known.length > 0 ? std::move(known.caches) : NewCaches();
        const int64_t tokens = std::ssize(ids) - known.length;
        ASSERT_THAT(table_.ReserveFor("a", caches, tokens, kYes), IsOk());
        Append(caches, tokens);
        const std::vector<float> hidden(tokens * 16);
        table_.prefixes().Add(
            owner, {.ids = ids, .caches = caches, .known = known.length, .hidden = hidden});
        known = {};
        while (caches[0].length() < 3 * 512) {
          const int64_t step = std::min<int64_t>(1 + random() % 300, 3 * 512 - caches[0].length());
          ASSERT_THAT(table_.ReserveFor("a", caches, step, kYes), IsOk());
          Append(caches, step);
        }
      }
    });
  }
}

/// Two layers would grow, and there is room for the growth of one.
TEST_F(SessionRoomTest, ARefusedStepTakesNothing) {
  const std::shared_ptr<Session> other = NewSession(15 * 512 + 256);
  const std::shared_ptr<Session> session = NewSession(64);
  SessionSequence& sequence = **session->Find(0);
  const int64_t before = used_bytes();
  EXPECT_THAT(ReserveTokens(sequence.caches, 384 - 64),
              StatusIs(absl::StatusCode::kResourceExhausted, ::testing::_));
  EXPECT_EQ(used_bytes(), before);
  EXPECT_THAT(ReserveTokens(sequence.caches, 192 - 64), IsOk());
}

// The end of a session need not give slabs back.
TEST_F(SessionRoomTest, AStepThatLacksSlabsEndsNoSession) {
  SessionTable table({.max_sessions = 100, .max_cache_bytes = int64_t{64} << 20});
  const std::vector<KvCache> slabs = FillWithSlabs(table.memory("b"), *table.memory(""));
  table.Park("token", {NewSession(512), *table.TakeSlot("a"), ""});
  absl::Status refused;
  std::vector<std::vector<KvCache>> others;
  for (int64_t num_heads = 200; num_heads < 220 && refused.ok(); ++num_heads) {
    const KvCacheShape shape{.num_kv_heads = num_heads, .head_dim = 16, .value_head_dim = 16};
    others.emplace_back().push_back(*KvCache::Create(shape, table.memory("a")));
    refused = table.ReserveFor("a", others.back(), 64, kYes);
  }
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted,
                                ::testing::HasSubstr("of so many sizes that")));
  EXPECT_EQ(table.statistics().parked, 1);
}

TEST_F(SessionRoomTest, UseTellsWhatATruncatedSequenceStillHolds) {
  const std::shared_ptr<Session> session = NewSession(512 + 300);
  EXPECT_EQ(session->use().cache_bytes, used_bytes());
  SessionSequence& sequence = **session->Find(0);
  ASSERT_THAT(TruncateTokens(sequence, 1), IsOk());
  EXPECT_EQ(session->use().cache_bytes, Bytes(512)) << "its first page is as large as it was";
  EXPECT_EQ(session->use().cache_bytes, used_bytes());
  ASSERT_THAT(session->Fork(sequence, 1), IsOk());
  EXPECT_EQ(session->use().cache_bytes, 2 * Bytes(512)) << "shared memory counts for each";
  ASSERT_THAT(TruncateTokens(sequence, 0), IsOk());
  EXPECT_EQ(session->use().cache_bytes, Bytes(512));
}

}  // namespace
}  // namespace attention

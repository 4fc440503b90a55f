#include "server/sessions/session_table.h"

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "server/scheduling/refusal.h"
#include "tests/support/eventually.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::HasSubstr;
using Slots = std::vector<std::shared_ptr<SessionTable::Slot>>;

constexpr int64_t kSessions = 100;
constexpr int64_t kCacheBytes = 4 << 20;

class SessionTableTest : public ::testing::Test {
 protected:
  // As many as it gets.
  Slots EnterAll(const std::string& account) {
    Slots slots;
    for (int i = 0; i < 2 * kSessions; ++i) {
      if (auto slot = table_.TakeSlot(account); slot.ok()) {
        slots.push_back(*std::move(slot));
      }
    }
    return slots;
  }

  void Park(const std::string& account, const std::string& token,
            absl::Duration time_to_live = absl::Hours(1)) {
    auto slot = table_.TakeSlot(account);
    ASSERT_THAT(slot, IsOk());
    SessionPlan plan;
    plan.time_to_live = time_to_live;
    table_.Park(token, {std::make_shared<Session>(std::move(plan)), *std::move(slot), "tenant"});
  }

  absl::Status Resume(const std::string& token, const std::string& tenant = "tenant") {
    return table_.Take(token, tenant, [](const Session&) { return absl::OkStatus(); }).status();
  }

  KvCache CacheOf(const std::string& account) {
    auto cache = KvCache::Create({.num_kv_heads = 1, .head_dim = 16, .value_head_dim = 16},
                                 table_.memory(account));
    EXPECT_THAT(cache, IsOk());
    return *std::move(cache);
  }

  // Caches of a page each, as many as it gets.
  std::vector<KvCache> FillMemory(const std::string& account) {
    std::vector<KvCache> caches;
    absl::Status status;
    while (status.ok() && caches.size() < 10'000) {
      caches.push_back(CacheOf(account));
      status = caches.back().Reserve(64);
    }
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    return caches;
  }

  SessionTable table_{{.max_sessions = kSessions, .max_cache_bytes = kCacheBytes}};
};

TEST_F(SessionTableTest, AnAccountLeavesPlacesForAnother) {
  const Slots greedy = EnterAll("greedy");
  EXPECT_GE(greedy.size(), 85) << "nearly all";
  EXPECT_LE(greedy.size(), 90);
  const absl::Status refused = table_.TakeSlot("greedy").status();
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted,
                                HasSubstr("open: greedy has used its share of sessions, ")));
  EXPECT_EQ(ReasonOf(refused), RefusalReason::kTenantShare);
  EXPECT_GE(EnterAll("modest").size(), 5);
}

TEST_F(SessionTableTest, AnAccountLeavesMemoryForAnother) {
  const std::vector<KvCache> greedy = FillMemory("greedy");
  const auto used = static_cast<double>(table_.statistics().cache_bytes);
  EXPECT_GT(used, 0.85 * kCacheBytes) << "nearly all";
  EXPECT_LT(used, 0.91 * kCacheBytes);
  EXPECT_GE(FillMemory("modest").size(), 5);
  EXPECT_EQ(static_cast<double>(table_.statistics().cache_bytes), used) << "it gave back its own";
}

TEST_F(SessionTableTest, WhatIsGivenBackIsFreeForAll) {
  FillMemory("greedy");
  EXPECT_EQ(table_.statistics().cache_bytes, 0);
  KvCache cache = CacheOf("another");
  EXPECT_THAT(cache.Reserve(2000), IsOk());
}

TEST_F(SessionTableTest, WhoHasMoreDoesNotEndTheParkedSessionsOfOthers) {
  Park("modest", "token");
  const Slots greedy = EnterAll("greedy");
  EXPECT_EQ(table_.statistics().parked, 1);
  const std::vector<KvCache> caches = FillMemory("greedy");
  EXPECT_FALSE(table_.EndOneParkedFor("greedy"));
}

/// Accounts with prefixes, beside accounts that have sessions only.
TEST_F(SessionTableTest, WhoHasMoreInSessionsDoesNotEvictThePrefixesOfOthers) {
  SessionTable table({.max_cache_bytes = kCacheBytes, .max_prefix_bytes = kCacheBytes});
  const std::shared_ptr<const Model> model = *Model::CreateSeeded(
      {.name = "m", .d_model = 16, .num_heads = 1, .vocab_size = 2, .max_positions = 1});
  const auto append = [&](const std::string& account, int64_t tokens) {
    KvCache cache = *KvCache::Create(
        {.num_kv_heads = 1, .head_dim = 16, .value_head_dim = 16, .page_tokens = 512},
        table.memory(account));
    const std::vector<float> rows(tokens * 16);
    const void* data = rows.data();
    const HeadsView view = DenseHeads(data, Dtype::kF32, tokens, 1, 16);
    EXPECT_THAT(cache.Append(view, view), IsOk());
    return cache;
  };
  std::vector<KvCache> caches;
  caches.push_back(append("prefixes", 100));
  const std::vector<int32_t> ids(100, 1);
  const std::vector<float> hidden(100 * 16);
  table.prefixes().Add({.model = model, .account = "prefixes"},
                       {.ids = ids, .caches = caches, .hidden = hidden});
  caches.clear();
  const KvCache sessions = append("sessions", 400);
  EXPECT_FALSE(table.EvictPrefixFor("sessions")) << "it has more than those whom it would evict";
  EXPECT_EQ(table.prefixes().statistics().prefixes, 1);
  const KvCache modest = append("modest", 10);
  EXPECT_TRUE(table.EvictPrefixFor("modest"));
  EXPECT_EQ(table.prefixes().statistics().prefixes, 0);
}

TEST_F(SessionTableTest, WhoHasLessEndsAParkedSessionOfWhoHasMore) {
  for (int i = 0; i < kSessions; ++i) {
    Park("hoarder " + std::to_string(i % 20), "token " + std::to_string(i));
  }
  EXPECT_EQ(table_.statistics().sessions, kSessions);
  EXPECT_THAT(table_.TakeSlot("modest"), IsOk());
  EXPECT_EQ(table_.statistics().parked, kSessions - 1);
}

TEST_F(SessionTableTest, WhoHasAsMuchDoesNotEndTheParkedSessionsOfOthers) {
  constexpr int kEach = 5;
  for (int i = 0; i < kEach; ++i) {
    Park("parker", "token " + std::to_string(i));
  }
  Slots slots;
  for (int i = kEach; i < kSessions; ++i) {
    slots.push_back(*table_.TakeSlot("account " + std::to_string(i / kEach)));
  }
  EXPECT_FALSE(table_.TakeSlot("account 1").ok());
  EXPECT_EQ(table_.statistics().parked, kEach);
}

TEST_F(SessionTableTest, TheParkedSessionThatWouldExpireFirstEndsFirst) {
  Park("a", "early", absl::Minutes(10));
  Park("a", "late", absl::Hours(1));
  Park("a", "middle", absl::Minutes(30));
  EXPECT_TRUE(table_.EndOneParkedFor("a"));
  EXPECT_FALSE(Resume("early").ok());
  EXPECT_THAT(Resume("late"), IsOk());
  EXPECT_THAT(Resume("middle"), IsOk());
}

TEST_F(SessionTableTest, CountsWhatEndedTheWaitOfParkedSessions) {
  Park("a", "resumed");
  Park("a", "evicted", absl::Minutes(1));
  EXPECT_THAT(Resume("resumed"), IsOk());
  EXPECT_FALSE(Resume("resumed").ok());
  EXPECT_TRUE(table_.EndOneParkedFor("a"));
  Park("a", "expired", absl::Milliseconds(1));
  EXPECT_TRUE(Eventually([&] { return table_.statistics().expired == 1; }));
  const SessionStatistics all = table_.statistics();
  EXPECT_EQ(all.resumed, 1);
  EXPECT_EQ(all.evicted, 1);
  EXPECT_EQ(all.parked, 0);
}

TEST_F(SessionTableTest, AnotherTenantDoesNotGetASessionByItsToken) {
  Park("a", "token");
  EXPECT_THAT(Resume("token", "another"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("open.resume_token")));
  EXPECT_THAT(Resume("token"), IsOk());
}

}  // namespace
}  // namespace attention

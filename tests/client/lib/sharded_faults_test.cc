// A sequence over servers that hang, refuse, break off or are not there.
#include <atomic>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "client/lib/sharded_session.h"
#include "core/tensor/seeded.h"
#include "gmock/gmock.h"
#include "tests/client/lib/page_server.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::Pair;
using ::testing::SizeIs;

constexpr int64_t kFaultPage = kShardPageTokens;
constexpr char kNoServer[] = "127.0.0.1:1";

class ShardedFaultsTest : public ::testing::Test {
 protected:
  static Shard ShardOn(const std::string& address, int64_t max_pages) {
    return {{.server = address}, max_pages * kFaultPage};
  }

  std::unique_ptr<ShardedSession> Open(std::vector<Shard> shards, int64_t head_dim = 4) {
    head_dim_ = head_dim;
    ShardedSessionOptions options;
    options.shards = std::move(shards);
    options.heads.set_num_heads(kHeads);
    options.heads.set_head_dim(head_dim);
    options.timeout = absl::Minutes(1);
    auto session = ShardedSession::Open(options);
    EXPECT_THAT(session, IsOk());
    return *std::move(session);
  }

  Tensor Rows(int64_t count) const {
    return SeededTensor(1, Dtype::kF32, {count, kHeads, head_dim_});
  }
  absl::Status Append(ShardedSession& session, int64_t count) const {
    return session.Append(Rows(count), Rows(count));
  }
  absl::StatusOr<AttendResult> Step(ShardedSession& session, int64_t count) const {
    return session.Step(Rows(count), Rows(count), Rows(count));
  }

  static constexpr int64_t kHeads = 4;
  int64_t head_dim_ = 0;
};

TEST_F(ShardedFaultsTest, AServerThatDoesNotAnswerHoldsUpNoOther) {
  // Two pages have more bytes than a server is sent at a time, so that the others must be read
  // before they are sent their third. The first breaks off only when they have all of theirs.
  constexpr int64_t kHeadDim = 63;
  std::atomic<int> arrived = 0;
  const auto count = [&arrived](const v1::DecodeRequest& request) {
    arrived += request.has_step() ? 1 : 0;
    arrived.notify_all();
    return grpc::Status::OK;
  };
  PageServer second(count), third(count);
  PageServer hung([&arrived](const v1::DecodeRequest& request) {
    if (!request.has_step()) {
      return grpc::Status::OK;
    }
    for (int seen = arrived; seen < 6; seen = arrived) {
      arrived.wait(seen);
    }
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "held");
  });
  const auto session =
      Open({ShardOn(hung.address(), 1), ShardOn(second.address(), 3), ShardOn(third.address(), 0)},
           kHeadDim);
  EXPECT_THAT(Append(*session, 7 * kFaultPage),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("held")));
  EXPECT_THAT(second.step_rows(), SizeIs(3));
  EXPECT_THAT(third.step_rows(), SizeIs(3));
  EXPECT_EQ(session->length(), 0);
  // The two keep serving. No token is missing.
  ASSERT_THAT(Append(*session, 2 * kFaultPage), IsOk());
  EXPECT_THAT(session->held(), ElementsAre(ShardRange{0, 2 * kFaultPage, second.address()}));
}

TEST_F(ShardedFaultsTest, PagesOfACallThatFailsAreReleased) {
  PageServer first, second;
  const auto session = Open({ShardOn(first.address(), 1), ShardOn(second.address(), 1)});
  ASSERT_THAT(Append(*session, 10), IsOk());
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(Append(*session, 2 * kFaultPage),
                StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("room for token 4096")));
    EXPECT_THAT(session->held(), ElementsAre(ShardRange{0, 10, first.address()}));
    EXPECT_THAT(first.sequences(), ElementsAre(0, 1));
    EXPECT_THAT(second.sequences(), ElementsAre(0));
  }
  ASSERT_THAT(Append(*session, 5), IsOk());
  EXPECT_THAT(session->held(), ElementsAre(ShardRange{0, 15, first.address()}));
  // The number of a sequence that was released is used again.
  ASSERT_THAT(Append(*session, kFaultPage - 5), IsOk());
  EXPECT_THAT(second.sequences(), ElementsAre(0, 1));
  EXPECT_THAT(session->held(), ElementsAre(ShardRange{0, kFaultPage, first.address()},
                                           ShardRange{kFaultPage, 10, second.address()}));
}

TEST_F(ShardedFaultsTest, ARefusedPageLeavesNoneOfItsCall) {
  PageServer server([](const v1::DecodeRequest& request) {
    return request.has_fork() && request.fork().new_sequence() == 3
               ? grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "no more sequences")
               : grpc::Status::OK;
  });
  const auto session = Open({ShardOn(server.address(), 0)});
  EXPECT_THAT(Append(*session, 3 * kFaultPage),
              StatusIs(absl::StatusCode::kResourceExhausted, "no more sequences"));
  EXPECT_THAT(session->held(), IsEmpty());
  EXPECT_THAT(server.sequences(), ElementsAre(0));
  EXPECT_THAT(Append(*session, 2 * kFaultPage), IsOk());
}

TEST_F(ShardedFaultsTest, PagesThatDoNotComeBackAreReleased) {
  std::atomic<bool> first_is_gone = false;
  PageServer first([&first_is_gone](const v1::DecodeRequest&) {
    return first_is_gone ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone") : grpc::Status::OK;
  });
  PageServer second([](const v1::DecodeRequest& request) {
    return request.has_step() && request.sequence() == 2
               ? grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "cache: full")
               : grpc::Status::OK;
  });
  const auto session = Open({ShardOn(first.address(), 2), ShardOn(second.address(), 0)});
  ASSERT_THAT(Append(*session, 2 * kFaultPage), IsOk());
  first_is_gone = true;
  EXPECT_THAT(Step(*session, 1), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("lost:")));
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(session->AppendRange(0, Rows(2 * kFaultPage), Rows(2 * kFaultPage),
                                     ShardOn(second.address(), 0)),
                StatusIs(absl::StatusCode::kResourceExhausted, "cache: full"));
    EXPECT_THAT(second.sequences(), ElementsAre(0));
  }
  EXPECT_THAT(session->missing(), ElementsAre(ShardRange{0, 2 * kFaultPage, first.address()}));
}

TEST_F(ShardedFaultsTest, ARefusedPageThatShouldComeBackLeavesNoneOfItsCall) {
  std::atomic<bool> first_is_gone = false;
  PageServer first([&first_is_gone](const v1::DecodeRequest&) {
    return first_is_gone ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone") : grpc::Status::OK;
  });
  PageServer second([](const v1::DecodeRequest& request) {
    return request.has_fork() && request.fork().new_sequence() == 2
               ? grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "no more sequences")
               : grpc::Status::OK;
  });
  const auto session = Open({ShardOn(first.address(), 2), ShardOn(second.address(), 0)});
  ASSERT_THAT(Append(*session, 2 * kFaultPage), IsOk());
  first_is_gone = true;
  EXPECT_THAT(Step(*session, 1), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("lost:")));
  EXPECT_THAT(session->AppendRange(0, Rows(2 * kFaultPage), Rows(2 * kFaultPage),
                                   ShardOn(second.address(), 0)),
              StatusIs(absl::StatusCode::kResourceExhausted, "no more sequences"));
  EXPECT_THAT(second.sequences(), ElementsAre(0));
}

TEST_F(ShardedFaultsTest, AServerThatIsNotThereIsPassedOver) {
  PageServer first, third;
  const auto session =
      Open({ShardOn(first.address(), 1), ShardOn(kNoServer, 0), ShardOn(third.address(), 1)});
  ASSERT_THAT(Append(*session, 2 * kFaultPage), IsOk());
  EXPECT_THAT(session->held(), ElementsAre(ShardRange{0, kFaultPage, first.address()},
                                           ShardRange{kFaultPage, kFaultPage, third.address()}));
  const std::vector<ShardFailure> failures = session->failures();
  ASSERT_THAT(failures, SizeIs(1));
  EXPECT_EQ(failures[0].server, kNoServer);
  EXPECT_THAT(failures[0].status, StatusIs(absl::StatusCode::kUnavailable, HasSubstr(kNoServer)));
  EXPECT_THAT(Append(*session, 1),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr(kNoServer)));
}

TEST_F(ShardedFaultsTest, AServerThatIsBackIsUsedOnceTheOthersAreFull) {
  std::atomic<bool> is_away = true;
  PageServer first, second([&is_away](const v1::DecodeRequest&) {
    return is_away ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "away") : grpc::Status::OK;
  });
  const auto session = Open({ShardOn(first.address(), 1), ShardOn(second.address(), 0)});
  EXPECT_THAT(Append(*session, kFaultPage + 1),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("away")));
  EXPECT_THAT(session->failures(), SizeIs(1));
  is_away = false;
  ASSERT_THAT(Append(*session, kFaultPage + 1), IsOk());
  EXPECT_THAT(session->held(), ElementsAre(ShardRange{0, kFaultPage, first.address()},
                                           ShardRange{kFaultPage, 1, second.address()}));
  EXPECT_THAT(session->failures(), IsEmpty());
  // Its tokens are missing once it breaks, and only AppendRange uses it again.
  is_away = true;
  EXPECT_THAT(Append(*session, 1), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("lost:")));
  is_away = false;
  EXPECT_THAT(Append(*session, 1), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("lost:")));
  EXPECT_THAT(session->AppendRange(kFaultPage, Rows(1), Rows(1), ShardOn(second.address(), 0)),
              IsOk());
  EXPECT_THAT(Append(*session, 1), IsOk());
}

TEST_F(ShardedFaultsTest, AServerIsJoinedAgainAsItIsGiven) {
  std::atomic<bool> is_away = false;
  PageServer first, second([&is_away](const v1::DecodeRequest&) {
    return is_away ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "away") : grpc::Status::OK;
  });
  const auto session = Open({ShardOn(first.address(), 1), ShardOn(second.address(), 1)});
  ASSERT_THAT(Append(*session, kFaultPage + 1), IsOk());
  is_away = true;
  EXPECT_THAT(Append(*session, 1), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("lost:")));
  is_away = false;
  Shard back = ShardOn(second.address(), 2);
  back.connection.metadata = {{"Upper", "is refused"}};
  EXPECT_THAT(session->AppendRange(kFaultPage, Rows(1), Rows(1), back),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\"Upper\"")));
  back.connection.metadata.clear();
  ASSERT_THAT(session->AppendRange(kFaultPage, Rows(1), Rows(1), back), IsOk());
  // The share is that of `back`, too.
  EXPECT_THAT(Append(*session, 2 * kFaultPage - 1), IsOk());
}

TEST_F(ShardedFaultsTest, SinksAreFinite) {
  ShardedSessionOptions options;
  options.shards = {ShardOn(kNoServer, 0)};
  options.heads.set_num_heads(1);
  options.options.add_sinks(std::numeric_limits<float>::quiet_NaN());
  EXPECT_THAT(ShardedSession::Open(options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "options.sinks: expected finite FP32 numbers, found nan"));
}

TEST_F(ShardedFaultsTest, AServerThatBreaksWhileTokensAreTakenBackIsLost) {
  // The answers have different dtypes, so they cannot be merged.
  PageServer first;
  PageServer second(
      [](const v1::DecodeRequest& request) {
        return request.has_truncate() ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone")
                                      : grpc::Status::OK;
      },
      /*output_dtype=*/v1::BF16);
  const auto session = Open({ShardOn(first.address(), 1), ShardOn(second.address(), 1)});
  ASSERT_THAT(Append(*session, kFaultPage + 10), IsOk());
  EXPECT_THAT(Step(*session, 1),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("lost: tokens 2048 to 2057 of server " + second.address())));
  EXPECT_THAT(session->missing(), ElementsAre(ShardRange{kFaultPage, 10, second.address()}));
}

// The server may hold a token more than is counted.
TEST_F(ShardedFaultsTest, APageThatCannotBeTakenBackIsMissing) {
  PageServer first;
  PageServer second(
      [](const v1::DecodeRequest& request) {
        return request.has_truncate() ? grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "busy")
                                      : grpc::Status::OK;
      },
      /*output_dtype=*/v1::BF16);
  const auto session = Open({ShardOn(first.address(), 1), ShardOn(second.address(), 1)});
  ASSERT_THAT(Append(*session, kFaultPage + 10), IsOk());
  EXPECT_FALSE(Step(*session, 1).ok());
  EXPECT_THAT(session->missing(), ElementsAre(ShardRange{kFaultPage, 10, second.address()}));
  EXPECT_THAT(session->AppendRange(kFaultPage, Rows(10), Rows(10), ShardOn(second.address(), 1)),
              IsOk());
  EXPECT_THAT(session->missing(), IsEmpty());
}

TEST_F(ShardedFaultsTest, LongCallsAreSentInSteps) {
  PageServer server;
  const auto session = Open({ShardOn(server.address(), 0)});
  ASSERT_THAT(Append(*session, 2 * kFaultPage + 5), IsOk());
  const auto result = Step(*session, 5000);
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(result->output.shape(), ElementsAre(5000, kHeads, head_dim_));
  EXPECT_THAT(result->log_sum_exp[0].shape(), ElementsAre(kHeads, 5000));
  EXPECT_THAT(server.step_rows(), Each(Pair(Le(2048), Le(2048))));
}

}  // namespace
}  // namespace attention

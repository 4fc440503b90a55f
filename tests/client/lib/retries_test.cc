// Which calls are made again, and when.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/lib/attention_client.h"
#include "client/lib/channel.h"
#include "client/lib/decode_stream.h"
#include "client/lib/retry_policy.h"
#include "core/tensor/seeded.h"
#include "gmock/gmock.h"
#include "tests/client/lib/scripted_server.h"
#include "tests/support/localhost.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const grpc::Status kUnavailable(grpc::StatusCode::UNAVAILABLE, "going away");
const grpc::Status kExhausted(grpc::StatusCode::RESOURCE_EXHAUSTED, "the queue is full");

std::unique_ptr<AttentionClient> ClientOf(const std::string& server,
                                          absl::Duration timeout = absl::Minutes(2),
                                          bool retries = true) {
  return *AttentionClient::Connect(
      {.connection = {.server = server, .retries = retries}, .timeout = timeout});
}

absl::Status AskModel(const ScriptedServer& server, absl::Duration timeout = absl::Minutes(2)) {
  return ClientOf(server.address(), timeout)->GetModel("demo").status();
}

absl::Status Stream(const ScriptedServer& server) {
  const Tensor rows = SeededTensor(1, Dtype::kF32, {1, 2, 8});
  AttendRequest request;
  request.input = HiddenStatesInput{&rows};
  return ClientOf(server.address())->AttendStream(request, {}).status();
}

TEST(RetriesTest, AServerThatCannotNowIsAskedAgain) {
  const ScriptedServer server({{kUnavailable}, {kExhausted, "0"}, {kUnavailable}});
  EXPECT_THAT(AskModel(server), IsOk());
  EXPECT_THAT(server.calls(), SizeIs(4));
}

TEST(RetriesTest, FiveAttemptsAreAllAndTheLastErrorIsTold) {
  const ScriptedServer server(std::vector<Answer>(9, {kUnavailable}));
  EXPECT_THAT(AskModel(server),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr(server.address()), HasSubstr("going away"))));
  EXPECT_THAT(server.calls(), SizeIs(5));
}

TEST(RetriesTest, NoCallIsRepeatedWhenRetriesAreOff) {
  const ScriptedServer server({{kUnavailable}});
  EXPECT_THAT(ClientOf(server.address(), absl::Minutes(2), /*retries=*/false)->GetModel("demo"),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("going away")));
  EXPECT_THAT(server.calls(), SizeIs(1));
}

TEST(RetriesTest, TheServerSaysHowLongToWait) {
  const ScriptedServer server({{kExhausted, "2000"}, {kExhausted, "0"}});
  EXPECT_THAT(AskModel(server), IsOk());
  const std::vector<absl::Time> calls = server.calls();
  ASSERT_THAT(calls, SizeIs(3));
  EXPECT_GE(calls[1] - calls[0], absl::Milliseconds(1990));
}

TEST(RetriesTest, AServerMayForbidThem) {
  const ScriptedServer server({{kExhausted, "-1"}});
  EXPECT_THAT(AskModel(server),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("queue is full")));
  EXPECT_THAT(server.calls(), SizeIs(1));
}

// A server that refuses at once has answered.
TEST(RetriesTest, ARefusalForLackOfTimeIsNoTimeout) {
  const ScriptedServer server(
      {{{grpc::StatusCode::DEADLINE_EXCEEDED, "would take 5 min"}, "300000"}});
  const absl::Status refused = AskModel(server);
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kDeadlineExceeded,
                                absl::StrCat("server ", server.address(),
                                             ": refused with a timeout of 2m: would take 5 min")));
  EXPECT_EQ(refused.GetPayload(kPushback), "300000");
}

TEST(RetriesTest, AFullServerThatDoesNotSayWhenIsNotAskedAgain) {
  const ScriptedServer server({{kExhausted}});
  EXPECT_THAT(AskModel(server),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("queue is full")));
  EXPECT_THAT(server.calls(), SizeIs(1));
}

TEST(RetriesTest, APauseThatEndsAfterTheDeadlineIsNotMade) {
  const ScriptedServer server({{kExhausted, "600000"}});
  EXPECT_THAT(AskModel(server),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("queue is full")));
  EXPECT_THAT(server.calls(), SizeIs(1));
}

TEST(RetriesTest, TheyEndWhileMostCallsFail) {
  RetryBudget budget;
  for (int i = 0; i < 499; ++i) {
    ASSERT_TRUE(budget.Count(/*may_be_repeated=*/true));
  }
  EXPECT_FALSE(budget.Count(/*may_be_repeated=*/true));
  EXPECT_TRUE(budget.Count(/*may_be_repeated=*/false));
}

TEST(RetriesTest, AnAttemptThatFailsCounts) {
  RetryBudget budget;
  for (int i = 0; i < 499; ++i) {
    budget.Count(/*may_be_repeated=*/true);
  }
  Attempts attempts("/attention.v1.AttentionService/GetModel", /*retries=*/true, absl::Minutes(1),
                    budget);
  EXPECT_FALSE(
      attempts.WaitAfter(absl::UnavailableError("gone"), **MakeChannel({.server = "127.0.0.1:1"})));
}

TEST(RetriesTest, CallsThatSucceedDoNotEndThem) {
  std::vector<Answer> answers(600);
  answers.push_back({kUnavailable});
  const ScriptedServer server(std::move(answers));
  const auto client = ClientOf(server.address());
  for (int i = 0; i < 601; ++i) {
    ASSERT_THAT(client->GetModel("demo"), IsOk());
  }
  EXPECT_THAT(server.calls(), SizeIs(602));
}

// gRPC goes on with a handshake only while a thread waits in it.
TEST(RetriesTest, AConnectionIsMadeInThePauses) {
  const ScriptedServer server;
  const std::shared_ptr<grpc::Channel> channel = *MakeChannel({.server = server.address()});
  RetryBudget budget;
  const auto is_ready = [&] {
    return channel->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_READY;
  };
  for (int i = 0; i < 400 && !is_ready(); ++i) {
    Attempts attempts("/attention.v1.AttentionService/GetModel", /*retries=*/true, absl::Minutes(1),
                      budget);
    EXPECT_TRUE(attempts.WaitAfter(absl::UnavailableError("gone"), *channel));
  }
  EXPECT_TRUE(is_ready());
}

TEST(RetriesTest, OtherErrorsAreFinal) {
  for (const grpc::StatusCode code :
       {grpc::StatusCode::INVALID_ARGUMENT, grpc::StatusCode::NOT_FOUND, grpc::StatusCode::ABORTED,
        grpc::StatusCode::INTERNAL, grpc::StatusCode::CANCELLED, grpc::StatusCode::UNKNOWN,
        grpc::StatusCode::UNAUTHENTICATED, grpc::StatusCode::DEADLINE_EXCEEDED}) {
    const ScriptedServer server({{{code, "final"}}});
    EXPECT_THAT(AskModel(server),
                StatusIs(static_cast<absl::StatusCode>(code), HasSubstr("final")));
    EXPECT_THAT(server.calls(), SizeIs(1));
  }
}

TEST(RetriesTest, AStreamIsAskedForAgainUntilItHasBegun) {
  const ScriptedServer early({{kUnavailable}});
  EXPECT_THAT(Stream(early), IsOk());
  EXPECT_THAT(early.calls(), SizeIs(2));
  const ScriptedServer late({{kUnavailable, "", /*begins=*/true}});
  EXPECT_THAT(Stream(late), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("going away")));
  EXPECT_THAT(late.calls(), SizeIs(1));
}

TEST(RetriesTest, SessionsAndWhatChangesTheServerAreNeverRepeated) {
  const ScriptedServer server({{kUnavailable}, {kUnavailable}});
  EXPECT_THAT(DecodeStream::Open({.connection = {.server = server.address()}}, {}),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("going away")));
  EXPECT_THAT(server.calls(), SizeIs(1));
  EXPECT_THAT(ClientOf(server.address())->LoadModel("demo"),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("going away")));
  EXPECT_THAT(server.calls(), SizeIs(2));
}

TEST(RetriesTest, RequestsOfAnySizeAreSentAgain) {
  const ScriptedServer server({{kUnavailable}});
  const Tensor rows = SeededTensor(1, Dtype::kF32, {1, 1500, 512});  // 3 MB
  AttendRequest request;
  request.input = HiddenStatesInput{&rows};
  EXPECT_THAT(ClientOf(server.address())->AttendStream(request, {}), IsOk());
  EXPECT_THAT(server.calls(), SizeIs(2));
}

TEST(RetriesTest, AnotherServerAnswersForOneThatIsGoing) {
  const ScriptedServer going(std::vector<Answer>(99, {kUnavailable})), staying;
  const auto client = ClientOf(absl::StrCat(going.address(), ",", staying.address()));
  std::vector<absl::Status> answers;
  for (int i = 0; i < 6; ++i) {
    answers.push_back(client->GetModel("demo").status());
  }
  EXPECT_THAT(answers, Each(IsOk()));
  EXPECT_THAT(staying.calls(), SizeIs(6));
}

TEST(RetriesTest, ANameIsAskedAsItsAddressesAre) {
  if (!KnowsLocalhost()) {
    GTEST_SKIP() << kNoLocalhost;
  }
  const ScriptedServer server({{kUnavailable}});
  const std::string port = server.address().substr(server.address().rfind(':'));
  EXPECT_THAT(ClientOf(absl::StrCat("dns:///localhost", port))->GetModel("demo"), IsOk());
  EXPECT_THAT(server.calls(), SizeIs(2));
}

TEST(RetriesTest, AServerThatIsNotThereIsPassedOver) {
  std::string absent;
  {
    const ScriptedServer gone;
    absent = gone.address();
  }
  const ScriptedServer server;
  const auto client = ClientOf(absl::StrCat(absent, ",", server.address()), absl::Minutes(2),
                               /*retries=*/false);
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(client->GetModel("demo"), IsOk());
  }
}

}  // namespace
}  // namespace attention

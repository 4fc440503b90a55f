// Sessions of the library against a server whose answers are known.
#include "client/lib/decode_stream.h"

#include <memory>
#include <string>
#include <vector>

#include "client/lib/retry_policy.h"
#include "gmock/gmock.h"
#include "tests/client/lib/fake_decode_server.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace attention {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor Values(const std::vector<float>& values) {
  Tensor tensor(Dtype::kF32, {std::ssize(values), 1});
  std::copy(values.begin(), values.end(), tensor.as<float>());
  return tensor;
}

class DecodeStreamTest : public ::testing::Test {
 protected:
  std::unique_ptr<DecodeStream> Open(const std::string& mode,
                                     absl::Duration timeout = absl::Minutes(2)) {
    v1::OpenSession open;
    open.set_model(mode);
    auto stream =
        DecodeStream::Open({.connection = {.server = server_.address()}, .timeout = timeout}, open);
    EXPECT_THAT(stream, IsOk());
    return *std::move(stream);
  }

  FakeDecodeServer server_;
};

TEST_F(DecodeStreamTest, StepsContinueTheirSequence) {
  const auto stream = Open("fake");
  const Tensor prompt = Values({1, 2, 3}), next = Values({4});
  const auto first = stream->Step({.input = HiddenStatesInput{&prompt}});
  ASSERT_THAT(first, IsOk());
  EXPECT_THAT(first->answer.output.shape(), ElementsAre(3, 1));
  EXPECT_THAT(ValuesOf(first->answer.output), ElementsAre(1, 102, 203));
  EXPECT_EQ(first->answer.summary.compute_ns(), 5);
  EXPECT_EQ(first->answer.summary.queue_ns(), 7);
  EXPECT_EQ(first->answer.summary.batch_requests(), 2);
  EXPECT_EQ(first->session.length, 3);
  EXPECT_FALSE(first->top_logits.has_value());
  const auto second = stream->Step({.input = HiddenStatesInput{&next}});
  ASSERT_THAT(second, IsOk());
  EXPECT_THAT(ValuesOf(second->answer.output), ElementsAre(304));
  EXPECT_EQ(second->session.length, 4);
  EXPECT_THAT(stream->Close(), IsOk());
}

TEST_F(DecodeStreamTest, SequencesForkAreCutAndGo) {
  const auto stream = Open("fake");
  EXPECT_EQ(stream->opened().usage().sequences(), 1);
  const Tensor prompt = Values({1, 2}), next = Values({3});
  ASSERT_THAT(stream->Step({.input = HiddenStatesInput{&prompt}}), IsOk());
  const auto fork = stream->Fork(0, 7);
  ASSERT_THAT(fork, IsOk());
  EXPECT_EQ(fork->usage.sequences(), 2);
  ASSERT_THAT(stream->Step({.input = HiddenStatesInput{&next}}, 7), IsOk());
  const auto cut = stream->Truncate(7, 1);
  ASSERT_THAT(cut, IsOk());
  EXPECT_EQ(cut->length, 1);
  const auto again = stream->Step({.input = HiddenStatesInput{&next}}, 7);
  ASSERT_THAT(again, IsOk());
  EXPECT_THAT(ValuesOf(again->answer.output), ElementsAre(103));
  const auto other = stream->Step({.input = HiddenStatesInput{&next}}, 0);
  ASSERT_THAT(other, IsOk());
  EXPECT_THAT(ValuesOf(other->answer.output), ElementsAre(203));
  const auto released = stream->Release(7);
  ASSERT_THAT(released, IsOk());
  EXPECT_EQ(released->usage.sequences(), 1);
  EXPECT_THAT(stream->Close(), IsOk());
}

TEST_F(DecodeStreamTest, AStepMayWantNoOutputOrLogitsAlone) {
  const auto stream = Open("fake");
  const Tensor prompt = Values({1, 2});
  const auto taken_in = stream->Step({.input = HiddenStatesInput{&prompt}, .no_output = true});
  ASSERT_THAT(taken_in, IsOk());
  EXPECT_EQ(taken_in->answer.output.num_elements(), 0);
  EXPECT_EQ(taken_in->session.length, 2);
  const auto logits = stream->Step({.input = HiddenStatesInput{&prompt}, .top_logits = 1});
  ASSERT_THAT(logits, IsOk());
  ASSERT_TRUE(logits->top_logits.has_value());
  EXPECT_THAT(logits->top_logits->ids(), ElementsAre(3));
}

TEST_F(DecodeStreamTest, LogitsThatDoNotComeEndTheSession) {
  const auto stream = Open("ids");
  const Tensor prompt = Values({1, 2});
  EXPECT_THAT(
      stream->Step({.input = HiddenStatesInput{&prompt}, .top_logits = 1}),
      StatusIs(absl::StatusCode::kInternal,
               HasSubstr("top_logits: expected 1 to 1 ids and as many logits, found 1 and 0")));
  EXPECT_FALSE(stream->status().ok());
}

TEST_F(DecodeStreamTest, ARefusedActionLeavesTheSessionUsable) {
  const auto stream = Open("fake");
  const Tensor prompt = Values({1, 2});
  EXPECT_THAT(stream->Step({.input = HiddenStatesInput{&prompt}}, 5),
              StatusIs(absl::StatusCode::kNotFound, "sequence: found no 5"));
  EXPECT_THAT(stream->Release(5), StatusIs(absl::StatusCode::kNotFound, HasSubstr("no 5")));
  EXPECT_THAT(stream->Step({.input = HiddenStatesInput{nullptr}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected a tensor")));
  EXPECT_THAT(stream->Step({.input = HiddenStatesInput{&prompt}}), IsOk());
  EXPECT_THAT(stream->Close(), IsOk());
}

TEST_F(DecodeStreamTest, ARefusalSaysWhenToTryAgain) {
  const auto stream = Open("refuses");
  const Tensor prompt = Values({1});
  const absl::Status refused = stream->Step({.input = HiddenStatesInput{&prompt}}).status();
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted, "cache: full"));
  EXPECT_EQ(refused.GetPayload(kPushback), "1500");
}

TEST_F(DecodeStreamTest, AnActionWithoutAnswerEndsTheSessionAtItsTimeout) {
  const auto stream = Open("silent", absl::Seconds(2));
  const Tensor prompt = Values({1});
  const auto message = HasSubstr("no answer within 2s");
  EXPECT_THAT(stream->Step({.input = HiddenStatesInput{&prompt}}),
              StatusIs(absl::StatusCode::kDeadlineExceeded, message));
  EXPECT_THAT(stream->Release(0), StatusIs(absl::StatusCode::kDeadlineExceeded, message));
  EXPECT_THAT(stream->Close(), StatusIs(absl::StatusCode::kDeadlineExceeded, message));
}

TEST_F(DecodeStreamTest, ASessionWhoseLifetimeIsOverSaysSo) {
  const ConnectionOptions connection{.server = server_.address()};
  v1::OpenSession open;
  open.set_model("silent");
  const auto stream =
      DecodeStream::Open({.connection = connection, .lifetime = absl::Nanoseconds(1)}, open);
  const Tensor prompt = Values({1});
  // The session may be open before gRPC looks at the time.
  EXPECT_THAT(
      stream.ok() ? (*stream)->Step({.input = HiddenStatesInput{&prompt}}).status()
                  : stream.status(),
      StatusIs(absl::StatusCode::kDeadlineExceeded,
               "server " + server_.address() + ": the session has ended with its lifetime of 1ns"));
}

TEST_F(DecodeStreamTest, ABrokenStreamSaysWhoBrokeIt) {
  const Tensor prompt = Values({1});
  const auto breaks = Open("breaks");
  EXPECT_THAT(
      breaks->Step({.input = HiddenStatesInput{&prompt}}),
      StatusIs(absl::StatusCode::kUnavailable, "server " + server_.address() + ": going away"));
  EXPECT_THAT(breaks->Close(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("going away")));
  const auto ends = Open("ends");
  EXPECT_THAT(ends->Step({.input = HiddenStatesInput{&prompt}}),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("before its last answer")));
}

TEST_F(DecodeStreamTest, AnswersThatDoNotFitAreNotBelieved) {
  const Tensor prompt = Values({1, 2, 3});
  const auto stray = Open("stray");
  EXPECT_THAT(stray->Step({.input = HiddenStatesInput{&prompt}}),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("id: expected that of an action under way (2), found 3")));
  const auto too_short = Open("short");
  EXPECT_THAT(too_short->Step({.input = HiddenStatesInput{&prompt}}),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("expected 3, found 2")));
}

TEST_F(DecodeStreamTest, AfterCloseNothingGoes) {
  const auto stream = Open("fake");
  EXPECT_THAT(stream->Close(), IsOk());
  EXPECT_THAT(stream->Release(0),
              StatusIs(absl::StatusCode::kFailedPrecondition, "the session was closed"));
  EXPECT_THAT(stream->Close(),
              StatusIs(absl::StatusCode::kFailedPrecondition, "the session was closed"));
}

TEST_F(DecodeStreamTest, OtherActionsWaitForNoStepUnderWay) {
  const auto stream = Open("fake");
  const Tensor prompt = Values({1, 2});
  ASSERT_THAT(stream->SendStep({.input = HiddenStatesInput{&prompt}}), IsOk());
  ASSERT_THAT(stream->SendStep({.input = HiddenStatesInput{&prompt}}), IsOk());
  const auto refused = StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("found 2"));
  EXPECT_THAT(stream->Release(0), refused);
  EXPECT_THAT(stream->Step({.input = HiddenStatesInput{&prompt}}), refused);
  EXPECT_THAT(stream->Close(), refused);
  EXPECT_THAT(stream->ReceiveSteps(), ElementsAre(IsOk(), IsOk()));
  EXPECT_THAT(stream->Close(), IsOk());
}

TEST_F(DecodeStreamTest, AServerWithoutTlsIsTold) {
  EXPECT_THAT(
      DecodeStream::Open({.connection = {.server = server_.address(), .tls = TlsOptions{}}}, {}),
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr("(the server speaks no TLS: ")));
}

TEST(DecodeStreamOptionsTest, AreChecked) {
  EXPECT_THAT(DecodeStream::Open({.connection = {.server = ""}}, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("server: expected")));
  EXPECT_THAT(DecodeStream::Open({.timeout = absl::ZeroDuration()}, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("timeout: expected")));
  EXPECT_THAT(DecodeStream::Open({.lifetime = absl::InfiniteDuration()}, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("lifetime: expected")));
}

TEST(DecodeStreamOptionsTest, AServerThatIsNotThereIsNamed) {
  EXPECT_THAT(DecodeStream::Open(
                  {.connection = {.server = "127.0.0.1:1"}, .timeout = absl::Seconds(5)}, {}),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("server 127.0.0.1:1: ")));
}

}  // namespace
}  // namespace attention

// ModelStreamInfer: order, errors as messages or as the end, and the last reply of a request.
#include <thread>

#include "absl/strings/str_cat.h"
#include "core/tensor/seeded.h"
#include "gmock/gmock.h"
#include "tests/server/open_inference/infer_client.h"
#include "tests/server/open_inference/infer_requests.h"
#include "tests/support/in_process_server.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using inference::ModelStreamInferResponse;

class InferStreamTest : public ::testing::Test {
 protected:
  InferStreamTest() { InferClient::SetDeadline(context_); }

  /// Even ones are long.
  static inference::ModelInferRequest Request(int number) {
    inference::ModelInferRequest request = InferRequest("demo");
    request.set_id(absl::StrCat(number));
    AddTensor(request, "hidden_states",
              SeededTensor(static_cast<uint64_t>(number), Dtype::kF32,
                           {1, number % 2 == 0 ? 96 : 1, 512}));
    return request;
  }
  static inference::ModelInferRequest WrongRequest(const std::string& id) {
    inference::ModelInferRequest request = InferRequest("demo");
    request.set_id(id);
    return request;
  }

  InProcessServer server_;
  InferClient client_{server_.NewChannel()};
  grpc::ClientContext context_;
};

TEST_F(InferStreamTest, AStreamThatSendsNothingIsEnded) {
  InProcessServer server({.session_idle_timeout = absl::Milliseconds(100)});
  InferClient client(server.NewChannel());
  const auto stream = client.stub().ModelStreamInfer(&context_);
  ModelStreamInferResponse message;
  EXPECT_FALSE(stream->Read(&message));
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(status.error_message(), "the stream had no request for 100ms (--session-idle-timeout)");
}

TEST_F(InferStreamTest, AnswersInTheOrderOfTheRequests) {
  constexpr int kRequests = 40;
  const auto stream = client_.stub().ModelStreamInfer(&context_);
  std::thread writer([&] {
    for (int i = 0; i < kRequests; ++i) {
      EXPECT_TRUE(stream->Write(Request(i)));
    }
    stream->WritesDone();
  });
  int replies = 0;
  for (ModelStreamInferResponse message; stream->Read(&message); ++replies) {
    EXPECT_EQ(message.error_message(), "");
    const inference::ModelInferResponse& response = message.infer_response();
    EXPECT_EQ(response.id(), absl::StrCat(replies));
    EXPECT_TRUE(response.parameters().at("triton_final_response").bool_param());
    const auto alone = client_.Infer(Request(replies));
    ASSERT_THAT(alone, IsOk());
    EXPECT_TRUE(response.raw_output_contents(0) == alone->raw_output_contents(0));
  }
  writer.join();
  EXPECT_EQ(replies, kRequests);
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(InferStreamTest, AnErrorIsAMessageAndTheStreamGoesOn) {
  const auto stream = client_.stub().ModelStreamInfer(&context_);
  ModelStreamInferResponse message;
  ASSERT_TRUE(stream->Write(WrongRequest("bad")));
  ASSERT_TRUE(stream->Read(&message));
  EXPECT_EQ(message.error_message(),
            "inputs: expected \"input_ids\" or \"hidden_states\" of model \"demo\", found neither");
  EXPECT_EQ(message.infer_response().id(), "bad");
  EXPECT_EQ(message.infer_response().outputs_size(), 0);
  ASSERT_TRUE(stream->Write(Request(1)));
  ASSERT_TRUE(stream->Read(&message));
  EXPECT_EQ(message.error_message(), "");
  EXPECT_EQ(message.infer_response().id(), "1");
  stream->WritesDone();
  EXPECT_FALSE(stream->Read(&message));
  EXPECT_TRUE(stream->Finish().ok());
}

// The client has not ended its requests, and need not.
TEST_F(InferStreamTest, AnErrorEndsTheStreamOfAClientThatWantsIt) {
  context_.AddMetadata("triton_grpc_error", "true");
  const auto stream = client_.stub().ModelStreamInfer(&context_);
  ModelStreamInferResponse message;
  ASSERT_TRUE(stream->Write(Request(0)));
  ASSERT_TRUE(stream->Write(WrongRequest("bad")));
  ASSERT_TRUE(stream->Read(&message));
  EXPECT_EQ(message.infer_response().id(), "0");
  EXPECT_FALSE(stream->Read(&message));
  EXPECT_THAT(ToAbslStatus(stream->Finish()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "inputs: expected \"input_ids\" or \"hidden_states\" of model \"demo\", "
                       "found neither"));
}

TEST_F(InferStreamTest, AnswersThatAreNotSentDoNotCountAsCompleted) {
  context_.AddMetadata("triton_grpc_error", "true");
  const auto stream = client_.stub().ModelStreamInfer(&context_);
  ASSERT_TRUE(stream->Write(Request(0)));
  ASSERT_TRUE(stream->Write(WrongRequest("bad")));
  for (int i = 1; i < 20; ++i) {
    stream->Write(Request(i));
  }
  ModelStreamInferResponse message;
  ASSERT_TRUE(stream->Read(&message));
  EXPECT_FALSE(stream->Read(&message));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  server_.server().Drain(absl::Minutes(5));
  EXPECT_EQ(AttendClient(server_.NewChannel()).Statistics().succeeded(), 1);
}

TEST_F(InferStreamTest, AnEmptyReplyIsTheLastForThoseWhoAsk) {
  const auto stream = client_.stub().ModelStreamInfer(&context_);
  inference::ModelInferRequest request = Request(1);
  (*request.mutable_parameters())["triton_enable_empty_final_response"].set_bool_param(true);
  request.add_outputs()->set_name("weights");
  ASSERT_TRUE(stream->Write(request));
  ModelStreamInferResponse message;
  ASSERT_TRUE(stream->Read(&message));
  EXPECT_FALSE(message.infer_response().parameters().at("triton_final_response").bool_param());
  EXPECT_EQ(message.infer_response().raw_output_contents_size(), 1);
  ASSERT_TRUE(stream->Read(&message));
  EXPECT_TRUE(message.infer_response().parameters().at("triton_final_response").bool_param());
  EXPECT_EQ(message.infer_response().id(), "1");
  EXPECT_EQ(message.infer_response().raw_output_contents_size(), 0);
  stream->WritesDone();
  EXPECT_FALSE(stream->Read(&message));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(InferStreamTest, AClientThatLeavesTakesItsRequestsWithIt) {
  {
    const auto stream = client_.stub().ModelStreamInfer(&context_);
    for (int i = 0; i < 8; ++i) {
      ASSERT_TRUE(stream->Write(Request(i)));
    }
    context_.TryCancel();
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  server_.server().Drain(absl::Minutes(5));  // comes back only when nothing is under way
}

}  // namespace
}  // namespace attention

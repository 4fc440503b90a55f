// Attention without a model over the wire, typed contents, and the protocol's codes.
#include "tests/server/open_inference/infer_fixture.h"
#include "tests/support/eventually.h"
#include "tests/support/fill.h"

namespace attention {
namespace {

using ::testing::ElementsAre;

using InferBareTest = InferTest;

inference::ModelInferRequest BareRequest() {
  inference::ModelInferRequest request = InferRequest("attention");
  AddTensor(request, "query", SeededTensor(1, Dtype::kF32, {2, 3, 4, 8}));
  AddTensor(request, "key", SeededTensor(2, Dtype::kF32, {2, 5, 2, 8}));
  AddTensor(request, "value", SeededTensor(3, Dtype::kF32, {2, 5, 2, 6}));
  return request;
}

// ModelStatistics has it under the name that this protocol gives it, whichever protocol asked.
TEST_F(InferBareTest, BareAttentionIsCountedAlikeHoweverItIsAskedFor) {
  const auto count = [&] {
    inference::ModelStatisticsRequest request;
    request.set_name("attention");
    const auto found = infer_.Call(&Stub::ModelStatistics, request);
    return found->model_stats(0).inference_stats().success().count();
  };
  const auto before = count();
  EXPECT_THAT(infer_.Infer(BareRequest()), IsOk());
  const Tensor rows = SeededTensor(1, Dtype::kF32, {3, 4, 8});
  Attend(QkvRequest(rows, rows, rows));
  EXPECT_TRUE(Eventually([&] { return count() == before + 2; }));
  const v1::ServerStatistics all = client_.Statistics();
  for (const v1::ModelStatistics& model : all.models()) {
    EXPECT_NE(model.model(), "attention");
  }
}

TEST_F(InferBareTest, BareAttentionTakesItsOptions) {
  inference::ModelInferRequest request = BareRequest();
  const Tensor bias = SeededTensor(4, Dtype::kF32, {1, 4, 3, 5});
  AddTensor(request, "bias", bias);
  AddInt32(request, "kv_lengths", {2}, {5, 3});
  request.MergeFrom(InferText(R"pb(
    parameters {
      key: "causal"
      value { bool_param: true }
    }
    parameters {
      key: "scale"
      value { double_param: 0.5 }
    }
    parameters {
      key: "softcap"
      value { string_param: "20" }
    }
    parameters {
      key: "window"
      value { int64_param: 4 }
    }
    outputs { name: "output" }
    outputs { name: "weights" })pb"));
  const inference::ModelInferResponse response = Infer(request);
  v1::AttendRequest native = QkvRequest(SeededTensor(1, Dtype::kF32, {2, 3, 4, 8}),
                                        SeededTensor(2, Dtype::kF32, {2, 5, 2, 8}),
                                        SeededTensor(3, Dtype::kF32, {2, 5, 2, 6}));
  native.mutable_query_key_value()->add_kv_lengths(5);
  native.mutable_query_key_value()->add_kv_lengths(3);
  v1::AttentionOptions& options = *native.mutable_options();
  options.set_causal(true);
  options.set_scale(0.5);
  options.set_softcap(20);
  options.set_window(4);
  options.set_return_weights(true);
  ToWireTensor(bias, options.mutable_bias());
  const v1::AttendResponse expected = Attend(native);
  EXPECT_THAT(response.outputs(0).shape(), ElementsAre(2, 3, 4, 6));
  EXPECT_TRUE(response.raw_output_contents(0) == expected.output().data());
  EXPECT_THAT(response.outputs(1).shape(), ElementsAre(2, 4, 3, 5));
  const std::string& weights = response.raw_output_contents(1);
  EXPECT_TRUE(weights.substr(0, weights.size() / 2) == expected.weights(0).data());
  // Of the second sequence, three keys of five.
  std::string seen;
  for (size_t row = 12; row < 24; ++row) {
    seen += RowsOf(weights, 20, row, 1).substr(0, 12);
    EXPECT_EQ(RowsOf(weights, 20, row, 1).substr(12), std::string(8, '\0'));
  }
  EXPECT_TRUE(seen == expected.weights(1).data());
}

TEST_F(InferBareTest, TypedContentsGiveTheBitsOfRawOnes) {
  const inference::ModelInferRequest raw = BareRequest();
  inference::ModelInferRequest typed = raw;
  typed.clear_raw_input_contents();
  for (int i = 0; i < raw.inputs_size(); ++i) {
    const std::string& bytes = raw.raw_input_contents(i);
    auto& values = *typed.mutable_inputs(i)->mutable_contents()->mutable_fp32_contents();
    Fill(&values, bytes.size() / sizeof(float), 0.0F);
    bytes.copy(reinterpret_cast<char*>(values.mutable_data()), bytes.size());
  }
  EXPECT_TRUE(Output(typed) == Output(raw));
}

TEST_F(InferBareTest, RefusalsHaveTheProtocolsCodes) {
  EXPECT_THAT(infer_.Infer(InferRequest("t5")),
              StatusIs(absl::StatusCode::kNotFound, ::testing::HasSubstr("found \"t5\"")));
  EXPECT_THAT(infer_.Infer(InferRequest("demo")),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "inputs: expected \"input_ids\" or \"hidden_states\" of model \"demo\", "
                       "found neither"));
  inference::ModelInferRequest request = BareRequest();
  (*request.mutable_inputs(0)->mutable_parameters())["shared_memory_region"].set_string_param("r");
  (*request.mutable_inputs(0)->mutable_parameters())["shared_memory_byte_size"].set_int64_param(1);
  EXPECT_THAT(infer_.Infer(request),
              StatusIs(absl::StatusCode::kUnimplemented,
                       "shared memory is off: the server was started without "
                       "--allow-shared-memory"));
  request = InferRequest("demo");
  AddInt64(request, "input_ids", {1, 1}, {1});
  (*request.mutable_parameters())["timeout"].set_int64_param(1);
  const auto late = infer_.Infer(request);
  EXPECT_TRUE(late.ok() || absl::IsDeadlineExceeded(late.status())) << late.status();
}

TEST_F(InferBareTest, ADrainingServerIsUnavailable) {
  InProcessServer server;
  InferClient client(server.NewChannel());
  inference::ModelInferRequest request = InferRequest("demo");
  AddInt64(request, "input_ids", {1, 1}, {1});
  EXPECT_THAT(client.Infer(request), IsOk());
  server.server().Drain(absl::ZeroDuration());
  EXPECT_THAT(client.Infer(request),
              StatusIs(absl::StatusCode::kUnavailable, "the server is draining"));
  EXPECT_FALSE(
      client.Call(&InferClient::Stub::ServerReady, inference::ServerReadyRequest())->ready());
  inference::ModelReadyRequest ready;
  ready.set_name("demo");
  EXPECT_FALSE(client.Call(&InferClient::Stub::ModelReady, ready)->ready());
  EXPECT_TRUE(client.Call(&InferClient::Stub::ServerLive, inference::ServerLiveRequest())->live());
}

}  // namespace
}  // namespace attention

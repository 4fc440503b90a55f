// Many callers at once: each gets the bits it would have got alone.
#include <random>
#include <thread>

#include "gmock/gmock.h"
#include "tests/server/wire_options.h"
#include "tests/server/wire_tensors.h"
#include "tests/support/in_process_server.h"

namespace attention {
namespace {

constexpr int kCallers = 8;
constexpr int kCallsEach = 40;

// One of a few hundred requests: padded, packed, with memory, tokens, query_key_value, of every
// dtype and model, and of several kinds of attention.
v1::AttendRequest RandomRequest(std::mt19937& random) {
  const auto dtype = static_cast<Dtype>(random() % 3);
  const int64_t rows = 1 + random() % 60;
  v1::AttendRequest request;
  switch (random() % 5) {
    case 0:
      request = DemoRequest(SeededTensor(random() % 9, dtype, {2, rows, 512}),
                            {rows, static_cast<int64_t>(random() % rows)});
      break;
    case 1:
      request = DemoRequest(SeededTensor(random() % 9, dtype, {rows + 3, 512}), {rows, 3});
      request.set_model("demo");
      break;
    case 2:
      request = DemoRequest(SeededTensor(random() % 9, dtype, {rows, 64}));
      ToWireTensor(SeededTensor(1, dtype, {5, 64}),
                   request.mutable_hidden_states()->mutable_memory());
      request.set_model("small");
      break;
    case 3:
      for (int64_t i = 0; i < rows; ++i) {
        request.mutable_token_ids()->add_ids(static_cast<int32_t>(random() % 1000));
      }
      request.set_model("demo");
      break;
    default: {
      const Tensor qkv = SeededTensor(random() % 9, dtype, {rows, 4, 16});
      request = QkvRequest(qkv, qkv, qkv);
    }
  }
  const char* const options[] = {"",
                                 "window: 9",
                                 "prefix: 5 rotary {} query_norm {}",
                                 "softcap: 3 alibi_slopes: [1, 0.5, 0.25, 0]",
                                 "similarity: GAUSSIAN bandwidth: 30",
                                 "similarity: LINEAR",
                                 "sinks: [1, 0, -1, 2] return_weights: true"};
  // Slopes and sinks are for 4 heads, which `demo` has not.
  const bool has_four_heads = request.model() != "demo";
  *request.mutable_options() = Options(options[random() % (has_four_heads ? 7 : 3)]);
  request.mutable_options()->set_causal(random() % 2 == 0);
  return request;
}

TEST(BatchingTest, GivesEveryCallerTheBitsItWouldGetAlone) {
  SeededModelSpec small = {
      .name = "small", .seed = 3, .d_model = 64, .num_heads = 4, .dtype = Dtype::kBf16};
  InProcessServer server({.random_models = {small}, .threads = 2});
  std::vector<std::vector<v1::AttendRequest>> requests(kCallers);
  std::vector<std::vector<v1::AttendResponse>> responses(kCallers);
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&, caller] {
      AttendClient client(server.NewChannel());
      std::mt19937 random(caller);
      for (int i = 0; i < kCallsEach; ++i) {
        requests[caller].push_back(RandomRequest(random));
        v1::AttendResponse response;
        const grpc::Status status = client.Attend(requests[caller].back(), &response);
        EXPECT_TRUE(status.ok()) << status.error_message();
        responses[caller].push_back(std::move(response));
      }
    });
  }
  for (std::thread& caller : callers) {
    caller.join();
  }

  InProcessServer alone({.random_models = {small}, .threads = 1});
  AttendClient client(alone.NewChannel());
  int together = 0;
  for (int caller = 0; caller < kCallers; ++caller) {
    for (int i = 0; i < kCallsEach; ++i) {
      v1::AttendResponse expected;
      ASSERT_TRUE(client.Attend(requests[caller][i], &expected).ok());
      EXPECT_EQ(expected.summary().batch_requests(), 1);
      ASSERT_EQ(responses[caller][i].output().data(), expected.output().data())
          << "caller " << caller << ", call " << i << ": "
          << requests[caller][i].options().ShortDebugString();
      ASSERT_EQ(responses[caller][i].weights_size(), expected.weights_size());
      for (int sequence = 0; sequence < expected.weights_size(); ++sequence) {
        EXPECT_EQ(responses[caller][i].weights(sequence).data(), expected.weights(sequence).data());
      }
      together += responses[caller][i].summary().batch_requests() > 1 ? 1 : 0;
    }
  }
  EXPECT_GT(together, 0) << "nothing was ever batched";
}

}  // namespace
}  // namespace attention

// Batch mates and streaming change no bit of what a model answers.
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/models/golden_server.h"

namespace attention {
namespace {

using ModelBitsTest = GoldenServerTest;

// Returns one of a few hundred requests for gpt2: any input, layer or output.
v1::AttendRequest RandomModelRequest(std::mt19937& random) {
  const int64_t length = 1 + random() % 20;
  v1::AttendRequest request;
  if (random() % 3 == 0) {
    request = RowsRequest("gpt2", SeededTensor(random() % 5, Dtype::kF32, {2, length, 36}));
  } else {
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < 2 * length; ++i) {
      ids.push_back(static_cast<int32_t>(random() % 47));
    }
    request = TokenRequest("gpt2", ids, length);
  }
  if (random() % 3 == 0) {
    request.set_layer(random() % 2);
    return request;
  }
  request.set_model_output(static_cast<v1::ModelOutput>(random() % 5));
  if (random() % 2 == 0) {
    request.mutable_weights_choice()->add_layers(random() % 2);
    request.mutable_weights_choice()->add_heads(random() % 3);
  }
  return request;
}

std::vector<std::string> BitsOf(const v1::AttendResponse& response) {
  std::vector<std::string> bits = {response.output().data()};
  for (const v1::LayerWeights& weights : response.layer_weights()) {
    bits.push_back(weights.weights().data());
  }
  return bits;
}

TEST_F(ModelBitsTest, BatchMatesChangeNoBit) {
  constexpr int kModelCallers = 8;
  constexpr int kCallsOfEach = 40;
  std::vector<std::vector<v1::AttendRequest>> requests(kModelCallers);
  std::vector<std::vector<v1::AttendResponse>> responses(kModelCallers);
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kModelCallers; ++caller) {
    callers.emplace_back([&, caller] {
      AttendClient client(server_->NewChannel());
      std::mt19937 random(caller);
      for (int i = 0; i < kCallsOfEach; ++i) {
        requests[caller].push_back(RandomModelRequest(random));
        const grpc::Status status =
            client.Attend(requests[caller].back(), &responses[caller].emplace_back());
        EXPECT_TRUE(status.ok()) << status.error_message();
      }
    });
  }
  for (std::thread& caller : callers) {
    caller.join();
  }
  int together = 0;
  for (int caller = 0; caller < kModelCallers; ++caller) {
    for (int i = 0; i < kCallsOfEach; ++i) {
      const v1::AttendResponse alone = Attend(requests[caller][i]);
      EXPECT_EQ(alone.summary().batch_requests(), 1);
      EXPECT_TRUE(BitsOf(responses[caller][i]) == BitsOf(alone))
          << requests[caller][i].model_output() << " " << requests[caller][i].layer();
      together += responses[caller][i].summary().batch_requests() > 1 ? 1 : 0;
    }
  }
  EXPECT_GT(together, 0) << "nothing was ever batched";
}

TEST_F(ModelBitsTest, StreamsHaveTheBitsOfTheWholeAnswer) {
  std::mt19937 random(5);
  for (int i = 0; i < 60; ++i) {
    const v1::AttendRequest request = RandomModelRequest(random);
    std::vector<v1::AttendStreamResponse> parts;
    ASSERT_TRUE(client_.AttendStream(request, &parts).ok());
    std::string rows, weights;
    for (const v1::AttendStreamResponse& part : parts) {
      rows += part.rows().output().data();
      weights += part.layer_weights().weights().data();
      if (part.has_layer_weights()) {
        EXPECT_EQ(part.layer_weights().head(), request.weights_choice().heads(0));
        EXPECT_EQ(part.layer_weights().layer(), request.weights_choice().layers(0));
      }
    }
    std::string whole_weights;
    const v1::AttendResponse whole = Attend(request);
    for (const v1::LayerWeights& layer : whole.layer_weights()) {
      whole_weights += layer.weights().data();
    }
    EXPECT_TRUE(rows == whole.output().data()) << i;
    EXPECT_TRUE(weights == whole_weights) << i;
    EXPECT_TRUE(parts.back().has_summary());
  }
}

}  // namespace
}  // namespace attention

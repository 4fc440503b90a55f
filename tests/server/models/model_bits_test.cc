// Batch mates and streaming change no bit of what a model answers.
#include <algorithm>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/models/golden_server.h"
#include "tests/server/wire_options.h"

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

// 480 KB, which all threads embed in parts that begin within a sequence. The position of a token
// depends on the padding before it.
TEST_F(ModelBitsTest, ALargeBatchOfTokensChangesNoBitOfASequence) {
  constexpr int64_t kSequences = 150;
  constexpr int64_t kLength = 20;
  AttendClient client(server_->NewChannel());
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < kSequences * kLength; ++i) {
    ids.push_back(i % 7 == 2 ? 3 : static_cast<int32_t>(4 + i * i % 29));  // 3 is the padding
  }
  const std::string all = client.Must(TokenRequest("roberta", ids, kLength)).output().data();
  const size_t bytes = all.size() / kSequences;
  for (int64_t i = 0; i < kSequences; ++i) {
    const std::vector<int32_t> own(&ids[i * kLength], &ids[i * kLength] + kLength);
    const v1::AttendResponse alone = client.Must(TokenRequest("roberta", own, kLength));
    EXPECT_TRUE(alone.output().data() == all.substr(i * bytes, bytes)) << "sequence " << i;
  }
}

// A sequence without memory rows attends to the layer's extra keys alone. Its bias has no element,
// beside a mate's or not, and yet it is a bias.
TEST_F(ModelBitsTest, AMateWithKeysChangesNoBitOfASequenceWithoutThem) {
  constexpr int64_t kWidth = 24;
  constexpr int64_t kKeys = 40;
  AttendClient client(server_->NewChannel());
  for (const char* const model : {"torch_mha-bias-kv", "torch_mha-zero-attn"}) {
    for (const int64_t rows : {1, 3, 20}) {
      const auto at = [](int64_t, int64_t, int64_t i, int64_t j) { return 0.1 * (i % 7) - j % 3; };
      // The same rows in both sequences.
      const Tensor input = SeededTensor(3, Dtype::kF32, {1, rows, kWidth});
      Tensor twice(Dtype::kF32, {2, rows, kWidth});
      for (const int64_t i : {0, 1}) {
        std::copy_n(input.as<float>(), rows * kWidth, twice.as<float>() + i * rows * kWidth);
      }
      const v1::AttendResponse alone = [&] {
        v1::AttendRequest request = RowsRequest(model, input);
        ToWireTensor(Tensor(Dtype::kF32, {1, 0, kWidth}),
                     request.mutable_hidden_states()->mutable_memory());
        SetScores<float>(v1::FP32, {1, 1, rows, 0}, at, request.mutable_options()->mutable_bias());
        return client.Must(request);
      }();
      v1::AttendRequest request = RowsRequest(model, twice);
      ToWireTensor(SeededTensor(4, Dtype::kF32, {2, kKeys, kWidth}),
                   request.mutable_hidden_states()->mutable_memory());
      request.mutable_hidden_states()->add_memory_lengths(0);
      request.mutable_hidden_states()->add_memory_lengths(kKeys);
      SetScores<float>(v1::FP32, {1, 1, rows, kKeys}, at,
                       request.mutable_options()->mutable_bias());
      const v1::AttendResponse together = client.Must(request);
      const std::string& both = together.output().data();
      const std::string& own = alone.output().data();
      EXPECT_TRUE(own == both.substr(0, own.size())) << model << ", " << rows << " rows";
    }
  }
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

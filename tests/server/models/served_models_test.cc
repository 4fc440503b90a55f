// What can be asked of a loaded model, over the wire, against what PyTorch and transformers answer.
#include "absl/strings/str_cat.h"
#include "tests/server/models/golden_server.h"
#include "tests/server/wire_options.h"

namespace attention {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

constexpr double kLayerTolerance = 2e-5;
constexpr double kModelTolerance = 2e-4;
constexpr int64_t kLength = 17;  // of the golden sequences

using ServedModelsTest = GoldenServerTest;

v1::AttendRequest GoldenTokens(const std::string& model, const GoldenCases& cases) {
  return TokenRequest(model, cases.IntegersAt("input_ids"), kLength);
}

std::string LastRows(const v1::Tensor& tensor, int64_t row_bytes) {
  return tensor.data().substr((kLength - 1) * row_bytes, row_bytes) +
         tensor.data().substr((2 * kLength - 1) * row_bytes, row_bytes);
}

TEST_F(ServedModelsTest, TheWholeStackEndsAsTransformersDoes) {
  for (const std::string model : {"gpt2", "bert", "llama", "gemma2", "phi3-longrope"}) {
    const GoldenCases cases(model);
    const v1::AttendResponse response = Attend(GoldenTokens(model, cases));
    EXPECT_EQ(response.output().dtype(), v1::FP32);
    EXPECT_EQ(response.output().shape(0), 2 * kLength);
    EXPECT_LE(LargestDifference(cases.At("last_hidden_state"), response.output()), kModelTolerance)
        << model;
  }
}

TEST_F(ServedModelsTest, EachLayerAttendsOnGivenRowsAsTransformersDoes) {
  for (const std::string model : {"gpt2", "bert", "qwen3-bias-window", "gpt_neox"}) {
    const GoldenCases cases(model);
    for (const int64_t layer : {0, 1}) {
      const std::string name = absl::StrCat("layers.", layer, ".attention.");
      v1::AttendRequest request = RowsRequest(model, cases.At(name + "input"));
      request.set_layer(layer);
      const v1::AttendResponse response = Attend(request);
      EXPECT_THAT(response.output().shape(), ElementsAreArray(cases.At(name + "input").shape()));
      EXPECT_LE(LargestDifference(cases.At(name + "output"), response.output()), kLayerTolerance)
          << model << ", layer " << layer;
    }
  }
}

// BERT normalises its embeddings, and its first layer takes them as they are.
TEST_F(ServedModelsTest, TokensAreEmbeddedAndEnterTheLayer) {
  const GoldenCases cases("bert");
  v1::AttendRequest request = GoldenTokens("bert", cases);
  request.set_layer(0);
  EXPECT_LE(LargestDifference(cases.At("layers.0.attention.output"), Attend(request).output()),
            kLayerTolerance);
}

TEST_F(ServedModelsTest, RowsEnterTheFirstBlockAndKeepTheirDtypeAndShape) {
  const GoldenCases cases("bert");
  const Tensor& rows = cases.At("layers.0.attention.input");
  EXPECT_LE(
      LargestDifference(cases.At("last_hidden_state"), Attend(RowsRequest("bert", rows)).output()),
      kModelTolerance);
  const v1::AttendResponse half = Attend(RowsRequest("bert", rows.ConvertedTo(Dtype::kBf16)));
  EXPECT_EQ(half.output().dtype(), v1::BF16);
  EXPECT_THAT(half.output().shape(), ElementsAre(2, kLength, 40));
}

TEST_F(ServedModelsTest, TokenTypesCount) {
  const GoldenCases cases("bert");
  v1::AttendRequest request = GoldenTokens("bert", cases);
  const std::vector<int32_t> types = cases.IntegersAt("token_types.token_type_ids");
  request.mutable_token_ids()->mutable_type_ids()->Assign(types.begin(), types.end());
  EXPECT_LE(LargestDifference(cases.At("token_types.last_hidden_state"), Attend(request).output()),
            kModelTolerance);
}

TEST_F(ServedModelsTest, PooledRowsAreTheMeanAndTheFirstOfEachSequence) {
  const GoldenCases cases("bert");
  v1::AttendRequest request = GoldenTokens("bert", cases);
  request.mutable_token_ids()->add_lengths(0);
  const v1::Tensor all = Attend(request).output();
  request.set_model_output(v1::CLS_POOLED);
  const v1::Tensor first = Attend(request).output();
  EXPECT_THAT(first.shape(), ElementsAre(3, 40));
  constexpr size_t kRow = 40 * sizeof(float);
  EXPECT_EQ(first.data(), all.data().substr(0, kRow) + all.data().substr(kLength * kRow, kRow) +
                              std::string(kRow, '\0'));
  request.set_model_output(v1::MEAN_POOLED);
  const std::vector<double> mean = ToDoubles(Attend(request).output());
  const std::vector<double> rows = ToDoubles(all);
  ASSERT_EQ(mean.size(), 3 * 40);
  for (int64_t e = 0; e < 40; ++e) {
    double sum = 0;
    for (int64_t row = kLength; row < 2 * kLength; ++row) {
      sum += rows[row * 40 + e];
    }
    EXPECT_NEAR(mean[40 + e], sum / kLength, 1e-6);
    EXPECT_EQ(mean[80 + e], 0);
  }
}

TEST_F(ServedModelsTest, LogitsAreOfEveryRowOrOfTheLast) {
  const GoldenCases cases("gpt2");
  v1::AttendRequest request = GoldenTokens("gpt2", cases);
  request.set_model_output(v1::LOGITS);
  const v1::Tensor all = Attend(request).output();
  EXPECT_THAT(all.shape(), ElementsAre(2 * kLength, 47));
  EXPECT_LE(LargestDifference(cases.At("logits"), all), 5 * kModelTolerance);
  request.set_model_output(v1::LAST_LOGITS);
  const v1::Tensor last = Attend(request).output();
  EXPECT_THAT(last.shape(), ElementsAre(2, 47));
  EXPECT_EQ(last.data(), LastRows(all, 47 * sizeof(float)));

  v1::AttendRequest padded = RowsRequest("gpt2", SeededTensor(3, Dtype::kF32, {2, 5, 36}));
  padded.mutable_hidden_states()->add_lengths(2);
  padded.mutable_hidden_states()->add_lengths(5);
  padded.set_model_output(v1::LOGITS);
  const v1::Tensor output = Attend(padded).output();
  EXPECT_THAT(output.shape(), ElementsAre(2, 5, 47));
  EXPECT_EQ(output.data().substr(2 * 47 * 4, 3 * 47 * 4), std::string(3 * 47 * 4, '\0'));
}

TEST_F(ServedModelsTest, WeightsAreOfChosenLayersAndHeads) {
  const GoldenCases cases("gpt2");
  v1::AttendRequest request = GoldenTokens("gpt2", cases);
  request.mutable_weights_choice()->add_layers(0);
  request.mutable_weights_choice()->add_layers(1);
  const v1::AttendResponse all = Attend(request);
  ASSERT_EQ(all.layer_weights_size(), 4);
  const std::string golden(static_cast<const char*>(cases.At("attentions.0").data()),
                           cases.At("attentions.0").size_bytes());
  for (const int sequence : {0, 1}) {
    const v1::LayerWeights& weights = all.layer_weights(2 * sequence);
    EXPECT_EQ(weights.layer(), 0);
    EXPECT_EQ(weights.sequence(), sequence);
    EXPECT_THAT(weights.weights().shape(), ElementsAre(3, kLength, kLength));
    Tensor expected(Dtype::kF32, {3, kLength, kLength});
    golden.copy(static_cast<char*>(expected.data()), expected.size_bytes(),
                sequence * expected.size_bytes());
    EXPECT_LE(LargestDifference(expected, weights.weights()), kLayerTolerance);
  }
  request.mutable_weights_choice()->add_heads(2);
  const v1::AttendResponse one = Attend(request);
  for (int i = 0; i < 4; ++i) {
    EXPECT_THAT(one.layer_weights(i).weights().shape(), ElementsAre(1, kLength, kLength));
    EXPECT_EQ(one.layer_weights(i).weights().data(),
              all.layer_weights(i).weights().data().substr(2 * kLength * kLength * 4));
  }
  EXPECT_EQ(one.output().data(), all.output().data());
}

TEST_F(ServedModelsTest, ALayersWeightsAreThoseOfTheWholeRun) {
  const GoldenCases cases("bert");
  v1::AttendRequest layer = GoldenTokens("bert", cases);
  layer.set_layer(0);
  layer.mutable_options()->set_return_weights(true);
  v1::AttendRequest whole = GoldenTokens("bert", cases);
  whole.mutable_weights_choice()->add_layers(0);
  EXPECT_EQ(Attend(layer).weights(1).data(), Attend(whole).layer_weights(1).weights().data());
}

TEST_F(ServedModelsTest, ADecoderRunsOverItsEncoder) {
  const GoldenCases cases("torch_transformer");
  v1::AttendRequest request = RowsRequest("torch_transformer", cases.At("target"));
  ToWireTensor(cases.At("source"), request.mutable_hidden_states()->mutable_memory());
  for (const int64_t layer : {0, 2, 3}) {
    request.mutable_weights_choice()->add_layers(layer);
  }
  const v1::AttendResponse response = Attend(request);
  EXPECT_LE(LargestDifference(cases.At("output"), response.output()), kModelTolerance);
  ASSERT_EQ(response.layer_weights_size(), 6);
  EXPECT_THAT(response.layer_weights(0).weights().shape(), ElementsAre(testing::_, 11, 11));
  EXPECT_THAT(response.layer_weights(1).weights().shape(), ElementsAre(testing::_, 17, 17));
  EXPECT_THAT(response.layer_weights(2).weights().shape(), ElementsAre(testing::_, 17, 11));
  for (const v1::LayerWeights& weights : response.layer_weights()) {
    const std::vector<double> values = ToDoubles(weights.weights());
    double sum = 0;
    for (const double value : values) {
      sum += value;
    }
    EXPECT_NEAR(sum, static_cast<double>(values.size()) / weights.weights().shape(2), 1e-3);
  }
}

TEST_F(ServedModelsTest, AnEncoderRunsAlone) {
  const GoldenCases cases("torch_transformer");
  v1::AttendRequest request;
  request.set_model("torch_transformer");
  ToWireTensor(cases.At("source"), request.mutable_hidden_states()->mutable_memory());
  const v1::AttendResponse response = Attend(request);
  EXPECT_THAT(response.output().shape(), ElementsAre(2, 11, 24));
  EXPECT_LE(LargestDifference(cases.At("encoder.output"), response.output()), kModelTolerance);
}

TEST_F(ServedModelsTest, CrossAttentionTakesItsKeysFromMemory) {
  const GoldenCases cases("torch_transformer");
  v1::AttendRequest request =
      RowsRequest("torch_transformer", cases.At("layers.3.attention.input"));
  ToWireTensor(cases.At("layers.3.attention.memory"),
               request.mutable_hidden_states()->mutable_memory());
  request.set_layer(3);
  EXPECT_LE(LargestDifference(cases.At("layers.3.attention.output"), Attend(request).output()),
            kLayerTolerance);
}

TEST_F(ServedModelsTest, ValuesComeFromRowsOfAnotherWidth) {
  const GoldenCases cases("torch_mha-kdim-vdim");
  v1::AttendRequest request = RowsRequest("torch_mha-kdim-vdim", cases.At("x"));
  v1::HiddenStates& input = *request.mutable_hidden_states();
  ToWireTensor(cases.At("memory"), input.mutable_memory());
  ToWireTensor(cases.At("memory_values"), input.mutable_memory_values());
  EXPECT_LE(LargestDifference(cases.At("cross"), Attend(request).output()), kLayerTolerance);
}

TEST_F(ServedModelsTest, ALayersOwnKeysAreTheLastColumnsOfItsWeights) {
  const GoldenCases cases("torch_mha-bias-kv");
  v1::AttendRequest request = RowsRequest("torch_mha-bias-kv", cases.At("x"));
  *request.mutable_options() =
      Options("return_weights: true weights_top_k: 30 return_log_sum_exp: true");
  SetScores<uint8_t>(v1::BOOL, {1, 1, 17, 17}, MaskAt, request.mutable_options()->mutable_mask());
  const v1::AttendResponse masked = Attend(request);
  const std::vector<double> weights = ToDoubles(masked.weights(0));
  EXPECT_THAT(masked.weights(0).shape(), ElementsAre(testing::_, 17, 18));
  EXPECT_THAT(masked.top_weights(0).keys().shape(), ElementsAre(testing::_, 17, 18));
  EXPECT_THAT(masked.log_sum_exp(0).shape(), ElementsAre(testing::_, 17));
  for (int64_t row = 0; row < 17; ++row) {
    EXPECT_GT(weights[row * 18 + 17], 0) << "no mask hides the layer's own key";
    for (int64_t key = 0; key < 17; ++key) {
      EXPECT_EQ(weights[row * 18 + key] > 0, MaskAt(0, 0, row, key));
    }
  }
  request.clear_options();
  EXPECT_LE(LargestDifference(cases.At("self"), Attend(request).output()), kLayerTolerance);
}

TEST_F(ServedModelsTest, ModelsSayWhatTheyAre) {
  grpc::ClientContext context;
  v1::GetModelRequest request;
  request.set_model("torch_transformer");
  request.set_version(1);
  v1::Model model;
  ASSERT_TRUE(client_.stub().GetModel(&context, request, &model).ok());
  EXPECT_EQ(model.model_type(), "torch_transformer");
  EXPECT_EQ(model.version(), 1);
  EXPECT_EQ(model.num_layers(), 6);
  EXPECT_TRUE(model.has_stack());
  EXPECT_TRUE(model.has_encoder());
  EXPECT_FALSE(model.has_logits());
  EXPECT_FALSE(model.has_tokenizer());
  EXPECT_EQ(model.weights_dtype(), "fp32");
  EXPECT_GT(model.weights_bytes(), 0);
  ASSERT_EQ(model.layers_size(), 6);
  EXPECT_FALSE(model.layers(2).is_cross());
  EXPECT_TRUE(model.layers(2).causal());
  EXPECT_TRUE(model.layers(3).is_cross());
}

}  // namespace
}  // namespace attention

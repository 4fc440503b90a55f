// ModelInfer against what the native API answers for the same rows, bit for bit.
#include "tests/server/open_inference/infer_fixture.h"

namespace attention {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

constexpr size_t kGpt2Row = 36 * sizeof(float);

TEST_F(InferTest, DemoAnswersAsTheNativeApiDoes) {
  const Tensor rows = SeededTensor(1, Dtype::kF32, {2, 5, 512});
  inference::ModelInferRequest request = InferRequest("demo");
  request.set_id("one");
  AddTensor(request, "hidden_states", rows);
  AddInt32(request, "lengths", {2}, {5, 3});
  const inference::ModelInferResponse response = Infer(request);
  EXPECT_EQ(response.model_name(), "demo");
  EXPECT_EQ(response.model_version(), "1");
  EXPECT_EQ(response.id(), "one");
  ASSERT_THAT(response.outputs(), SizeIs(1));
  EXPECT_EQ(response.outputs(0).name(), "output");
  EXPECT_EQ(response.outputs(0).datatype(), "FP32");
  EXPECT_THAT(response.outputs(0).shape(), ElementsAre(2, 5, 512));
  ASSERT_THAT(response.raw_output_contents(), SizeIs(1));
  EXPECT_TRUE(response.raw_output_contents(0) == Attend(DemoRequest(rows, {5, 3})).output().data());
}

TEST_F(InferTest, HiddenStatesKeepTheirDatatype) {
  for (const Dtype dtype : {Dtype::kBf16, Dtype::kF16}) {
    const Tensor rows = SeededTensor(2, dtype, {1, 4, 36});
    inference::ModelInferRequest request = InferRequest("gpt2");
    AddTensor(request, "hidden_states", rows);
    EXPECT_EQ(Infer(request).outputs(0).datatype(), Name(dtype));
    EXPECT_TRUE(Output(request) == Attend(RowsRequest("gpt2", rows)).output().data());
  }
}

TEST_F(InferTest, PaddingOnEitherSideChangesNoBit) {
  const std::vector<int32_t> packed = {3, 1, 4, 1, 5, 9, 2};
  v1::AttendRequest native = TokenRequest("gpt2", packed, 7);
  native.mutable_token_ids()->clear_lengths();
  native.mutable_token_ids()->add_lengths(3);
  native.mutable_token_ids()->add_lengths(4);
  for (const bool is_whole : {true, false}) {
    if (!is_whole) {
      native.set_layer(1);
    }
    const std::string expected = Attend(native).output().data();
    for (const bool is_left : {true, false}) {
      inference::ModelInferRequest request = InferRequest("gpt2");
      AddInt64(request, "input_ids", {2, 4},
               is_left ? std::vector<int64_t>{0, 3, 1, 4, 1, 5, 9, 2}
                       : std::vector<int64_t>{3, 1, 4, 0, 1, 5, 9, 2});
      AddInt64(request, "attention_mask", {2, 4},
               is_left ? std::vector<int64_t>{0, 1, 1, 1, 1, 1, 1, 1}
                       : std::vector<int64_t>{1, 1, 1, 0, 1, 1, 1, 1});
      if (!is_whole) {
        SetLayer(request, 1);
      }
      const std::string output = Output(request);
      ASSERT_EQ(output.size(), 8 * kGpt2Row);
      const size_t first = is_left ? 1 : 0;
      EXPECT_TRUE(RowsOf(output, kGpt2Row, first, 3) == RowsOf(expected, kGpt2Row, 0, 3));
      EXPECT_TRUE(RowsOf(output, kGpt2Row, 4, 4) == RowsOf(expected, kGpt2Row, 3, 4));
      EXPECT_EQ(RowsOf(output, kGpt2Row, is_left ? 0 : 3, 1), std::string(kGpt2Row, '\0'));
    }
  }
}

TEST_F(InferTest, HiddenStatesPaddedOnTheLeftAreShifted) {
  const Tensor rows = SeededTensor(3, Dtype::kF32, {2, 4, 36});
  v1::AttendRequest native = RowsRequest("gpt2", SeededTensor(3, Dtype::kF32, {1, 4, 36}));
  native.mutable_hidden_states()->mutable_tensor()->set_shape(1, 2);
  native.mutable_hidden_states()->mutable_tensor()->set_data(RowsOf(BytesOf(rows), kGpt2Row, 2, 2));
  inference::ModelInferRequest request = InferRequest("gpt2");
  AddTensor(request, "hidden_states", rows);
  AddInt64(request, "attention_mask", {2, 4}, {0, 0, 1, 1, 1, 1, 1, 1});
  const std::string output = Output(request);
  EXPECT_EQ(RowsOf(output, kGpt2Row, 0, 2), std::string(2 * kGpt2Row, '\0'));
  EXPECT_TRUE(RowsOf(output, kGpt2Row, 2, 2) == Attend(native).output().data());
}

TEST_F(InferTest, TheWholeStackEndsAsTransformersDoes) {
  const GoldenCases cases("bert");
  const std::vector<int32_t> ids = cases.IntegersAt("input_ids");
  inference::ModelInferRequest request = InferRequest("bert");
  AddInt32(request, "input_ids", {2, 17}, ids);
  AddInt64(request, "token_type_ids", {2, 17}, std::vector<int64_t>(34, 0));
  AddInt64(request, "attention_mask", {2, 17}, std::vector<int64_t>(34, 1));
  const std::string output = Output(request);
  const Tensor& expected = cases.At("last_hidden_state");
  ASSERT_EQ(output.size(), expected.size_bytes());
  v1::Tensor actual;
  WriteTensorHeader(Dtype::kF32, expected.shape(), actual);
  actual.set_data(output);
  EXPECT_LE(LargestDifference(expected, actual), 2e-4);
}

TEST_F(InferTest, LayersAnswerWithTheirWeightsPadded) {
  const GoldenCases cases("gpt2");
  const Tensor& rows = cases.At("layers.0.attention.input");
  inference::ModelInferRequest request = InferRequest("gpt2");
  AddTensor(request, "hidden_states", rows);
  SetLayer(request, 0);
  request.add_outputs()->set_name("weights");
  request.add_outputs()->set_name("output");
  const inference::ModelInferResponse response = Infer(request);
  ASSERT_THAT(response.raw_output_contents(), SizeIs(2));
  EXPECT_THAT(response.outputs(0).shape(),
              ElementsAre(2, cases.At("attentions.0").shape()[1], 17, 17));
  v1::AttendRequest native = RowsRequest("gpt2", rows);
  native.set_layer(0);
  native.mutable_options()->set_return_weights(true);
  const v1::AttendResponse expected = Attend(native);
  EXPECT_TRUE(response.raw_output_contents(0) ==
              expected.weights(0).data() + expected.weights(1).data());
  EXPECT_TRUE(response.raw_output_contents(1) == expected.output().data());
}

// The weights that the layer has in the model, not those of the layer alone.
TEST_F(InferTest, WholeStacksReturnTheWeightsOfALayer) {
  for (const auto& [model, is_left] : {std::pair("gpt2", true), std::pair("bert", false)}) {
    v1::AttendRequest native = TokenRequest(model, {3, 1, 4, 1, 5, 9, 2}, 7);
    native.mutable_token_ids()->clear_lengths();
    native.mutable_token_ids()->add_lengths(3);
    native.mutable_token_ids()->add_lengths(4);
    native.mutable_weights_choice()->add_layers(1);
    const v1::AttendResponse expected = Attend(native);
    inference::ModelInferRequest request = InferRequest(model);
    AddInt64(request, "input_ids", {2, 4},
             is_left ? std::vector<int64_t>{0, 3, 1, 4, 1, 5, 9, 2}
                     : std::vector<int64_t>{3, 1, 4, 0, 1, 5, 9, 2});
    AddInt64(request, "attention_mask", {2, 4},
             is_left ? std::vector<int64_t>{0, 1, 1, 1, 1, 1, 1, 1}
                     : std::vector<int64_t>{1, 1, 1, 0, 1, 1, 1, 1});
    (*request.mutable_parameters())["weights_layer"].set_int64_param(1);
    request.add_outputs()->set_name("weights");
    request.add_outputs()->set_name("output");
    const inference::ModelInferResponse response = Infer(request);
    const v1::Tensor& ragged = expected.layer_weights(0).weights();
    const v1::Tensor& full = expected.layer_weights(1).weights();
    const int64_t heads = full.shape(0);
    EXPECT_THAT(response.outputs(0).shape(), ElementsAre(2, heads, 4, 4));
    // [sequence, head, row] of 4 keys.
    const std::string& weights = response.raw_output_contents(0);
    EXPECT_TRUE(RowsOf(weights, 16, 4 * heads, 4 * heads) == full.data());
    const size_t first = is_left ? 1 : 0;
    for (size_t row = 0; row < 3; ++row) {
      const std::string keys = RowsOf(weights, 16, first + row, 1);
      EXPECT_TRUE(RowsOf(keys, 4, first, 3) == RowsOf(ragged.data(), 12, row, 1));
      EXPECT_EQ(RowsOf(keys, 4, is_left ? 0 : 3, 1), std::string(4, '\0'));
    }
    EXPECT_TRUE(
        RowsOf(response.raw_output_contents(1), response.raw_output_contents(1).size() / 8, 4, 4) ==
        RowsOf(expected.output().data(), expected.output().data().size() / 7, 3, 4));
  }
}

TEST_F(InferTest, TheLayersOwnKeysAreTheLastColumns) {
  const Tensor rows = SeededTensor(4, Dtype::kF32, {2, 3, 24});
  inference::ModelInferRequest request = InferRequest("torch_mha-bias-kv");
  AddTensor(request, "hidden_states", rows);
  AddInt32(request, "lengths", {2}, {3, 2});
  request.add_outputs()->set_name("weights");
  const inference::ModelInferResponse response = Infer(request);
  v1::AttendRequest native = RowsRequest("torch_mha-bias-kv", rows);
  native.mutable_hidden_states()->add_lengths(3);
  native.mutable_hidden_states()->add_lengths(2);
  native.mutable_options()->set_return_weights(true);
  const v1::Tensor expected = Attend(native).weights(1);
  ASSERT_THAT(expected.shape(), ElementsAre(::testing::_, 2, 3));
  const int64_t heads = expected.shape(0);
  EXPECT_THAT(response.outputs(0).shape(), ElementsAre(2, heads, 3, 4));
  const std::string& actual = response.raw_output_contents(0);
  const auto at = [&](int64_t head, int64_t row, int64_t column) {
    return actual.substr(static_cast<size_t>((((heads + head) * 3 + row) * 4 + column) * 4), 4);
  };
  const std::string zero(4, '\0');
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t row = 0; row < 2; ++row) {
      const std::string keys = RowsOf(expected.data(), 12, static_cast<size_t>(head * 2 + row), 1);
      EXPECT_EQ(at(head, row, 0) + at(head, row, 1), keys.substr(0, 8));
      EXPECT_EQ(at(head, row, 2), zero);
      EXPECT_EQ(at(head, row, 3), keys.substr(8));
    }
    EXPECT_EQ(at(head, 2, 0) + at(head, 2, 3), zero + zero);
  }
}

TEST_F(InferTest, EncoderAndDecoderTakeMemory) {
  const Tensor rows = SeededTensor(5, Dtype::kF32, {2, 3, 24});
  const Tensor memory = SeededTensor(6, Dtype::kF32, {2, 4, 24});
  v1::AttendRequest native = RowsRequest("torch_transformer", rows);
  ToWireTensor(memory, native.mutable_hidden_states()->mutable_memory());
  native.mutable_hidden_states()->add_memory_lengths(4);
  native.mutable_hidden_states()->add_memory_lengths(1);
  inference::ModelInferRequest request = InferRequest("torch_transformer");
  AddTensor(request, "memory", memory);
  AddInt32(request, "memory_lengths", {2}, {4, 1});
  inference::ModelInferRequest both = request;
  AddTensor(both, "hidden_states", rows);
  EXPECT_TRUE(Output(both) == Attend(native).output().data());
  native.mutable_hidden_states()->clear_tensor();
  EXPECT_TRUE(Output(request) == Attend(native).output().data());
}

TEST_F(InferTest, EmptyTensorsHaveEmptyAnswers) {
  inference::ModelInferRequest request = InferRequest("gpt2");
  AddInt64(request, "input_ids", {2, 0}, {});
  inference::ModelInferResponse response = Infer(request);
  EXPECT_THAT(response.outputs(0).shape(), ElementsAre(2, 0, 36));
  EXPECT_THAT(response.raw_output_contents(), ElementsAre(""));
  request = InferRequest("gpt2");
  AddInt64(request, "input_ids", {1, 2}, {1, 2});
  AddInt64(request, "attention_mask", {1, 2}, {0, 0});
  EXPECT_EQ(Output(request), std::string(2 * kGpt2Row, '\0'));
}

}  // namespace
}  // namespace attention

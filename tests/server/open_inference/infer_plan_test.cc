// What a request means: which rows are computed, and where their answers stand.
#include "server/services/open_inference/infer_plan.h"

#include "core/tensor/seeded.h"
#include "server/services/open_inference/infer_reply.h"
#include "server/services/reply/attend_reply.h"
#include "tests/server/open_inference/infer_plan_fixture.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::SizeIs;

auto Rows(int64_t first, int64_t count) {
  return AllOf(Field(&SequenceRows::first_row, first), Field(&SequenceRows::rows, count));
}

Tensor SmallRows(const Shape& shape) { return SeededTensor(1, Dtype::kF32, shape); }

TEST_F(InferPlanTest, TokensArePackedAndTheirAnswersPadded) {
  inference::ModelInferRequest request = InferRequest("gpt2");
  AddInt64(request, "input_ids", {2, 3}, {5, 6, -1, 7, 8, 9});
  AddInt32(request, "lengths", {2}, {2, 3});
  const auto plan = Plan(request);
  ASSERT_THAT(plan, IsOk());
  EXPECT_THAT(plan->attend.ids, ElementsAre(5, 6, 7, 8, 9)) << "padding may hold anything";
  EXPECT_THAT(plan->attend.output_shape, ElementsAre(2, 3, 36));
  ASSERT_THAT(plan->attend.sequences, SizeIs(2));
  EXPECT_THAT(plan->attend.sequences[0].query, Rows(0, 2));
  EXPECT_THAT(plan->attend.sequences[0].output, Rows(0, 2));
  EXPECT_THAT(plan->attend.sequences[1].query, Rows(2, 3));
  EXPECT_THAT(plan->attend.sequences[1].output, Rows(3, 3));
  ASSERT_THAT(plan->answer.outputs, SizeIs(1));
  EXPECT_FALSE(plan->answer.outputs[0].is_weights);
  EXPECT_EQ(plan->answer.outputs[0].datatype, "FP32");
  EXPECT_EQ(plan->answer.outputs[0].size_bytes, 2 * 3 * 36 * 4);
}

TEST_F(InferPlanTest, MasksAreRunsOnEitherSideOrNone) {
  inference::ModelInferRequest request = InferRequest("bert");
  AddInt32(request, "input_ids", {4, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  AddInt64(request, "attention_mask", {4, 3}, {0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 0});
  AddInt32(request, "token_type_ids", {4, 3}, {9, 0, 1, 1, 9, 9, 9, 9, 9, 9, 0, 9});
  const auto plan = Plan(request);
  ASSERT_THAT(plan, IsOk());
  EXPECT_THAT(plan->attend.ids, ElementsAre(2, 3, 4, 11));
  EXPECT_THAT(plan->attend.type_ids, ElementsAre(0, 1, 1, 0));
  const std::vector<PlannedSequence>& sequences = plan->attend.sequences;
  ASSERT_THAT(sequences, SizeIs(4));
  EXPECT_THAT(sequences[0].output, Rows(1, 2));
  EXPECT_THAT(sequences[1].output, Rows(3, 1));
  EXPECT_EQ(sequences[2].query.rows, 0);
  EXPECT_THAT(sequences[3].output, Rows(10, 1));
}

TEST_F(InferPlanTest, HiddenStatesStayWhereTheyAre) {
  inference::ModelInferRequest request = InferRequest("gpt2");
  AddInt32(request, "attention_mask", {2, 4}, {0, 0, 1, 1, 1, 1, 1, 0});
  AddTensor(request, "hidden_states", SmallRows({2, 4, 36}).ConvertedTo(Dtype::kBf16));
  const auto plan = Plan(request);
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->attend.output_dtype, Dtype::kBf16);
  for (const auto rows :
       {&PlannedSequence::query, &PlannedSequence::key, &PlannedSequence::output}) {
    EXPECT_THAT(plan->attend.sequences[0].*rows, Rows(2, 2));
    EXPECT_THAT(plan->attend.sequences[1].*rows, Rows(4, 3));
  }
}

TEST_F(InferPlanTest, MemoryHasLengthsOfItsOwn) {
  inference::ModelInferRequest request = InferRequest("torch_transformer");
  AddTensor(request, "hidden_states", SmallRows({2, 3, 24}));
  AddTensor(request, "memory", SmallRows({2, 5, 24}));
  AddInt32(request, "memory_lengths", {2}, {5, 1});
  AddInt64(request, "attention_mask", {2, 3}, {0, 1, 1, 1, 1, 1});
  const auto plan = Plan(request);
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->attend.key.layer, kWholeStack);
  EXPECT_THAT(plan->attend.sequences[0].query, Rows(1, 2));
  EXPECT_THAT(plan->attend.sequences[0].key, Rows(0, 5));
  EXPECT_THAT(plan->attend.sequences[1].key, Rows(5, 1));
}

TEST_F(InferPlanTest, AnEncoderRunsAloneOverMemory) {
  inference::ModelInferRequest request = InferRequest("torch_transformer");
  AddTensor(request, "memory", SmallRows({2, 5, 24}));
  AddInt32(request, "memory_lengths", {2}, {5, 1});
  const auto plan = Plan(request);
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->attend.key.layer, kEncoderAlone);
  EXPECT_THAT(plan->attend.output_shape, ElementsAre(2, 5, 24));
  EXPECT_THAT(plan->attend.sequences[1].query, Rows(5, 1));
}

TEST_F(InferPlanTest, ValuesMayComeFromRowsOfTheirOwn) {
  inference::ModelInferRequest request = InferRequest("torch_mha-kdim-vdim");
  AddTensor(request, "hidden_states", SmallRows({1, 3, 24}));
  AddTensor(request, "memory", SmallRows({1, 2, 18}));
  ExpectInvalid(request,
                "input \"memory_values\": expected rows of 30 for model \"torch_mha-kdim-vdim\", "
                "found none");
  AddTensor(request, "memory_values", SmallRows({1, 2, 30}));
  EXPECT_THAT(Plan(request), IsOk());
}

TEST_F(InferPlanTest, BareAttentionAlignsTheLastRowWithTheLastKey) {
  inference::ModelInferRequest request = InferRequest("attention");
  AddTensor(request, "query", SmallRows({2, 3, 4, 8}));
  AddTensor(request, "key", SmallRows({2, 5, 2, 8}));
  AddTensor(request, "value", SmallRows({2, 5, 2, 6}));
  AddInt32(request, "kv_lengths", {2}, {5, 2});
  AddTensor(request, "bias", SmallRows({1, 4, 3, 5}));
  request.add_outputs()->set_name("weights");
  const auto plan = Plan(request);
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->answer.model_version, "1");
  EXPECT_THAT(plan->attend.output_shape, ElementsAre(2, 3, 4, 6));
  EXPECT_THAT(plan->answer.outputs[0].shape, ElementsAre(2, 4, 3, 5));
  EXPECT_EQ(plan->attend.sequences[1].query_offset, 2);
  EXPECT_EQ(plan->attend.sequences[1].key.rows, 2);
  EXPECT_THAT(plan->attend.options.bias.shape, ElementsAre(1, 4, 3, 5));
}

// Typed contents become the bytes that raw ones are.
TEST_F(InferPlanTest, TypedContentsBecomePackedBytes) {
  inference::ModelInferRequest request = InferText(R"pb(
    model_name: "attention"
    inputs {
      name: "query"
      datatype: "FP32"
      shape: [ 1, 1, 1, 2 ]
      contents { fp32_contents: [ 1, 2 ] }
    }
    inputs {
      name: "key"
      datatype: "FP32"
      shape: [ 1, 1, 1, 2 ]
      contents { fp32_contents: [ 3, 4 ] }
    }
    inputs {
      name: "value"
      datatype: "FP32"
      shape: [ 1, 1, 1, 1 ]
      contents { fp32_contents: 5 }
    }
    inputs {
      name: "kv_lengths"
      datatype: "INT32"
      shape: [ 1 ]
      contents { int_contents: 1 }
    })pb");
  const auto plan = Plan(request);
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(BytesOf(plan->attend.operands[0].payload), BytesOf<float>({1, 2}));
  EXPECT_EQ(BytesOf(plan->attend.operands[1].payload), BytesOf<float>({3, 4}));
  EXPECT_EQ(BytesOf(plan->attend.operands[2].payload), BytesOf<float>({5}));
  EXPECT_EQ(plan->attend.extra_bytes, 24);

  inference::ModelInferRequest tokens = InferText(R"pb(
    model_name: "demo"
    inputs {
      name: "input_ids"
      datatype: "INT64"
      shape: [ 1, 2 ]
      contents { int64_contents: [ 7, 8 ] }
    })pb");
  EXPECT_THAT(Plan(tokens)->attend.ids, ElementsAre(7, 8));
}

// The cost decides whether a side thread reads them.
TEST_F(InferPlanTest, InputsInSharedMemoryCostTheirSizeInEitherType) {
  constexpr int64_t kSize = 1 << 20;
  inference::ModelInferRequest request;
  auto& size = (*request.add_inputs()->mutable_parameters())["shared_memory_byte_size"];
  const auto cost = [&](int64_t max_shared_bytes) {
    return InferPlanningCost(Cut(request.SerializeAsString(), 37), max_shared_bytes);
  };
  size.set_int64_param(kSize);
  EXPECT_EQ(cost(2 * kSize), kSize);
  size.set_uint64_param(kSize);
  EXPECT_EQ(cost(2 * kSize), kSize);
}

// A claim of 2^63 bytes is refused, which costs nothing.
TEST_F(InferPlanTest, InputsInSharedMemoryCostNoMoreThanMayBeRead) {
  constexpr int64_t kMost = 1 << 20;
  inference::ModelInferRequest request;
  for (int i = 0; i < 64; ++i) {
    inference::ModelInferRequest::InferInputTensor& input = *request.add_inputs();
    input.set_datatype("BYTES");
    (*input.mutable_parameters())["shared_memory_byte_size"].set_uint64_param(uint64_t{1} << 63);
  }
  const grpc::ByteBuffer message = Cut(request.SerializeAsString(), 37);
  EXPECT_EQ(InferPlanningCost(message, kMost), kTextWeight * kMost);
  EXPECT_LE(InferPlanningCost(message, 0), 64 * static_cast<int64_t>(message.Length()));
}

TEST_F(InferPlanTest, TextsCostMoreThanTensorsHoweverTheyCome) {
  const std::string bytes(400, 'x');
  inference::ModelInferRequest tensor = InferRequest("demo");
  AddBytes(tensor, "hidden_states", "FP32", {1, 1, 100}, bytes);
  inference::ModelInferRequest raw = InferRequest("demo");
  AddBytes(raw, "text", "BYTES", {1}, bytes);
  inference::ModelInferRequest typed = InferRequest("demo");
  typed.add_inputs()->mutable_contents()->add_bytes_contents(bytes);
  for (const size_t slice_bytes : {37, 100'000}) {
    const auto cost = [&](const inference::ModelInferRequest& request) {
      return InferPlanningCost(Cut(request.SerializeAsString(), slice_bytes), 0);
    };
    EXPECT_EQ(cost(tensor), 0) << "a completion thread plans it";
    EXPECT_GT(cost(raw), kSmallPlanBytes) << "a side thread plans it";
    EXPECT_GT(cost(typed), kSmallPlanBytes);
  }
}

TEST_F(InferPlanTest, EmptyTensorsAreLegal) {
  inference::ModelInferRequest request = InferRequest("demo");
  AddBytes(request, "hidden_states", "FP32", {2, 0, 512}, "");
  auto plan = Plan(request);
  ASSERT_THAT(plan, IsOk());
  EXPECT_THAT(plan->attend.sequences, SizeIs(2));

  request = InferRequest("demo");
  AddHeader(request, "input_ids", "INT64", {0, 4});
  plan = Plan(request);
  ASSERT_THAT(plan, IsOk());
  EXPECT_THAT(plan->attend.sequences, IsEmpty());
  EXPECT_THAT(plan->attend.output_shape, ElementsAre(0, 4, 512));
}

// The reply's table, made by hand: rows and keys of the sequences where the mask has them, the
// layer's own key in the last column.
TEST_F(InferPlanTest, WeightsStandWhereTheirRowsAndKeysDo) {
  inference::ModelInferRequest request = InferRequest("demo");
  AddInt64(request, "input_ids", {2, 3}, {1, 2, 3, 4, 5, 6});
  AddInt64(request, "attention_mask", {2, 3}, {0, 1, 1, 1, 0, 0});
  request.add_outputs()->set_name("weights");
  auto plan = Plan(request);
  ASSERT_THAT(plan, IsOk());
  plan->attend.num_heads = 1;
  plan->attend.extra_keys = plan->answer.extra_keys = 1;
  plan->answer.outputs[0].shape = {2, 1, 3, 4};
  plan->answer.outputs[0].size_bytes = 24 * 4;
  AttendReply reply(plan->attend);
  reply.Allocate();
  const std::vector<float> first = {1, 2, 3, 4, 5, 6};
  const std::vector<float> second = {7, 8};
  std::copy(first.begin(), first.end(), reply.Scores(0).weights);
  std::copy(second.begin(), second.end(), reply.Scores(1).weights);
  const auto encoded = EncodeInfer(plan->answer, reply);
  ASSERT_THAT(encoded, IsOk());
  inference::ModelInferResponse response;
  ASSERT_TRUE(response.ParseFromString(Join(*encoded)));
  EXPECT_EQ(response.raw_output_contents(0), BytesOf<float>({0, 0, 0, 0, 0, 1, 2, 3, 0, 4, 5, 6,  //
                                                             7, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0}));
}

}  // namespace
}  // namespace attention

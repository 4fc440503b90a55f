// Answers of the real server against the double-precision reference.
#include "core/models/seeded_model.h"
#include "gmock/gmock.h"
#include "tests/server/wire_tensors.h"
#include "tests/support/in_process_server.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::SizeIs;

class AttendTest : public ::testing::Test {
 protected:
  v1::AttendResponse Attend(const v1::AttendRequest& request) { return client_.Must(request); }

  InProcessServer server_;
  AttendClient client_{server_.NewChannel()};
  const reference::Layer layer_ = ReferenceLayer(DemoModelSpec());
};

TEST_F(AttendTest, AnswersAPaddedBatchSequenceBySequence) {
  const Tensor input = SeededTensor(1, Dtype::kF32, {2, 5, kDemoWidth});
  for (const bool causal : {false, true}) {
    v1::AttendRequest request = DemoRequest(input);
    request.mutable_options()->set_causal(causal);
    const v1::AttendResponse response = Attend(request);
    EXPECT_EQ(response.output().dtype(), v1::FP32);
    ASSERT_THAT(response.output().shape(), ElementsAre(2, 5, kDemoWidth));
    for (int64_t i = 0; i < 2; ++i) {
      const auto expected = reference::MultiHeadAttention(
          layer_, Rows(ToDoubles(input), kDemoWidth, 5 * i, 5), {}, {.causal = causal});
      EXPECT_LE(reference::RelativeL2(Rows(ToDoubles(response.output()), kDemoWidth, 5 * i, 5),
                                      expected.output),
                reference::kLayerToleranceF32);
    }
  }
}

TEST_F(AttendTest, IgnoresPaddingAndAnswersItWithZeros) {
  Tensor input = SeededTensor(2, Dtype::kF32, {3, 4, kDemoWidth});
  const std::vector<int64_t> lengths = {3, 0, 4};
  const v1::AttendResponse response = Attend(DemoRequest(input, lengths));
  const std::vector<double> output = ToDoubles(response.output());
  for (int64_t i = 0; i < 3; ++i) {
    if (lengths[i] > 0) {
      const auto expected = reference::MultiHeadAttention(
          layer_, Rows(ToDoubles(input), kDemoWidth, 4 * i, lengths[i]), {}, {});
      EXPECT_LE(reference::RelativeL2(Rows(output, kDemoWidth, 4 * i, lengths[i]), expected.output),
                reference::kLayerToleranceF32);
    }
    EXPECT_THAT(Rows(output, kDemoWidth, 4 * i + lengths[i], 4 - lengths[i]), Each(0.0));
  }
  input.as<float>()[3 * kDemoWidth] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(Attend(DemoRequest(input, lengths)).output().data(), response.output().data());
}

TEST_F(AttendTest, AMaskHasTheShapeOfThePaddedRows) {
  v1::AttendRequest request = DemoRequest(SeededTensor(1, Dtype::kF32, {2, 8, kDemoWidth}), {3, 4});
  const v1::AttendResponse expected = Attend(request);
  v1::Tensor& mask = *request.mutable_options()->mutable_mask();
  mask.set_dtype(v1::BOOL);
  for (const int64_t extent : {1, 1, 8, 8}) {
    mask.add_shape(extent);
  }
  mask.set_data(std::string(64, '\1'));
  EXPECT_EQ(Attend(request).output().data(), expected.output().data());
  std::string values(64, '\1');
  for (size_t row = 0; row < values.size(); row += 8) {
    values[row + 1] = '\0';
  }
  mask.set_data(values);
  const std::string masked = Attend(request).output().data();
  EXPECT_NE(masked, expected.output().data());
  for (char& value : values) {
    value = value == '\1' ? '\x7f' : value;
  }
  mask.set_data(values);
  EXPECT_EQ(Attend(request).output().data(), masked) << "any value but 0 counts as 1";
}

TEST_F(AttendTest, AnswersPackedSequencesOfDifferentLengths) {
  const Tensor input = SeededTensor(3, Dtype::kF32, {9, kDemoWidth});
  const v1::AttendResponse response = Attend(DemoRequest(input, {2, 0, 6, 1}));
  ASSERT_THAT(response.output().shape(), ElementsAre(9, kDemoWidth));
  const std::pair<int64_t, int64_t> ranges[] = {{0, 2}, {2, 6}, {8, 1}};
  for (const auto& [first, rows] : ranges) {
    const auto expected = reference::MultiHeadAttention(
        layer_, Rows(ToDoubles(input), kDemoWidth, first, rows), {}, {});
    EXPECT_LE(reference::RelativeL2(Rows(ToDoubles(response.output()), kDemoWidth, first, rows),
                                    expected.output),
              reference::kLayerToleranceF32);
  }
  EXPECT_EQ(response.summary().batch_sequences(), 3);
  EXPECT_EQ(response.summary().batch_tokens(), 9);
}

TEST_F(AttendTest, TakesKeysFromMemoryWithLengthsOfItsOwn) {
  const Tensor input = SeededTensor(4, Dtype::kF32, {2, 3, kDemoWidth});
  const Tensor memory = SeededTensor(5, Dtype::kF32, {2, 7, kDemoWidth});
  v1::AttendRequest request = DemoRequest(input);
  ToWireTensor(memory, request.mutable_hidden_states()->mutable_memory());
  const std::vector<int64_t> memory_lengths = {7, 2};
  request.mutable_hidden_states()->mutable_memory_lengths()->Assign(memory_lengths.begin(),
                                                                    memory_lengths.end());
  const v1::AttendResponse response = Attend(request);
  for (int64_t i = 0; i < 2; ++i) {
    const auto expected = reference::MultiHeadAttention(
        layer_, Rows(ToDoubles(input), kDemoWidth, 3 * i, 3),
        Rows(ToDoubles(memory), kDemoWidth, 7 * i, memory_lengths[i]), {});
    EXPECT_LE(reference::RelativeL2(Rows(ToDoubles(response.output()), kDemoWidth, 3 * i, 3),
                                    expected.output),
              reference::kLayerToleranceF32);
  }
}

TEST_F(AttendTest, EmbedsTokensFromPositionZeroOfEachSequence) {
  v1::AttendRequest request;
  request.set_model("demo");
  const std::vector<int32_t> ids = {1, 999, 0, 5, 5, 1};
  const std::vector<int64_t> lengths = {4, 2};
  request.mutable_token_ids()->mutable_ids()->Assign(ids.begin(), ids.end());
  request.mutable_token_ids()->mutable_lengths()->Assign(lengths.begin(), lengths.end());
  const v1::AttendResponse response = Attend(request);

  const auto model = Model::CreateSeeded(DemoModelSpec());
  Tensor rows(Dtype::kF32, {6, kDemoWidth});
  (*model)->Embed({std::span(ids).first(4)}, rows.as<float>());
  (*model)->Embed({std::span(ids).last(2)}, rows.as<float>() + 4 * kDemoWidth);
  EXPECT_EQ(response.output().data(), Attend(DemoRequest(rows, lengths)).output().data());
  ASSERT_THAT(response.output().shape(), ElementsAre(6, kDemoWidth));
}

TEST_F(AttendTest, AnswersInTheDtypeOfTheInput) {
  for (const Dtype dtype : {Dtype::kBf16, Dtype::kF16}) {
    const Tensor input = SeededTensor(6, dtype, {1, 6, kDemoWidth});
    const v1::AttendResponse response = Attend(DemoRequest(input));
    EXPECT_EQ(response.output().dtype(), ToWire(dtype));
    const auto expected = reference::MultiHeadAttention(layer_, ToDoubles(input), {}, {});
    EXPECT_LE(reference::RelativeL2(ToDoubles(response.output()), expected.output),
              reference::kLayerToleranceBf16);
  }
}

TEST_F(AttendTest, ReturnsTheWeightsOfEachSequence) {
  const Tensor input = SeededTensor(7, Dtype::kF32, {7, kDemoWidth});
  v1::AttendRequest request = DemoRequest(input, {4, 0, 3});
  request.mutable_options()->set_return_weights(true);
  request.mutable_options()->set_causal(true);
  const v1::AttendResponse response = Attend(request);
  ASSERT_THAT(response.weights(), SizeIs(3));
  EXPECT_THAT(response.weights(1).shape(), ElementsAre(8, 0, 0));
  const auto first = reference::MultiHeadAttention(layer_, Rows(ToDoubles(input), kDemoWidth, 0, 4),
                                                   {}, {.causal = true});
  const auto last = reference::MultiHeadAttention(layer_, Rows(ToDoubles(input), kDemoWidth, 4, 3),
                                                  {}, {.causal = true});
  EXPECT_THAT(response.weights(0).shape(), ElementsAre(8, 4, 4));
  EXPECT_LE(reference::RelativeL2(ToDoubles(response.weights(0)), first.weights),
            reference::kLayerToleranceF32);
  EXPECT_LE(reference::RelativeL2(ToDoubles(response.weights(2)), last.weights),
            reference::kLayerToleranceF32);
}

// Grouped heads, a value width of its own, keys hidden by kv_lengths: only lengths are what differs
// between sequences.
TEST_F(AttendTest, AttendsOverQueryKeyAndValueWithoutAModel) {
  const reference::Extents extents = {.query_len = 5,
                                      .kv_len = 7,
                                      .num_heads = 4,
                                      .num_kv_heads = 2,
                                      .head_dim = 16,
                                      .value_head_dim = 8};
  const Tensor query = SeededTensor(8, Dtype::kF32, {2, 5, 4, 16});
  const Tensor key = SeededTensor(9, Dtype::kF32, {2, 7, 2, 16});
  const Tensor value = SeededTensor(10, Dtype::kF32, {2, 7, 2, 8});
  v1::AttendRequest request = QkvRequest(query, key, value);
  request.mutable_query_key_value()->add_kv_lengths(7);
  request.mutable_query_key_value()->add_kv_lengths(4);
  request.mutable_options()->set_causal(true);
  request.mutable_options()->set_scale(0.3);
  const v1::AttendResponse response = Attend(request);
  ASSERT_THAT(response.output().shape(), ElementsAre(2, 5, 4, 8));
  for (int64_t i = 0; i < 2; ++i) {
    reference::Extents own = extents;
    own.kv_len = i == 0 ? 7 : 4;
    const auto expected = reference::Attention(own, Rows(ToDoubles(query), 64, 5 * i, 5),
                                               Rows(ToDoubles(key), 32, 7 * i, own.kv_len),
                                               Rows(ToDoubles(value), 16, 7 * i, own.kv_len),
                                               {.causal = true, .scale = 0.3, .query_offset = 2});
    EXPECT_LE(
        reference::RelativeL2(Rows(ToDoubles(response.output()), 32, 5 * i, 5), expected.output),
        reference::kAttentionToleranceF32);
  }
}

TEST_F(AttendTest, AttendsOverPackedKeysWithOffsets) {
  const Tensor query = SeededTensor(11, Dtype::kF16, {5, 2, 16});
  const Tensor key = SeededTensor(12, Dtype::kF16, {9, 2, 16});
  const Tensor value = SeededTensor(13, Dtype::kF16, {9, 2, 16});
  v1::AttendRequest request = QkvRequest(query, key, value);
  v1::QueryKeyValue& input = *request.mutable_query_key_value();
  for (const int64_t length : {2, 3}) {
    input.add_lengths(length);
  }
  for (const int64_t length : {3, 6}) {
    input.add_kv_lengths(length);
  }
  request.mutable_options()->set_causal(true);
  for (const bool has_offsets : {false, true}) {
    if (has_offsets) {
      input.add_query_offsets(-1);
      input.add_query_offsets(0);
    }
    const v1::AttendResponse response = Attend(request);
    for (int64_t i = 0; i < 2; ++i) {
      const reference::Extents extents = {2 + i, 3 + 3 * i, 2, 2, 16, 16};
      const int64_t offset = has_offsets ? i - 1 : extents.kv_len - extents.query_len;
      const auto expected =
          reference::Attention(extents, Rows(ToDoubles(query), 32, 2 * i, extents.query_len),
                               Rows(ToDoubles(key), 32, 3 * i, extents.kv_len),
                               Rows(ToDoubles(value), 32, 3 * i, extents.kv_len),
                               {.causal = true, .query_offset = offset});
      EXPECT_LE(
          reference::RelativeL2(Rows(ToDoubles(response.output()), 32, 2 * i, extents.query_len),
                                expected.output),
          1e-3);
    }
  }
}

TEST_F(AttendTest, AnswersRequestsWithoutRows) {
  const std::vector<v1::AttendRequest> requests = {
      DemoRequest(Tensor(Dtype::kF32, {0, kDemoWidth})),
      DemoRequest(Tensor(Dtype::kBf16, {0, 3, kDemoWidth})),
      DemoRequest(Tensor(Dtype::kF32, {2, 0, kDemoWidth})),
      DemoRequest(Tensor(Dtype::kF32, {0, kDemoWidth}), {0, 0})};
  for (const v1::AttendRequest& request : requests) {
    const v1::AttendResponse response = Attend(request);
    EXPECT_EQ(response.output().data(), "");
    EXPECT_EQ(response.output().shape_size(), request.hidden_states().tensor().shape_size());
  }
}

TEST_F(AttendTest, AnswersRowsThatSeeNoKeyWithZeros) {
  const Tensor query = SeededTensor(14, Dtype::kF32, {1, 3, 2, 16});
  const v1::AttendResponse response = Attend(
      QkvRequest(query, Tensor(Dtype::kF32, {1, 0, 2, 16}), Tensor(Dtype::kF32, {1, 0, 2, 16})));
  EXPECT_THAT(ToDoubles(response.output()), AllOf(SizeIs(96), Each(0.0)));
}

TEST_F(AttendTest, TellsWhereTheTimeWent) {
  const v1::Summary summary =
      Attend(DemoRequest(SeededTensor(1, Dtype::kF32, {64, kDemoWidth}))).summary();
  EXPECT_GE(summary.queue_ns(), 0);
  EXPECT_GT(summary.compute_ns(), 0);
  EXPECT_GE(summary.total_ns(), summary.queue_ns() + summary.compute_ns());
  EXPECT_GT(summary.batch_id(), 0);
  EXPECT_EQ(summary.batch_requests(), 1);
  EXPECT_EQ(summary.batch_tokens(), 64);
}

}  // namespace
}  // namespace attention

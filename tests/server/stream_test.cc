// Streamed answers: the whole answer's bits, in blocks that any client can read.
#include <map>

#include "gmock/gmock.h"
#include "tests/server/wire_options.h"
#include "tests/server/wire_tensors.h"
#include "tests/support/in_process_server.h"

namespace attention {
namespace {

constexpr size_t kMiB = 1 << 20;

// What a stream's messages add up to.
struct Assembled {
  std::map<int64_t, std::string> rows;  // by sequence
  // By sequence and head.
  std::map<std::pair<int64_t, int64_t>, std::string> weights, log_sum_exp, top_weights, top_keys;
  v1::Summary summary;
  size_t largest_bytes = 0;
  size_t num_messages = 0;
};

// Rows of one head, which must follow those before.
template <typename Block>
void Append(const Block& block, const v1::Tensor& rows,
            std::map<std::pair<int64_t, int64_t>, std::string>& heads) {
  std::string& head = heads[{block.sequence(), block.head()}];
  EXPECT_EQ(block.first_row() * rows.data().size() / rows.shape(0), head.size());
  head += rows.data();
}

Assembled Assemble(const std::vector<v1::AttendStreamResponse>& parts) {
  Assembled result;
  std::map<int64_t, int64_t> next_row;
  for (const v1::AttendStreamResponse& part : parts) {
    result.largest_bytes = std::max(result.largest_bytes, part.ByteSizeLong());
    ++result.num_messages;
    if (part.has_rows()) {
      EXPECT_EQ(part.rows().first_row(), next_row[part.rows().sequence()])
          << "a gap, or out of order";
      next_row[part.rows().sequence()] += part.rows().output().shape(0);
      result.rows[part.rows().sequence()] += part.rows().output().data();
    } else if (part.has_weights()) {
      Append(part.weights(), part.weights().weights(), result.weights);
    } else if (part.has_log_sum_exp()) {
      Append(part.log_sum_exp(), part.log_sum_exp().log_sum_exp(), result.log_sum_exp);
    } else if (part.has_top_weights()) {
      Append(part.top_weights(), part.top_weights().top_weights().weights(), result.top_weights);
      Append(part.top_weights(), part.top_weights().top_weights().keys(), result.top_keys);
    } else {
      EXPECT_EQ(result.num_messages, parts.size()) << "the summary comes last";
      result.summary = part.summary();
    }
  }
  return result;
}

class StreamTest : public ::testing::Test {
 protected:
  Assembled Stream(const v1::AttendRequest& request) {
    std::vector<v1::AttendStreamResponse> parts;
    const grpc::Status status = client_.AttendStream(request, &parts);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return Assemble(parts);
  }
  v1::AttendResponse Whole(const v1::AttendRequest& request) { return client_.Must(request); }

  InProcessServer server_;
  AttendClient client_{server_.NewChannel()};
};

// A stage that exceeds a message by one row must not end in a message of one row.
TEST_F(StreamTest, BlocksOfAStageAreOfOneSize) {
  struct Case {
    int64_t heads;
    size_t messages;
  };
  // Rows of 4, 8, 16 and 32 KiB, of which a stage has 256, 128, 64 and 64.
  for (const auto& [heads, messages] : {Case{16, 2}, Case{32, 4}, Case{64, 8}, Case{128, 16}}) {
    const Tensor rows = SeededTensor(1, Dtype::kF32, {512, heads, 64});
    const v1::AttendRequest request = QkvRequest(rows, SeededTensor(2, Dtype::kF32, {8, heads, 64}),
                                                 SeededTensor(3, Dtype::kF32, {8, heads, 64}));
    const Assembled streamed = Stream(request);
    EXPECT_EQ(streamed.num_messages, messages + 1) << heads << " heads";
    EXPECT_EQ(streamed.rows.at(0), Whole(request).output().data());
  }
}

TEST_F(StreamTest, HasTheBitsOfTheWholeAnswer) {
  for (const bool causal : {false, true}) {
    v1::AttendRequest request =
        DemoRequest(SeededTensor(1, Dtype::kF32, {1500, kDemoWidth}), {700, 0, 1, 799});
    request.mutable_options()->set_causal(causal);
    const Assembled streamed = Stream(request);
    EXPECT_EQ(streamed.rows.at(0) + streamed.rows.at(2) + streamed.rows.at(3),
              Whole(request).output().data());
    EXPECT_GT(streamed.num_messages, 4) << "more blocks than sequences";
    EXPECT_EQ(streamed.summary.batch_tokens(), 1500);
  }
}

TEST_F(StreamTest, LeavesOutThePadding) {
  const v1::AttendRequest request =
      DemoRequest(SeededTensor(2, Dtype::kBf16, {3, 4, kDemoWidth}), {3, 0, 4});
  const Assembled streamed = Stream(request);
  const std::string whole = Whole(request).output().data();
  const size_t row = kDemoWidth * 2;
  EXPECT_EQ(streamed.rows, (std::map<int64_t, std::string>{{0, whole.substr(0, 3 * row)},
                                                           {2, whole.substr(8 * row)}}));
}

TEST_F(StreamTest, StreamsQueryKeyValueWithTheirShape) {
  const Tensor query = SeededTensor(3, Dtype::kF16, {1, 300, 2, 16});
  const Tensor key = SeededTensor(4, Dtype::kF16, {1, 20, 2, 16});
  const v1::AttendRequest request =
      QkvRequest(query, key, SeededTensor(5, Dtype::kF16, {1, 20, 2, 24}));
  std::vector<v1::AttendStreamResponse> parts;
  ASSERT_TRUE(client_.AttendStream(request, &parts).ok());
  const v1::Tensor& first = parts.front().rows().output();
  EXPECT_EQ(first.dtype(), v1::FP16);
  EXPECT_THAT(first.shape(), ::testing::ElementsAre(::testing::Gt(0), 2, 24));
  EXPECT_EQ(Assemble(parts).rows.at(0), Whole(request).output().data());
}

TEST_F(StreamTest, SendsTheWeightsHeadByHead) {
  v1::AttendRequest request =
      DemoRequest(SeededTensor(6, Dtype::kF32, {700, kDemoWidth}), {600, 100});
  request.mutable_options()->set_return_weights(true);
  const Assembled streamed = Stream(request);
  const v1::AttendResponse whole = Whole(request);
  for (int64_t sequence = 0; sequence < 2; ++sequence) {
    std::string weights;
    for (int64_t head = 0; head < 8; ++head) {
      weights += streamed.weights.at({sequence, head});
    }
    EXPECT_EQ(weights, whole.weights(static_cast<int>(sequence)).data());
  }
  EXPECT_LE(streamed.largest_bytes, kMiB + 600 * 4);
}

TEST_F(StreamTest, SendsLogSumExpAndLargestWeightsAfterTheWeights) {
  const Tensor query = SeededTensor(9, Dtype::kF32, {1300, 2, 16});
  const Tensor key = SeededTensor(10, Dtype::kF32, {900, 2, 16});
  v1::AttendRequest request = QkvRequest(query, key, key);
  for (const int64_t length : {1200, 0, 100}) {
    request.mutable_query_key_value()->add_lengths(length);
  }
  for (const int64_t length : {600, 0, 300}) {
    request.mutable_query_key_value()->add_kv_lengths(length);
  }
  *request.mutable_options() = Options(
      "causal: true prefix: 9 window: 50 return_weights: true return_log_sum_exp: true "
      "weights_top_k: 400");
  const Assembled streamed = Stream(request);
  const v1::AttendResponse whole = Whole(request);
  for (const int sequence : {0, 2}) {
    std::string weights, log_sum_exp, top_weights, top_keys;
    for (int64_t head = 0; head < 2; ++head) {
      weights += streamed.weights.at({sequence, head});
      log_sum_exp += streamed.log_sum_exp.at({sequence, head});
      top_weights += streamed.top_weights.at({sequence, head});
      top_keys += streamed.top_keys.at({sequence, head});
    }
    EXPECT_TRUE(weights == whole.weights(sequence).data());
    EXPECT_TRUE(log_sum_exp == whole.log_sum_exp(sequence).data());
    EXPECT_TRUE(top_weights == whole.top_weights(sequence).weights().data());
    EXPECT_TRUE(top_keys == whole.top_weights(sequence).keys().data());
    EXPECT_EQ(streamed.rows.at(sequence),
              whole.output().data().substr(sequence == 0 ? 0 : 1200 * 128,
                                           streamed.rows.at(sequence).size()));
  }
  EXPECT_LE(streamed.largest_bytes, kMiB + 400 * 8);
}

// A causal stream computes rows before it has seen the later ones: these see some of them.
TEST_F(StreamTest, HasTheBitsOfTheWholeAnswerForRowsThatSeeLaterOnes) {
  uint64_t seed = 11;  // other rows each time: none may be left from before
  for (const char* options :
       {"causal: true prefix: 650", "causal: true window: 100 global_tokens: [3, 690]",
        "causal: false sequences { causal: true } sequences { causal: true prefix: 90 }",
        "similarity: LINEAR causal: true", "causal: true rotary {} query_norm {} key_norm {}"}) {
    SCOPED_TRACE(options);
    v1::AttendRequest request =
        DemoRequest(SeededTensor(seed++, Dtype::kF32, {800, kDemoWidth}), {700, 100});
    *request.mutable_options() = Options(options);
    const Assembled streamed = Stream(request);
    EXPECT_TRUE(streamed.rows.at(0) + streamed.rows.at(1) == Whole(request).output().data());
    EXPECT_GT(streamed.num_messages, 3);
  }
}

TEST_F(StreamTest, SendsNoMessageOfMoreThanAMebibyteAndARow) {
  const Tensor wide = SeededTensor(7, Dtype::kF32, {300, 64, 128});
  const Assembled streamed = Stream(QkvRequest(wide, wide, wide));
  EXPECT_LE(streamed.largest_bytes, kMiB + 64 * 128 * 4);
  EXPECT_EQ(streamed.rows.at(0).size(), wide.size_bytes());
}

TEST_F(StreamTest, SendsARowThatIsLargerInAMessageOfItsOwn) {
  const Tensor huge = SeededTensor(8, Dtype::kF32, {2, 600, 512});
  const Assembled streamed = Stream(QkvRequest(huge, huge, huge));
  EXPECT_EQ(streamed.num_messages, 3);
  EXPECT_LE(streamed.largest_bytes, kMiB + 600 * 512 * 4);
}

TEST_F(StreamTest, EndsWithTheSummaryWhenThereAreNoRows) {
  const Assembled streamed = Stream(DemoRequest(Tensor(Dtype::kF32, {0, kDemoWidth})));
  EXPECT_EQ(streamed.num_messages, 1);
  EXPECT_GT(streamed.summary.batch_id(), 0);
}

}  // namespace
}  // namespace attention

// Steps with join_parts: the same parts in one message, unless they are too many bytes for one.
#include <utility>

#include "gmock/gmock.h"
#include "tests/server/decode/decode_stream.h"
#include "tests/server/wire_options.h"
#include "tests/server/wire_tensors.h"
#include "tests/support/in_process_server.h"

namespace attention {
namespace {

constexpr int kDemoHeads = 8;
constexpr int64_t kMaxMessageBytes = int64_t{1} << 20;

v1::DecodeRequest Joined(v1::DecodeRequest step) {
  step.mutable_step()->set_join_parts(true);
  return step;
}

TEST(JoinedPartsTest, OneMessageHasThePartsOfMany) {
  InProcessServer server({.threads = 1});
  const Tensor rows = SeededTensor(1, Dtype::kF32, {40, kDemoWidth});
  v1::DecodeRequest open = OpenModel("demo");
  *open.mutable_open()->mutable_options() =
      Options("return_weights: true return_log_sum_exp: true weights_top_k: 3");
  DecodeStream apart(server.NewChannel());
  DecodeStream joined(server.NewChannel());
  apart.Must(open);
  joined.Must(open);
  for (const auto& [first, count] : {std::pair(0, 7), std::pair(7, 1), std::pair(8, 32)}) {
    const v1::DecodeRequest step = RowsStep(rows, first, count);
    const DecodeAnswer expected = apart.Must(step);
    const DecodeAnswer found = joined.Must(Joined(step));
    EXPECT_EQ(found.num_messages, 1);
    EXPECT_TRUE(found.has_joined_parts);
    EXPECT_EQ(expected.num_messages, 1 + 3 * kDemoHeads) << "rows, and three scores of each head";
    EXPECT_FALSE(expected.has_joined_parts);
    EXPECT_EQ(found.parts, expected.parts);
  }
}

TEST(JoinedPartsTest, AnAnswerBeyondAMessageComesInSeveral) {
  InProcessServer server({.threads = 2});
  constexpr auto kOneRow = static_cast<int64_t>(kDemoWidth * sizeof(float));
  const Tensor rows = SeededTensor(1, Dtype::kF32, {kMaxMessageBytes / kOneRow + 1, kDemoWidth});
  DecodeStream stream(server.NewChannel());
  stream.Must(OpenModel("demo"));
  const DecodeAnswer few = stream.Must(Joined(RowsStep(rows, 0, kMaxMessageBytes / kOneRow - 8)));
  EXPECT_EQ(few.num_messages, 1);
  EXPECT_TRUE(few.has_joined_parts);
  stream.Must(TruncateTo(0));
  const DecodeAnswer many = stream.Must(Joined(RowsStep(rows, 0, rows.shape()[0])));
  EXPECT_GT(many.num_messages, 1);
  EXPECT_FALSE(many.has_joined_parts);
  EXPECT_LE(many.largest_message, kMaxMessageBytes + kOneRow);
  EXPECT_EQ(many.rows.substr(0, few.rows.size()), few.rows);
}

TEST(JoinedPartsTest, AStepWithoutPartsHasOnlyItsResult) {
  InProcessServer server({.threads = 1});
  const Tensor rows = SeededTensor(1, Dtype::kF32, {2, kDemoWidth});
  DecodeStream stream(server.NewChannel());
  stream.Must(OpenModel("demo"));
  v1::DecodeRequest step = Joined(RowsStep(rows, 0, 2));
  step.mutable_step()->set_no_output(true);
  const DecodeAnswer answer = stream.Must(step);
  EXPECT_EQ(answer.num_messages, 1);
  EXPECT_TRUE(answer.parts.empty());
}

}  // namespace
}  // namespace attention

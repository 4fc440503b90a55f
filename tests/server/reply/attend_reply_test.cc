// How an answer that is too large for one message is cut.
#include "server/services/reply/attend_reply.h"

#include <algorithm>
#include <utility>

#include "gmock/gmock.h"
#include "server/services/reply/encode_reply.h"

namespace attention {
namespace {

v1::AttendStreamResponse Parse(const grpc::ByteBuffer& bytes) {
  grpc::Slice slice;
  EXPECT_TRUE(bytes.DumpToSingleSlice(&slice).ok());
  v1::AttendStreamResponse message;
  EXPECT_TRUE(message.ParseFromArray(slice.begin(), static_cast<int>(slice.size())));
  return message;
}

TokenizedText Text(int64_t num_tokens, const std::string& token) {
  TokenizedText text;
  for (int64_t i = 0; i < num_tokens; ++i) {
    text.ids.push_back(static_cast<int32_t>(2000000000 + i));
    text.tokens.push_back(token);
  }
  return text;
}

TEST(AttendReplyTest, CutsLongTextsIntoMessagesOfAMebibyte) {
  constexpr size_t kMiB = 1 << 20;
  std::vector<TokenizedText> texts = {Text(200000, "token"), Text(0, ""), Text(1, "one"),
                                      Text(2, std::string(2 * kMiB, 'x'))};
  AttendPlan plan;
  plan.options.wire = std::make_unique<const v1::AttentionOptions>();
  plan.texts = std::make_shared<const std::vector<TokenizedText>>(texts);
  plan.output_shape = {0, 1};
  const AttendReply reply(plan);
  std::vector<TokenizedText> received(texts.size());
  int messages = 0;
  for (auto range = NextTokens(reply, {}); range.has_value(); range = NextTokens(reply, *range)) {
    const grpc::ByteBuffer bytes = EncodePart(reply, {.tokens = *range, .rows = {}, .scores = {}});
    const v1::TokensBlock block = Parse(bytes).tokens();
    EXPECT_LE(bytes.Length(), block.sequence() == 3 ? 2 * kMiB + 64 : kMiB);
    TokenizedText& text = received.at(block.sequence());
    EXPECT_EQ(block.first_token(), std::ssize(text.ids));
    text.ids.insert(text.ids.end(), block.tokens().ids().begin(), block.tokens().ids().end());
    text.tokens.insert(text.tokens.end(), block.tokens().tokens().begin(),
                       block.tokens().tokens().end());
    ++messages;
  }
  EXPECT_GT(messages, 5);
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_TRUE(received[i].ids == texts[i].ids && received[i].tokens == texts[i].tokens) << i;
  }
}

TEST(AttendReplyTest, RowsOfNoSequenceAreZeroHoweverManyThereAre) {
  constexpr int64_t kZeroRows = 5000;
  constexpr int64_t kWidth = 1001;  // rows do not begin where pages do
  AttendPlan plan;
  plan.options.wire = std::make_unique<const v1::AttentionOptions>();
  plan.output_shape = {kZeroRows, kWidth};
  plan.output_width = kWidth;
  plan.sequences = {{.query = {}, .key = {}, .output = {1, 1}},
                    {.query = {}, .key = {}, .output = {2503, 2}},
                    {.query = {}, .key = {}, .output = {4990, 1}}};
  for (int run = 0; run < 2; ++run) {  // the second may get the first one's memory
    AttendReply reply(plan);
    reply.Allocate();
    for (int64_t i = 0; i < 3; ++i) {
      std::fill_n(static_cast<float*>(reply.Output(i)), reply.OutputRows(i) * kWidth, 1.0f);
    }
    const grpc::Slice output = reply.OutputSlice();
    const auto* const values = reinterpret_cast<const float*>(output.begin());
    for (int64_t row = 0; row < kZeroRows; ++row) {
      const bool is_owned = row == 1 || row == 2503 || row == 2504 || row == 4990;
      const auto count =
          std::count(values + row * kWidth, values + (row + 1) * kWidth, is_owned ? 1.0f : 0.0f);
      ASSERT_EQ(count, kWidth) << row;
    }
    std::fill_n(static_cast<float*>(reply.Output(0)) - kWidth, kZeroRows * kWidth, 2.0f);
  }
}

}  // namespace
}  // namespace attention

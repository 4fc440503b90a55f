// How an answer that is too large for one message is cut.
#include "server/services/attend_reply.h"

#include <utility>

#include "gmock/gmock.h"

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
  for (auto range = reply.NextTokens({}); range.has_value(); range = reply.NextTokens(*range)) {
    const grpc::ByteBuffer bytes = reply.EncodePart({.tokens = *range, .rows = {}, .scores = {}});
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

}  // namespace
}  // namespace attention

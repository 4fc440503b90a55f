// The prefix cache where memory is short: what gives way, and that no answer is wrong for it.
#include <string>
#include <vector>

#include "server/sessions/session.h"
#include "tests/server/decode/decode_stream.h"
#include "tests/server/models/golden_server.h"
#include "tests/server/prefix_requests.h"
#include "tests/server/token_ids.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

TEST(PrefixMemoryTest, PrefixesGiveWayToSessions) {
  ServerOptions options = ServerOptionsFor(kCheckpoints);
  options.max_cache_bytes = 8 << 20;
  options.prefix_cache_bytes = 8 << 20;
  InProcessServer server(options);
  AttendClient client(server.NewChannel());
  for (int32_t seed = 1; seed < 30; ++seed) {
    v1::AttendResponse response;
    ASSERT_TRUE(client.Attend(PromptRequest("llama", MakePrompt(seed, 500)), &response).ok());
  }
  DecodeStream stream(server.NewChannel());
  stream.Must(OpenModel("llama"));
  for (int i = 0; i < 12; ++i) {
    stream.Must(TokensStep(MakePrompt(40 + i, 500)));
  }
}

/// One page of each of the model's two layers for three prompts, and one page more: a prompt that
/// continues the last one must evict another, after one of its layers has found room.
TEST(PrefixMemoryTest, APromptKeepsItsPrefixWhileOthersAreEvicted) {
  ServerOptions options = ServerOptionsFor(kCheckpoints);
  InProcessServer without(options);
  options.max_cache_bytes = options.prefix_cache_bytes = 1 << 20;
  InProcessServer with(options);
  AttendClient client(with.NewChannel());
  AttendClient expected_client(without.NewChannel());
  v1::AttendResponse response;
  for (int32_t seed = 1; seed <= 3; ++seed) {
    ASSERT_TRUE(client.Attend(PromptRequest("llama", MakePrompt(seed, 500)), &response).ok());
  }
  v1::DecodeRequest prompt = TokensStep(Join(MakePrompt(3, 500), {1, 2}));
  prompt.mutable_step()->set_top_logits(5);
  v1::DecodeRequest next = TokensStep({3});
  next.mutable_step()->set_top_logits(5);
  DecodeStream stream(with.NewChannel());
  DecodeStream expected_stream(without.NewChannel());
  stream.Must(OpenModel("llama"));
  expected_stream.Must(OpenModel("llama"));
  for (const v1::DecodeRequest& step : {prompt, next}) {
    const v1::DecodeResult result = stream.Must(step).result;
    const v1::DecodeResult expected = expected_stream.Must(step).result;
    EXPECT_EQ(result.length(), expected.length());
    EXPECT_EQ(result.top_logits().SerializeAsString(), expected.top_logits().SerializeAsString());
  }
  for (const Ids& ids : {Join(MakePrompt(3, 500), {9}), Join(MakePrompt(3, 500), {1, 2, 4})}) {
    v1::AttendResponse expected;
    ASSERT_TRUE(client.Attend(PromptRequest("llama", ids), &response).ok());
    ASSERT_TRUE(expected_client.Attend(PromptRequest("llama", ids), &expected).ok());
    EXPECT_TRUE(response.output().data() == expected.output().data());
  }
}

/// A prefix of three pages in each of the model's two layers, of seven in all, and a prompt of two
/// that has one token in common with it.
TEST(PrefixMemoryTest, ALongPrefixGivesWayToAPromptThatBeginsLikeIt) {
  ServerOptions options = ServerOptionsFor(kCheckpoints);
  options.max_cache_bytes = options.prefix_cache_bytes = 1 << 20;
  InProcessServer server(options);
  AttendClient client(server.NewChannel());
  v1::AttendResponse response;
  const Ids longest = MakePrompt(1, 1500);
  ASSERT_TRUE(client.Attend(PromptRequest("llama", longest), &response).ok());
  const Ids prompt = Join({longest[0], (longest[1] + 1) % kPromptVocabulary}, MakePrompt(2, 1000));
  DecodeStream stream(server.NewChannel());
  stream.Must(OpenModel("llama"));
  v1::DecodeRequest step = TokensStep(prompt);
  step.mutable_step()->set_top_logits(5);
  const v1::DecodeResult result = stream.Must(step).result;
  EXPECT_EQ(result.length(), std::ssize(prompt));
  InProcessServer without(ServerOptionsFor(kCheckpoints));
  DecodeStream expected(without.NewChannel());
  expected.Must(OpenModel("llama"));
  EXPECT_EQ(result.top_logits().SerializeAsString(),
            expected.Must(step).result.top_logits().SerializeAsString());
}

/// Of seven pages, two prefixes and a session take six. The prefixes are in use, so nothing can be
/// evicted for the pages in which they would grow.
TEST(PrefixMemoryTest, AStreamOfSequencesForgoesPrefixesThatCannotGrow) {
  ServerOptions options = ServerOptionsFor(kCheckpoints);
  InProcessServer without(options);
  options.max_cache_bytes = options.prefix_cache_bytes = 1 << 20;
  InProcessServer with(options);
  AttendClient client(with.NewChannel());
  AttendClient expected_client(without.NewChannel());
  v1::AttendResponse response;
  const Ids prefixes[] = {MakePrompt(1, 500), MakePrompt(2, 500)};
  for (const Ids& prefix : prefixes) {
    ASSERT_TRUE(client.Attend(PromptRequest("llama", prefix), &response).ok());
  }
  DecodeStream session(with.NewChannel());
  session.Must(OpenModel("llama"));
  session.Must(TokensStep({1, 2, 3}));
  v1::AttendRequest request =
      PromptRequest("llama", Join(Join(prefixes[0], {3}), Join(prefixes[1], {4, 5})));
  request.mutable_token_ids()->clear_lengths();
  for (const int64_t length : {501, 0, 502}) {
    request.mutable_token_ids()->add_lengths(length);
  }
  std::vector<v1::AttendStreamResponse> parts;
  const grpc::Status status = client.AttendStream(request, &parts);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(parts.back().summary().cached_tokens(), 0);
  v1::AttendResponse expected;
  ASSERT_TRUE(expected_client.Attend(request, &expected).ok());
  std::vector<std::string> rows(3);
  for (const v1::AttendStreamResponse& part : parts) {
    if (part.has_rows()) {
      rows[part.rows().sequence()] += part.rows().output().data();
    }
  }
  EXPECT_TRUE(rows[0] + rows[1] + rows[2] == expected.output().data());
  EXPECT_EQ(session.Must(TokensStep({4})).result.length(), 4);
}

/// Forks sequence 0 of a session until it is refused. Returns the number of forks.
int64_t ForkUntilRefused(DecodeStream& stream) {
  int64_t forks = 0;
  while (forks < Session::kMaxSequences - 1 && stream.Do(ForkTo(forks + 1)).result.code() == 0) {
    ++forks;
  }
  EXPECT_LT(forks, Session::kMaxSequences - 1);
  return forks;
}

TEST(PrefixMemoryTest, APromptNeedsNoPrefixWhereItsTablesHaveNoRoom) {
  ServerOptions options = ServerOptionsFor(kCheckpoints);
  options.max_cache_bytes = options.prefix_cache_bytes = 16 << 20;
  InProcessServer server(options);
  AttendClient client(server.NewChannel());
  v1::AttendResponse response;
  const Ids prefix = MakePrompt(1, 1000);
  ASSERT_TRUE(client.Attend(PromptRequest("llama", prefix), &response).ok());
  // Large tables leave room for less than 48 KiB, and empty ones for less than the prefix needs.
  constexpr int64_t kLargeHeads = 1024;
  DecodeStream large(server.NewChannel());
  large.Must(OpenHeads(kLargeHeads, kLargeHeads, 1));
  const Tensor row = SeededTensor(1, Dtype::kF32, {1, kLargeHeads, 1});
  v1::DecodeRequest step;
  *step.mutable_step()->mutable_query_key_value() = QkvRequest(row, row, row).query_key_value();
  large.Must(step);
  DecodeStream stream(server.NewChannel());
  stream.Must(OpenModel("llama"));
  const int64_t large_forks = ForkUntilRefused(large);
  ForkUntilRefused(stream);
  const DecodeAnswer without = stream.Must(TokensStep(Join(prefix, {1})));
  EXPECT_EQ(without.result.summary().cached_tokens(), 0);
  large.Must(Release(), large_forks);
  const DecodeAnswer with = stream.Must(TokensStep(Join(prefix, {1})), 1);
  EXPECT_EQ(with.result.summary().cached_tokens(), 1000);
  EXPECT_TRUE(with.rows == without.rows);
}

}  // namespace
}  // namespace attention

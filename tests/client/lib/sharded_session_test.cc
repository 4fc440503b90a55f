// A sequence over several real servers, against one session that holds all of it.
#include "client/lib/sharded_session.h"

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "client/lib/decode_stream.h"
#include "client/lib/shard_server.h"
#include "core/reference/reference.h"
#include "core/tensor/seeded.h"
#include "gmock/gmock.h"
#include "proto/attention/v1/attention.grpc.pb.h"
#include "tests/support/in_process_server.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace attention {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kPage = kShardPageTokens;
constexpr int64_t kShardedTokens = 5 * kPage + 300;
constexpr int64_t kQueryHeads = 4, kKeyHeads = 2, kKeyDim = 16, kValueDim = 8;

std::vector<double> DoubleValues(const Tensor& tensor) {
  return {tensor.as<float>(), tensor.as<float>() + tensor.num_elements()};
}

std::string BytesOf(const Tensor& tensor) { return {tensor.as<char>(), tensor.size_bytes()}; }

class ShardedSessionTest : public ::testing::Test {
 protected:
  ShardedSessionTest() {
    for (auto& server : servers_) {
      ServerOptions options;
      options.threads = 1;
      server = std::make_unique<InProcessServer>(options);
      addresses_.push_back(server->address());
    }
  }

  Shard ShardOf(size_t server, int64_t max_pages) const {
    return {{.server = addresses_[server]}, max_pages * kPage};
  }

  /// The last share is without a maximum.
  ShardedSessionOptions Options(int64_t first_pages, int64_t second_pages) const {
    ShardedSessionOptions options;
    options.shards = {ShardOf(0, first_pages), ShardOf(1, second_pages), ShardOf(2, 0)};
    options.heads.set_num_heads(kQueryHeads);
    options.heads.set_num_kv_heads(kKeyHeads);
    options.heads.set_head_dim(kKeyDim);
    options.heads.set_value_head_dim(kValueDim);
    options.timeout = absl::Minutes(2);
    return options;
  }

  static std::unique_ptr<ShardedSession> Open(const ShardedSessionOptions& options) {
    auto session = ShardedSession::Open(options);
    EXPECT_THAT(session, IsOk());
    return *std::move(session);
  }

  absl::StatusOr<AttendResult> Step(ShardedSession& session, int64_t count) const {
    const int64_t first = session.length();
    return session.Step(CopyRows(query_, first, count), CopyRows(key_, first, count),
                        CopyRows(value_, first, count));
  }

  absl::Status Append(ShardedSession& session, int64_t count) const {
    const int64_t first = session.length();
    return session.Append(CopyRows(key_, first, count), CopyRows(value_, first, count));
  }

  absl::Status AppendRange(ShardedSession& session, int64_t first, int64_t count,
                           size_t server) const {
    return session.AppendRange(first, CopyRows(key_, first, count), CopyRows(value_, first, count),
                               ShardOf(server, 0));
  }

  /// The rows from `first` on, of one session on one server.
  AttendResult Whole(const v1::AttentionOptions& options, int64_t first, int64_t count) const {
    v1::OpenSession open;
    *open.mutable_heads() = Options(0, 0).heads;
    *open.mutable_options() = options;
    open.mutable_options()->set_return_log_sum_exp(true);
    const auto stream = DecodeStream::Open(
        {.connection = {.server = addresses_[0]}, .timeout = absl::Minutes(2)}, open);
    EXPECT_THAT(stream, IsOk());
    const auto step = [&](int64_t from, int64_t rows, bool no_output) {
      const Tensor query = CopyRows(query_, from, rows), key = CopyRows(key_, from, rows),
                   value = CopyRows(value_, from, rows);
      auto result = (*stream)->Step(
          {.input = QueryKeyValueInput{&query, &key, &value}, .no_output = no_output});
      EXPECT_THAT(result, IsOk());
      return *std::move(result);
    };
    step(0, first, true);
    return step(first, count, false).answer;
  }

  int64_t CacheBytes(size_t server) const {
    const auto stub = v1::AttentionService::NewStub(servers_[server]->NewChannel());
    grpc::ClientContext context;
    v1::ServerStatistics statistics;
    EXPECT_TRUE(stub->GetStatistics(&context, v1::GetStatisticsRequest(), &statistics).ok());
    return statistics.cache_bytes();
  }

  std::unique_ptr<InProcessServer> servers_[3];
  std::vector<std::string> addresses_;
  const Tensor query_ = SeededTensor(1, Dtype::kF32, {kShardedTokens, kQueryHeads, kKeyDim});
  const Tensor key_ = SeededTensor(2, Dtype::kF32, {kShardedTokens, kKeyHeads, kKeyDim});
  const Tensor value_ = SeededTensor(3, Dtype::kF32, {kShardedTokens, kKeyHeads, kValueDim});
};

TEST_F(ShardedSessionTest, ThreeServersAnswerAsOneDoes) {
  v1::AttentionOptions plain, rotated, windowed;
  const float sinks[] = {0.5f, -1.0f, 3.0f, 0.0f}, slopes[] = {0.01f, 0.001f, 0.002f, 0.0f};
  plain.mutable_sinks()->Assign(sinks, sinks + kQueryHeads);
  rotated.mutable_rotary();
  rotated.mutable_key_norm();
  rotated.set_softcap(4);
  windowed.set_window(3000);
  windowed.mutable_alibi_slopes()->Assign(slopes, slopes + kQueryHeads);
  for (const v1::AttentionOptions& kind : {plain, rotated, windowed}) {
    ShardedSessionOptions options = Options(2, 2);
    options.options = kind;
    const auto session = Open(options);
    // The rows that are asked lie on both sides of the cut between the last two servers.
    ASSERT_THAT(Append(*session, 4 * kPage - 3), IsOk());
    const auto result = Step(*session, 9);
    ASSERT_THAT(result, IsOk());
    EXPECT_EQ(session->length(), 4 * kPage + 6);
    const AttendResult whole = Whole(kind, 4 * kPage - 3, 9);
    EXPECT_EQ(result->output.shape(), whole.output.shape());
    EXPECT_LE(reference::RelativeL2(DoubleValues(result->output), DoubleValues(whole.output)),
              reference::kAttentionToleranceF32);
    EXPECT_LE(reference::RelativeL2(DoubleValues(result->log_sum_exp[0]),
                                    DoubleValues(whole.log_sum_exp[0])),
              reference::kAttentionToleranceF32);
  }
}

TEST_F(ShardedSessionTest, BitsDependNeitherOnTheCutsNorOnTheSteps) {
  const auto even = Open(Options(2, 2)), uneven = Open(Options(1, 3)), one = Open(Options(0, 0));
  ASSERT_THAT(Append(*even, kShardedTokens - 5), IsOk());
  ASSERT_THAT(Append(*uneven, 100), IsOk());
  ASSERT_THAT(Append(*uneven, kShardedTokens - 105), IsOk());
  ASSERT_THAT(Append(*one, kShardedTokens - 5), IsOk());
  EXPECT_THAT(even->held(), ElementsAre(ShardRange{0, 2 * kPage, addresses_[0]},
                                        ShardRange{2 * kPage, 2 * kPage, addresses_[1]},
                                        ShardRange{4 * kPage, kPage + 295, addresses_[2]}));
  EXPECT_THAT(uneven->held(), ElementsAre(ShardRange{0, kPage, addresses_[0]},
                                          ShardRange{kPage, 3 * kPage, addresses_[1]},
                                          ShardRange{4 * kPage, kPage + 295, addresses_[2]}));
  EXPECT_THAT(one->held(), ElementsAre(ShardRange{0, kShardedTokens - 5, addresses_[0]}));
  const auto expected = Step(*even, 5);
  ASSERT_THAT(expected, IsOk());
  const auto other_cuts = Step(*uneven, 5);
  ASSERT_THAT(other_cuts, IsOk());
  EXPECT_EQ(BytesOf(other_cuts->output), BytesOf(expected->output));
  EXPECT_EQ(BytesOf(other_cuts->log_sum_exp[0]), BytesOf(expected->log_sum_exp[0]));
  std::string rows;
  for (const int64_t count : {1, 3, 1}) {
    const auto some = Step(*one, count);
    ASSERT_THAT(some, IsOk());
    rows += BytesOf(some->output);
  }
  EXPECT_EQ(rows, BytesOf(expected->output));
}

TEST_F(ShardedSessionTest, BitsOfSmallCachesDoNotDependOnTheCuts) {
  for (const v1::DataType cache_dtype : {v1::BF16, v1::INT8}) {
    const auto answer_of = [&](ShardedSessionOptions options) {
      options.cache_dtype = cache_dtype;
      const auto session = Open(options);
      EXPECT_THAT(Append(*session, kShardedTokens - 5), IsOk());
      return Step(*session, 5);
    };
    const auto even = answer_of(Options(2, 2)), uneven = answer_of(Options(1, 3)),
               one = answer_of(Options(0, 0));
    ASSERT_THAT(even, IsOk());
    ASSERT_THAT(uneven, IsOk());
    ASSERT_THAT(one, IsOk());
    EXPECT_TRUE(SameBits(even->output, uneven->output)) << v1::DataType_Name(cache_dtype);
    EXPECT_TRUE(SameBits(even->output, one->output)) << v1::DataType_Name(cache_dtype);
    EXPECT_TRUE(SameBits(even->log_sum_exp[0], uneven->log_sum_exp[0]));
    EXPECT_TRUE(SameBits(even->log_sum_exp[0], one->log_sum_exp[0]));
    const AttendResult whole = Whole({}, kShardedTokens - 5, 5);
    const double error =
        reference::RelativeL2(DoubleValues(even->output), DoubleValues(whole.output));
    EXPECT_GT(error, 0) << "the cache is not that of " << v1::DataType_Name(cache_dtype);
    EXPECT_LT(error, 0.05);
  }
}

TEST_F(ShardedSessionTest, BitsOfLongStepsAreThoseOfShortOnes) {
  const auto whole = Open(Options(1, 1)), parts = Open(Options(0, 0));
  const auto result = Step(*whole, 2 * kPage + 50);
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->log_sum_exp[0].shape(), (Shape{kQueryHeads, 2 * kPage + 50}));
  std::string rows;
  for (const int64_t count : {kPage / 2, kPage, kPage / 2 + 50}) {
    const auto some = Step(*parts, count);
    ASSERT_THAT(some, IsOk());
    rows += BytesOf(some->output);
    for (int64_t head = 0; head < kQueryHeads; ++head) {
      EXPECT_EQ(std::memcmp(some->log_sum_exp[0].as<float>() + head * count,
                            result->log_sum_exp[0].as<float>() + head * (2 * kPage + 50) +
                                parts->length() - count,
                            count * sizeof(float)),
                0);
    }
  }
  EXPECT_TRUE(rows == BytesOf(result->output));
}

// A call has more rows than a step on a server may have, on both sides of cuts.
TEST_F(ShardedSessionTest, RowsThatAreNotCausalAttendToAllKeysOfTheirCall) {
  v1::AttentionOptions plain, windowed;
  plain.set_causal(false);
  windowed.set_causal(false);
  windowed.set_window(30);
  windowed.set_window_right(2500);
  for (const v1::AttentionOptions& kind : {plain, windowed}) {
    ShardedSessionOptions options = Options(1, 1);
    options.options = kind;
    const auto session = Open(options);
    ASSERT_THAT(Append(*session, 100), IsOk());
    for (const int64_t rows : {kPage, kPage + 1, kPage + 1500}) {
      const int64_t first = session->length();
      const auto result = Step(*session, rows);
      ASSERT_THAT(result, IsOk());
      const AttendResult whole = Whole(kind, first, rows);
      EXPECT_EQ(result->output.shape(), whole.output.shape());
      EXPECT_LE(reference::RelativeL2(DoubleValues(result->output), DoubleValues(whole.output)),
                reference::kAttentionToleranceF32)
          << rows;
      EXPECT_LE(reference::RelativeL2(DoubleValues(result->log_sum_exp[0]),
                                      DoubleValues(whole.log_sum_exp[0])),
                reference::kAttentionToleranceF32)
          << rows;
    }
  }
}

TEST_F(ShardedSessionTest, NoStepIsLargerThanAServerTakes) {
  // 2,048 rows of query, key and value have 917,504 bytes, and their keys and values 393,216.
  ServerOptions small;
  small.threads = 1;
  small.max_message_bytes = 300'000;
  const InProcessServer server(small);
  ShardedSessionOptions options = Options(0, 0);
  options.shards = {{{.server = server.address()}, 0}};
  const auto cut = Open(options), whole = Open(Options(0, 0));
  for (ShardedSession* const session : {cut.get(), whole.get()}) {
    ASSERT_THAT(Append(*session, kPage + 100), IsOk());
  }
  const auto one = Step(*cut, kPage + 50), other = Step(*whole, kPage + 50);
  ASSERT_THAT(one, IsOk());
  ASSERT_THAT(other, IsOk());
  EXPECT_EQ(BytesOf(one->output), BytesOf(other->output));
  EXPECT_THAT(cut->missing(), IsEmpty());
}

TEST_F(ShardedSessionTest, EachServerHoldsItsShareOfTheMemory) {
  const auto session = Open(Options(1, 1));
  ASSERT_THAT(Append(*session, 3 * kPage), IsOk());
  constexpr int64_t kTokenBytes = kKeyHeads * (kKeyDim + kValueDim) * int64_t{sizeof(float)};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_GE(CacheBytes(i), kPage * kTokenBytes);
    EXPECT_LT(CacheBytes(i), 2 * kPage * kTokenBytes);
  }
}

TEST_F(ShardedSessionTest, LostTokensAreNamedAndBroughtBackElsewhere) {
  const auto session = Open(Options(2, 2)), other = Open(Options(1, 1));
  ASSERT_THAT(Append(*session, kShardedTokens - 5), IsOk());
  ASSERT_THAT(Append(*other, kShardedTokens - 5), IsOk());
  const auto expected = Step(*other, 5);
  ASSERT_THAT(expected, IsOk());
  servers_[1].reset();
  const auto lost = StatusIs(absl::StatusCode::kUnavailable,
                             HasSubstr("lost: tokens 4096 to 8191 of server " + addresses_[1]));
  EXPECT_THAT(Step(*session, 5), lost);
  EXPECT_THAT(Append(*session, 5), lost);
  EXPECT_EQ(session->length(), kShardedTokens - 5);
  EXPECT_THAT(session->missing(), ElementsAre(ShardRange{2 * kPage, 2 * kPage, addresses_[1]}));
  // A page comes back on either of the other servers.
  ASSERT_THAT(AppendRange(*session, 3 * kPage, kPage, 0), IsOk());
  EXPECT_THAT(session->missing(), ElementsAre(ShardRange{2 * kPage, kPage, addresses_[1]}));
  EXPECT_THAT(Step(*session, 5),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("tokens 4096 to 6143 of server")));
  ASSERT_THAT(AppendRange(*session, 2 * kPage, kPage, 2), IsOk());
  EXPECT_THAT(session->missing(), IsEmpty());
  const auto result = Step(*session, 5);
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(BytesOf(result->output), BytesOf(expected->output));
}

TEST_F(ShardedSessionTest, TheLastPageComesBackOnAServerThatWasNotAmongThem) {
  ShardedSessionOptions options = Options(3, 0);
  options.shards.pop_back();
  const auto session = Open(options), other = Open(Options(0, 0));
  ASSERT_THAT(Append(*session, 4 * kPage - 2), IsOk());
  ASSERT_THAT(Append(*other, 4 * kPage - 2), IsOk());
  servers_[1].reset();
  EXPECT_THAT(Step(*session, 5),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("tokens 6144 to 8189 of server")));
  EXPECT_EQ(session->length(), 4 * kPage - 2);
  ASSERT_THAT(AppendRange(*session, 3 * kPage, kPage - 2, 2), IsOk());
  EXPECT_THAT(session->held(), ElementsAre(ShardRange{0, 3 * kPage, addresses_[0]},
                                           ShardRange{3 * kPage, kPage - 2, addresses_[2]}));
  const auto result = Step(*session, 5), expected = Step(*other, 5);
  ASSERT_THAT(result, IsOk());
  ASSERT_THAT(expected, IsOk());
  EXPECT_EQ(BytesOf(result->output), BytesOf(expected->output));
}

TEST_F(ShardedSessionTest, FullSharesAreSaid) {
  ShardedSessionOptions options = Options(1, 1);
  options.shards.pop_back();
  const auto session = Open(options);
  ASSERT_THAT(Append(*session, 2 * kPage), IsOk());
  EXPECT_THAT(Step(*session, 1),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       "shards: expected room for token 4096, found all 2 servers full or lost"));
}

TEST_F(ShardedSessionTest, WhatAServerRefusesIsTakenBackEverywhere) {
  ServerOptions small;
  small.threads = 1;
  small.max_cache_bytes = int64_t{kPage} * kKeyHeads * (kKeyDim + kValueDim) * sizeof(float);
  servers_[1] = std::make_unique<InProcessServer>(small);
  addresses_[1] = servers_[1]->address();
  const auto session = Open(Options(1, 0)), other = Open(Options(0, 0));
  ASSERT_THAT(Append(*session, kPage - 1), IsOk());
  ASSERT_THAT(Append(*other, kPage - 1), IsOk());
  // The first server has room for its token of these, the second none for a whole page.
  EXPECT_THAT(Append(*session, kPage + 2),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("--max-cache-bytes")));
  EXPECT_EQ(session->length(), kPage - 1);
  const auto result = Step(*session, 3), expected = Step(*other, 3);
  ASSERT_THAT(result, IsOk());
  ASSERT_THAT(expected, IsOk());
  EXPECT_EQ(BytesOf(result->output), BytesOf(expected->output));
}

TEST_F(ShardedSessionTest, RefusesWhatDoesNotFit) {
  const auto wrong = [](const char* text) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text));
  };
  const auto session = Open(Options(1, 1));
  EXPECT_THAT(session->Step(CopyRows(query_, 0, 2), CopyRows(key_, 0, 3), CopyRows(value_, 0, 3)),
              wrong("query: expected [3, 4, 16], found [2, 4, 16]"));
  EXPECT_THAT(session->Append(CopyRows(key_, 0, 3), CopyRows(key_, 0, 3)),
              wrong("value: expected [3, 2, 8], found [3, 2, 16]"));
  EXPECT_THAT(session->Append(Tensor(Dtype::kF32, {0, kKeyHeads, kKeyDim}), value_),
              wrong("key: expected at least one token, found [0, 2, 16]"));
  ASSERT_THAT(Append(*session, 10), IsOk());
  EXPECT_THAT(AppendRange(*session, 0, 10, 1), wrong("found 10 tokens from 0 on"));
  EXPECT_THAT(AppendRange(*session, 3, 10, 1), wrong("found 10 tokens from 3 on"));

  const auto refused = [&](auto change) {
    ShardedSessionOptions options = Options(1, 1);
    change(options);
    return ShardedSession::Open(options);
  };
  EXPECT_THAT(refused([](auto& o) { o.shards.clear(); }), wrong("shards: expected at least one"));
  EXPECT_THAT(refused([](auto& o) { o.page_tokens = 1000; }),
              wrong("page_tokens: expected a multiple of 2048 from 2048 on, found 1000"));
  EXPECT_THAT(refused([](auto& o) { o.page_tokens = 2 * kPage; }),
              wrong("max_tokens: expected a multiple of 4096 from 0 on, found 2048"));
  EXPECT_THAT(refused([](auto& o) { o.options.set_return_weights(true); }),
              wrong("found return_weights"));
  EXPECT_THAT(refused([](auto& o) { o.options.set_weights_top_k(2); }),
              wrong("found weights_top_k"));
  EXPECT_THAT(refused([](auto& o) { o.options.set_similarity(v1::BOX); }),
              wrong("options.similarity: expected DOT_PRODUCT, found BOX"));
  EXPECT_THAT(refused([](auto& o) { o.options.add_sinks(1); }), wrong("4 heads, found 1"));
  EXPECT_THAT(refused([](auto& o) { o.options.set_prefix(1); }), wrong("options.prefix"));
}

}  // namespace
}  // namespace attention

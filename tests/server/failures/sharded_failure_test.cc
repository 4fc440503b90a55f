// Whatever allocation fails while a ShardedSession is asked, in the client or in a server: the call
// fails, its tokens are nowhere, and the next answer has the right bits.
#include <algorithm>
#include <memory>
#include <new>
#include <string>

#include "client/lib/sharded_session.h"
#include "core/tensor/seeded.h"
#include "gmock/gmock.h"
#include "tests/server/failures/injection.h"
#include "tests/support/in_process_server.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::AnyOf;

/// More rows than a step of a server has, so that some are added when a later part fails.
constexpr int64_t kRows = kShardPageTokens + 50;
constexpr int64_t kFirst = 10;

Tensor Rows(uint64_t seed, int64_t first, int64_t count) {
  const Tensor all = SeededTensor(seed, Dtype::kF32, {kFirst + kRows, 1, 16});
  Tensor rows(Dtype::kF32, {count, 1, 16});
  std::copy_n(all.as<float>() + first * 16, count * 16, rows.as<float>());
  return rows;
}

absl::StatusOr<std::string> BytesOf(const Tensor& tensor) {
  return std::string(static_cast<const char*>(tensor.data()), tensor.size_bytes());
}

class ShardedFailureTest : public ::testing::Test {
 protected:
  ShardedFailureTest() {
    SpareThisThread();
    options_.heads.set_num_heads(1);
    options_.heads.set_head_dim(16);
    options_.shards = {{{.server = one_.address()}, kShardPageTokens},
                       {{.server = other_.address()}, 0}};
    auto session = ShardedSession::Open(options_);
    EXPECT_THAT(session, IsOk());
    session_ = *std::move(session);
    EXPECT_THAT(session_->Append(Rows(2, 0, kFirst), Rows(3, 0, kFirst)), IsOk());
  }
  ~ShardedFailureTest() override { StopFailing(); }

  absl::StatusOr<std::string> Step() {
    const Tensor query = Rows(1, kFirst, kRows), key = Rows(2, kFirst, kRows),
                 value = Rows(3, kFirst, kRows);
    SpareThisThread(false);
    absl::StatusOr<AttendResult> result = absl::ResourceExhaustedError("std::bad_alloc");
    try {
      result = session_->Step(query, key, value);
    } catch (const std::bad_alloc&) {  // of the checks before, or of the text of an error
    }
    SpareThisThread();
    return result.ok() ? BytesOf(result->output) : result.status();
  }

  /// Sends the first tokens again if they are lost.
  void Mend() {
    for (const ShardRange& range : session_->missing()) {
      ASSERT_EQ(range.first, 0);
      ASSERT_EQ(range.count, kFirst);
      ASSERT_THAT(
          session_->AppendRange(0, Rows(2, 0, kFirst), Rows(3, 0, kFirst), options_.shards[0]),
          IsOk());
    }
  }

  InProcessServer one_, other_;
  ShardedSessionOptions options_;
  std::unique_ptr<ShardedSession> session_;
};

TEST_F(ShardedFailureTest, EachFailedAllocationOfAStepEndsThatStepAlone) {
  const absl::StatusOr<std::string> expected = Step();
  ASSERT_THAT(expected, IsOk());
  int64_t failed = 0;
  bool is_over = false;
  for (int64_t n = 1; !is_over; n += 1 + n / 8) {
    SCOPED_TRACE(n);
    auto session = ShardedSession::Open(options_);
    ASSERT_THAT(session, IsOk());
    session_ = *std::move(session);
    ASSERT_THAT(session_->Append(Rows(2, 0, kFirst), Rows(3, 0, kFirst)), IsOk());
    FailNth(Resource::kHeap, n);
    absl::StatusOr<std::string> answer = Step();
    is_over = !StopFailing();
    if (!answer.ok()) {
      ++failed;
      EXPECT_THAT(answer.status().code(),
                  AnyOf(absl::StatusCode::kResourceExhausted, absl::StatusCode::kUnavailable))
          << answer.status();
      ASSERT_EQ(session_->length(), kFirst);
      Mend();
      answer = Step();
      ASSERT_THAT(answer, IsOk());
    }
    ASSERT_TRUE(*answer == *expected) << "other bits";
  }
  EXPECT_GT(failed, 10);
}

}  // namespace
}  // namespace attention

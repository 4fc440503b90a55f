// Answers over parts of the keys, merged, against the answer over all of them, from the real
// server.
#include "client/lib/merge_answers.h"

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "client/lib/attention_client.h"
#include "core/reference/reference.h"
#include "core/tensor/seeded.h"
#include "gmock/gmock.h"
#include "tests/support/in_process_server.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kHeads = 4;
constexpr int64_t kKeys = 9;
constexpr int64_t kSplit = 4;  // keys of the first part

std::vector<double> DoublesOf(const Tensor& tensor) {
  const Tensor f32 = tensor.ConvertedTo(Dtype::kF32);
  return {f32.as<float>(), f32.as<float>() + f32.num_elements()};
}

class MergeAnswersTest : public ::testing::Test {
 protected:
  /// Rows [first, first + count) of keys or values [1, kKeys, ...].
  static Tensor Slice(const Tensor& tensor, int64_t first, int64_t count) {
    Shape shape = tensor.shape();
    const int64_t row_bytes = static_cast<int64_t>(tensor.size_bytes()) / shape[1];
    shape[1] = count;
    Tensor slice(tensor.dtype(), shape);
    std::memcpy(slice.data(), tensor.as<char>() + first * row_bytes, count * row_bytes);
    return slice;
  }

  /// The answer over keys [first, first + count), at the positions they have in the whole.
  AttendResult Part(int64_t first, int64_t count, v1::AttentionOptions options) {
    const Tensor key = Slice(key_, first, count), value = Slice(value_, first, count);
    AttendRequest request;
    request.input = QueryKeyValueInput{&query_, &key, &value, {5}, {}, {3 - first}};
    request.options = std::move(options);
    request.options.set_return_log_sum_exp(true);
    auto result = client_->Attend(request);
    EXPECT_THAT(result, IsOk());
    return *std::move(result);
  }

  InProcessServer server_;
  const std::unique_ptr<AttentionClient> client_ = *AttentionClient::Connect(
      {.connection = {.server = server_.address()}, .timeout = absl::Minutes(2)});
  // The sixth row is padding.
  Tensor query_ = SeededTensor(1, Dtype::kF32, {1, 6, kHeads, 16});
  Tensor key_ = SeededTensor(2, Dtype::kF32, {1, kKeys, 2, 16});
  Tensor value_ = SeededTensor(3, Dtype::kF32, {1, kKeys, 2, 8});
};

TEST_F(MergeAnswersTest, TwoPartsAreTheWhole) {
  v1::AttentionOptions plain, causal;
  causal.set_causal(true);
  causal.set_softcap(4);
  for (const v1::AttentionOptions& options : {plain, causal}) {
    const AttendResult whole = Part(0, kKeys, options);
    const AttendResult parts[] = {Part(0, kSplit, options), Part(kSplit, kKeys - kSplit, options)};
    const auto merged = MergeAnswers(parts);
    ASSERT_THAT(merged, IsOk());
    EXPECT_EQ(merged->output.shape(), whole.output.shape());
    EXPECT_LE(reference::RelativeL2(DoublesOf(merged->output), DoublesOf(whole.output)),
              reference::kAttentionToleranceF32);
    EXPECT_LE(
        reference::RelativeL2(DoublesOf(merged->log_sum_exp[0]), DoublesOf(whole.log_sum_exp[0])),
        reference::kAttentionToleranceF32);
  }
}

TEST_F(MergeAnswersTest, SinksAreAddedOnce) {
  const std::vector<float> sinks = {0.5f, -1.0f, 3.0f, 0.0f};
  v1::AttentionOptions options;
  options.mutable_sinks()->Assign(sinks.begin(), sinks.end());
  const AttendResult whole = Part(0, kKeys, options);
  const AttendResult parts[] = {Part(0, kSplit, {}), Part(kSplit, kKeys - kSplit, {})};
  const auto merged = MergeAnswers(parts, sinks);
  ASSERT_THAT(merged, IsOk());
  EXPECT_LE(reference::RelativeL2(DoublesOf(merged->output), DoublesOf(whole.output)),
            reference::kAttentionToleranceF32);
}

TEST_F(MergeAnswersTest, PackedSequencesAndLowPrecisionToo) {
  query_ = SeededTensor(4, Dtype::kBf16, {6, kHeads, 16});
  const auto ask = [&](const std::vector<int64_t>& kv_lengths, uint64_t seed) {
    const int64_t keys = kv_lengths[0] + kv_lengths[1];
    const Tensor key = SeededTensor(seed, Dtype::kBf16, {keys, 2, 16});
    const Tensor value = SeededTensor(seed + 1, Dtype::kBf16, {keys, 2, 8});
    AttendRequest request;
    request.input = QueryKeyValueInput{&query_, &key, &value, {2, 4}, kv_lengths, {}};
    request.options.set_return_log_sum_exp(true);
    return *client_->Attend(request);
  };
  const AttendResult whole = ask({3, 5}, 5);
  // A part without keys has no say.
  const AttendResult parts[] = {ask({0, 0}, 7), ask({3, 5}, 5)};
  const auto merged = MergeAnswers(parts);
  ASSERT_THAT(merged, IsOk());
  EXPECT_EQ(merged->output.dtype(), Dtype::kBf16);
  EXPECT_EQ(DoublesOf(merged->output), DoublesOf(whole.output));
  EXPECT_EQ(DoublesOf(merged->log_sum_exp[1]), DoublesOf(whole.log_sum_exp[1]));
}

TEST_F(MergeAnswersTest, SequencesBehindTheRowsOfPaddingToo) {
  query_ = SeededTensor(4, Dtype::kF32, {2, 6, kHeads, 16});
  key_ = SeededTensor(5, Dtype::kF32, {2, kKeys, 2, 16});
  value_ = SeededTensor(6, Dtype::kF32, {2, kKeys, 2, 8});
  const auto ask = [&](const std::vector<int64_t>& kv_lengths) {
    AttendRequest request;
    request.input = QueryKeyValueInput{&query_, &key_, &value_, {5, 6}, kv_lengths, {}};
    request.options.set_return_log_sum_exp(true);
    return *client_->Attend(request);
  };
  // The rows of the first part are all 0.
  const AttendResult parts[] = {ask({0, 0}), ask({kKeys, kKeys})};
  const auto merged = MergeAnswers(parts);
  ASSERT_THAT(merged, IsOk());
  EXPECT_EQ(DoublesOf(merged->output), DoublesOf(parts[1].output));
}

TEST_F(MergeAnswersTest, RefusesPartsThatDoNotFit) {
  const auto wrong = [](const char* text) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text));
  };
  EXPECT_THAT(MergeAnswers({}), wrong("expected at least one"));
  AttendResult parts[] = {Part(0, kSplit, {}), Part(kSplit, kKeys - kSplit, {})};
  EXPECT_THAT(MergeAnswers(parts, std::vector<float>(3)), wrong("4 heads, found 3"));
  parts[1].log_sum_exp[0] = Tensor(Dtype::kF32, {kHeads, 4});
  EXPECT_THAT(MergeAnswers(parts), wrong("part 1: log_sum_exp of sequence 0"));
  parts[1].log_sum_exp.clear();
  EXPECT_THAT(MergeAnswers(parts), wrong("part 1: log_sum_exp: expected one"));
  parts[1].output = Tensor(Dtype::kF32, {1, 6, kHeads, 9});
  EXPECT_THAT(MergeAnswers(parts), wrong("part 1: output: expected [1, 6, 4, 8]"));
}

}  // namespace
}  // namespace attention

// What others get while somebody sends what takes long.
#include <atomic>
#include <thread>
#include <vector>

#include "server/services/plan/row_lengths.h"
#include "tests/server/cost_server.h"
#include "tests/server/decode/decode_stream.h"
#include "tests/support/eventually.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using absl::StatusCode;

// Cutting it takes long, and then it is refused: its last word is beyond the model's vocabulary.
v1::TextInput LongText(int64_t words) {
  v1::TextInput input;
  std::string& text = *input.add_texts();
  for (int64_t i = 0; i < words; ++i) {
    text += "the ";
  }
  text += "beyond";
  return input;
}

v1::AttendRequest LongTextRequest(int64_t words) {
  v1::AttendRequest request;
  request.set_model("llama");
  *request.mutable_text() = LongText(words);
  return request;
}

/// What others get while something long goes on.
class HonestCallerTest : public CostServerTest {
 protected:
  /// The server has begun with it: memory is reserved.
  bool HasReserved() { return client_.Statistics().waiting_bytes() > 0; }
  int64_t NumBatches() { return client_.Statistics().batches(); }
  v1::AttendResponse Attend(const v1::AttendRequest& request) { return client_.Must(request); }

  AttendClient client_{server_->NewChannel()};
};

constexpr int64_t kManyWords = 700'000;

/// Returns whether `overtakes` returns true on one of ten attempts. A busy machine may run the
/// test's thread only when the long work is done; a server that makes others wait passes never.
template <typename Overtakes>
bool OnSomeAttempt(Overtakes overtakes) {
  for (int i = 0; i < 10; ++i) {
    if (overtakes()) {
      return true;
    }
  }
  return false;
}

TEST_F(HonestCallerTest, LongTextsKeepNobodyWaiting) {
  const Message message = Native(LongTextRequest(kManyWords));
  v1::AttendRequest texts;
  texts.set_model("bert");
  for (int i = 0; i < 2000; ++i) {
    texts.mutable_text()->add_texts("the cat sat");
  }
  EXPECT_TRUE(OnSomeAttempt([&] {
    std::atomic<int> finished = 0;
    std::vector<std::thread> callers;
    for (int i = 0; i < 5; ++i) {  // more than there are completion threads
      callers.emplace_back([&] {
        EXPECT_THAT(Call(message), StatusIs(StatusCode::kInvalidArgument,
                                            ::testing::HasSubstr("expected 0 to 46, found 47")));
        ++finished;
      });
    }
    EXPECT_TRUE(Eventually([&] { return finished > 0 || HasReserved(); }));
    Attend(DemoRequest(SeededTensor(1, Dtype::kF32, {2, kDemoWidth})));
    EXPECT_EQ(Attend(texts).tokens_size(), 2000);
    const bool all_came_later = finished == 0;
    for (std::thread& caller : callers) {
      caller.join();
    }
    return all_came_later;
  })) << "a short request, or texts of another connection, waited for a long text";
}

TEST_F(HonestCallerTest, APipelinedStepIsNotPlannedByTheDispatcher) {
  v1::DecodeRequest open, first, second;
  open.mutable_open()->set_model("llama");
  first.mutable_step()->mutable_token_ids()->add_ids(1);
  *second.mutable_step()->mutable_text() = LongText(kManyWords);
  EXPECT_TRUE(OnSomeAttempt([&] {
    DecodeStream stream(server_->NewChannel());
    stream.Must(open);
    std::atomic<bool> is_refused = false;
    std::thread caller([&] {
      stream.Send(first);
      stream.Send(second);
      EXPECT_EQ(stream.Read()->result.code(), 0);
      EXPECT_EQ(stream.Read()->code(), StatusCode::kInvalidArgument);
      is_refused = true;
    });
    EXPECT_TRUE(Eventually([&] { return is_refused || HasReserved(); }));
    Attend(DemoRequest(SeededTensor(1, Dtype::kF32, {2, kDemoWidth})));
    const bool came_later = !is_refused;
    caller.join();
    return came_later;
  })) << "a short request waited for a step's plan";
}

TEST_F(HonestCallerTest, ARequestPassesInFewBatchesWhileSmallMessagesOfLargeShapesCome) {
  const Message message = Native(AllLayers(Rows("gpt2", {kMaxSequences, 0, 36})));
  std::atomic<bool> is_over = false;
  std::vector<std::thread> callers;
  for (int i = 0; i < kAtOnce; ++i) {
    callers.emplace_back([&] {
      while (!is_over) {
        EXPECT_THAT(Call(message), IsOk());
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    const int64_t before = NumBatches();
    const v1::AttendResponse response =
        Attend(DemoRequest(SeededTensor(1, Dtype::kF32, {2, kDemoWidth})));
    EXPECT_LE(static_cast<int64_t>(response.summary().batch_id()), before + 2 * kAtOnce + 1);
  }
  is_over = true;
  for (std::thread& caller : callers) {
    caller.join();
  }
}

}  // namespace
}  // namespace attention

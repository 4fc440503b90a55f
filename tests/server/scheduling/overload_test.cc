// How much of what is computed ends in time when more comes than can be computed, by a clock that
// only jobs move.
#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/scheduling/executor.h"
#include "tests/server/scheduling/fake_job.h"
#include "tests/support/eventually.h"

namespace attention {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr int64_t kRows = 64;
constexpr nanoseconds kMeanTime = milliseconds(10);
constexpr nanoseconds kGap = milliseconds(3);
constexpr int kRequests = 3000;

// Requests that come at even distances, three times as many as can be computed. Each takes a time
// that differs from its estimate by up to two thirds; one in fifty stands still for 30 ms.
class OverloadTest : public ::testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  class Request final : public FakeRowsJob {
   public:
    Request(OverloadTest& test, const FakeJobSpec& spec, nanoseconds time)
        : FakeRowsJob(spec), test_(test), row_time_(time / kRows) {}

    // gRPC cancels a call at its deadline.
    bool is_cancelled() const override { return test_.Now() >= description().deadline; }
    // Others can pass a batch only where it has rows for a stream.
    void Prepare() override {
      FakeRowsJob::Prepare();
      if (!description().wants_rows) {
        OnRows({0, 0, kRows});
      }
    }
    void OnRows(const RowRange& rows) override {
      test_.now_ns_ += rows.rows * row_time_.count();
      test_.SubmitDue();
    }
    void Finish(const absl::Status& status, const BatchStats&) override {
      test_.in_time_ += status.ok() && test_.Now() <= description().deadline ? 1 : 0;
      ++test_.ended_;
    }

   private:
    OverloadTest& test_;
    const nanoseconds row_time_;
  };

  TimePoint Now() const { return TimePoint(nanoseconds(now_ns_)); }

  // Submits the requests that have come by now.
  void SubmitDue() {
    MutexLock lock(mutex_);
    for (; submitted_ < kRequests && kBegin + submitted_ * kGap <= Now(); ++submitted_) {
      FakeJobSpec spec = {.lengths = {kRows}, .flops = 2e9, .wants_rows = std::get<1>(GetParam())};
      spec.request_class.account = "all";
      spec.deadline = kBegin + submitted_ * kGap + milliseconds(std::get<0>(GetParam()));
      nanoseconds time = kMeanTime * (1 + submitted_ * 7 % 5) / 3;  // a third to five thirds
      if (submitted_ % 50 == 0) {
        time += milliseconds(30);
      }
      // What is refused at once costs nothing.
      ended_ += executor_.Submit(std::make_shared<Request>(*this, spec, time)).ok() ? 0 : 1;
    }
  }

  int NumSubmitted() {
    MutexLock lock(mutex_);
    return submitted_;
  }

  static constexpr TimePoint kBegin = TimePoint(std::chrono::hours(1));
  std::atomic<int64_t> now_ns_ = kBegin.time_since_epoch().count();
  std::atomic<int> in_time_ = 0;
  std::atomic<int> ended_ = 0;
  Mutex mutex_;
  int submitted_ ABSL_GUARDED_BY(mutex_) = 0;
  Executor executor_{{.num_threads = 2,
                      .queue = {.max_bytes = 1 << 30, .max_requests = 1 << 20},
                      .flops_per_ns = 100,
                      .clock = [this] { return Now(); }}};
};

TEST_P(OverloadTest, MostOfWhatIsComputedEndsInTime) {
  EXPECT_TRUE(Eventually([&] {
    if (ended_ == NumSubmitted()) {  // then nothing moves the clock
      now_ns_ += kGap.count();
      SubmitDue();
    }
    return ended_ == kRequests;
  }));
  const double capacity = nanoseconds(kRequests * kGap) / kMeanTime;
  EXPECT_GT(in_time_, 0.6 * capacity);
}

std::string NameOf(const ::testing::TestParamInfo<std::tuple<int, bool>>& test) {
  return absl::StrCat(std::get<0>(test.param), std::get<1>(test.param) ? "msStreamed" : "ms");
}

INSTANTIATE_TEST_SUITE_P(Deadlines, OverloadTest,
                         ::testing::Combine(::testing::Values(60, 100, 200, 1000, 5000),
                                            ::testing::Bool()),
                         NameOf);

}  // namespace
}  // namespace attention

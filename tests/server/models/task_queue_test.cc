#include "server/models/task_queue.h"

#include <vector>

#include "gmock/gmock.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::ElementsAre;

class TaskQueueTest : public ::testing::Test {
 protected:
  TaskQueue::Task Task(int number) {
    return [this, number](const absl::Status& status) {
      done_.push_back(number);
      statuses_.push_back(status.code());
    };
  }
  /// Runs what waits.
  void RunAll() {
    while (const auto task = queue_.Next(TimePoint::min())) {
      (*task)(absl::OkStatus());
    }
  }

  TaskQueue queue_{2};
  std::vector<int> done_;
  std::vector<absl::StatusCode> statuses_;
};

TEST_F(TaskQueueTest, RunsTasksInOrderUrgentOnesFirst) {
  queue_.Push(Task(1));
  queue_.Push(Task(2));
  queue_.PushUrgent(Task(3));
  RunAll();
  EXPECT_THAT(done_, ElementsAre(3, 1, 2));
}

TEST_F(TaskQueueTest, RunsUrgentTasksInTheMiddleOfAnother) {
  queue_.Push(Task(1));
  queue_.PushUrgent(Task(2));
  queue_.PushUrgent(Task(3));
  queue_.RunUrgent();
  EXPECT_THAT(done_, ElementsAre(2, 3));
  RunAll();
  EXPECT_THAT(done_, ElementsAre(2, 3, 1));
}

TEST_F(TaskQueueTest, RefusesMoreThanMayWait) {
  queue_.Push(Task(1));
  queue_.Push(Task(2));
  queue_.Push([](const absl::Status& status) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted,
                                 "the model loader is busy: at most 2 requests may wait for it"));
  });
  EXPECT_THAT(done_, ElementsAre());
}

TEST_F(TaskQueueTest, TellsThoseThatWaitAndThoseThatComeThatItClosed) {
  queue_.Push(Task(1));
  queue_.Close();
  queue_.Push(Task(2));
  queue_.PushUrgent(Task(3));
  EXPECT_THAT(done_, ElementsAre(1, 2, 3));
  EXPECT_THAT(statuses_, ::testing::Each(absl::StatusCode::kUnavailable));
  EXPECT_FALSE(queue_.Next(TimePoint::max()).has_value());
}

}  // namespace
}  // namespace attention

// A job that needs no server: attention without a model over seeded tensors.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/runtime/mutex.h"
#include "core/tensor/seeded.h"
#include "gtest/gtest.h"
#include "server/scheduling/job.h"
#include "server/scheduling/reply_budget.h"

namespace attention {

struct FakeJobSpec {
  std::vector<int64_t> lengths = {4};
  /// Of the key only: the job computes attention without a model.
  const Model* model = nullptr;
  int64_t num_heads = 2;
  uint64_t seed = 1;
  int64_t size_bytes = 100;
  int64_t reply_bytes = 0;
  double flops = 0;
  double attention_flops = 0;
  /// The rows that are multiplied with weights besides `lengths`.
  int64_t memory_rows = 0;
  int64_t cache_bytes = 0;
  /// Whether there is memory for them; otherwise the job needs none, after one failure.
  bool has_memory = true;
  RequestClass request_class = {};
  TimePoint arrival = {};
  TimePoint deadline = TimePoint::max();
  bool wants_rows = false;
};

class FakeJob final : public Job {
 public:
  static constexpr int64_t kHeadDim = 16;

  explicit FakeJob(const FakeJobSpec& spec)
      : Job(Describe(spec)),
        width_(spec.num_heads * kHeadDim),
        reply_bytes_(spec.reply_bytes),
        has_memory_(spec.has_memory),
        inputs_(SeededTensor(spec.seed, Dtype::kF32, {3, description().tokens, width_})) {}

  static std::shared_ptr<FakeJob> Make(const FakeJobSpec& spec = {}) {
    return std::make_shared<FakeJob>(spec);
  }

  bool is_cancelled() const override { return is_cancelled_; }
  int64_t reply_bytes() const override { return reply_bytes_; }
  void HoldReply(const std::shared_ptr<HeldReply>& part) override { part_ = part; }
  std::function<void()> GiveUpReply() override {
    return [given_up = given_up_] { *given_up = true; };
  }
  bool TakeMemory() override {
    description_to_change().cache_bytes *= has_memory_ ? 1 : 0;
    return std::exchange(has_memory_, true);
  }
  void Prepare() override { output_.assign(description().tokens * width_, -1.0f); }
  void Gather(Operand operand, const OperandRows& rows, Dtype dtype, void* target) override {
    ASSERT_EQ(dtype, Dtype::kF32);
    if (gather_failure_) {
      gather_failure_();
    }
    {
      MutexLock lock(mutex_);
      gathered_[static_cast<int>(operand)].push_back(rows);
    }
    const int64_t first = static_cast<int>(operand) * description().tokens + rows.first;
    std::memcpy(target, inputs_.as<float>() + first * width_, rows.count * width_ * sizeof(float));
  }
  void DropInputs() override { dropped_inputs_ = true; }
  void* Output(size_t sequence) override { return output_.data() + FirstRow(sequence) * width_; }
  ScoreOutputs Scores(size_t) override { return {}; }
  AttentionOptions Options(size_t) const override { return {}; }
  void OnRows(const RowRange& rows) override {
    EXPECT_FALSE(is_finished());
    announced_.push_back(rows);
    if (cancel_after_rows_) {
      is_cancelled_ = true;
    }
  }
  void Finish(const absl::Status& status, const BatchStats& stats) override {
    EXPECT_FALSE(is_finished()) << "finished twice";
    stats_ = stats;
    status_ = status;
    is_finished_ = true;
  }

  /// Returns the rows of each call of Gather, in the order of the rows.
  std::vector<OperandRows> GatheredRows(Operand operand) const {
    MutexLock lock(mutex_);
    std::vector<OperandRows> rows = gathered_[static_cast<int>(operand)];
    std::sort(rows.begin(), rows.end(),
              [](const OperandRows& a, const OperandRows& b) { return a.first < b.first; });
    return rows;
  }
  /// Calls `failure`, which may throw, where the job's rows are copied into the batch.
  void FailGathering(std::function<void()> failure) { gather_failure_ = std::move(failure); }
  void Cancel() { is_cancelled_ = true; }
  void CancelAfterRows() { cancel_after_rows_ = true; }

  bool is_given_up() const { return *given_up_; }
  void SetReplyComputed(TimePoint now) { part_->SetComputed(now); }

  bool is_finished() const { return is_finished_; }
  /// The following REQUIRE: is_finished().
  const absl::Status& status() const { return *status_; }
  const BatchStats& stats() const { return stats_; }
  const std::vector<float>& output() const { return output_; }
  const std::vector<RowRange>& announced() const { return announced_; }
  bool dropped_inputs() const { return dropped_inputs_; }

 private:
  static JobDescription Describe(const FakeJobSpec& spec) {
    JobDescription description;
    description.key = {.model = spec.model,
                       .has_memory = true,
                       .num_heads = spec.num_heads,
                       .num_kv_heads = spec.num_heads,
                       .head_dim = kHeadDim,
                       .value_head_dim = kHeadDim,
                       .dtype = Dtype::kF32};
    for (const int64_t length : spec.lengths) {
      description.sequences.push_back({length, length});
      description.tokens += length;
    }
    description.size_bytes = spec.size_bytes;
    description.flops = spec.flops;
    description.attention_flops = spec.attention_flops;
    description.weight_rows = spec.memory_rows + description.tokens;
    description.cache_bytes = spec.cache_bytes;
    description.request_class = spec.request_class;
    description.arrival = spec.arrival;
    description.deadline = spec.deadline;
    description.output_width = spec.num_heads * kHeadDim;
    description.wants_rows = spec.wants_rows;
    return description;
  }

  int64_t FirstRow(size_t sequence) const {
    int64_t row = 0;
    for (size_t i = 0; i < sequence; ++i) {
      row += description().sequences[i].query_len;
    }
    return row;
  }

  const int64_t width_;
  const int64_t reply_bytes_;
  bool has_memory_;
  std::shared_ptr<HeldReply> part_;
  const std::shared_ptr<std::atomic<bool>> given_up_ = std::make_shared<std::atomic<bool>>(false);
  const Tensor inputs_;
  std::vector<float> output_;
  std::vector<RowRange> announced_;
  std::optional<absl::Status> status_;
  BatchStats stats_;
  bool dropped_inputs_ = false;
  std::function<void()> gather_failure_;
  mutable Mutex mutex_;
  std::array<std::vector<OperandRows>, 3> gathered_ ABSL_GUARDED_BY(mutex_);
  bool cancel_after_rows_ = false;
  std::atomic<bool> is_finished_ = false;
  std::atomic<bool> is_cancelled_ = false;
};

/// The rows of a FakeJob, for jobs that do something else when they are announced or finished.
class FakeRowsJob : public Job {
 public:
  explicit FakeRowsJob(const FakeJobSpec& spec) : Job(FakeJob(spec).description()), job_(spec) {}

  bool is_cancelled() const override { return false; }
  void Prepare() override { job_.Prepare(); }
  void Gather(Operand operand, const OperandRows& rows, Dtype dtype, void* target) override {
    job_.Gather(operand, rows, dtype, target);
  }
  void DropInputs() override {}
  void* Output(size_t sequence) override { return job_.Output(sequence); }
  ScoreOutputs Scores(size_t) override { return {}; }
  AttentionOptions Options(size_t) const override { return {}; }

  const std::vector<float>& output() const { return job_.output(); }

 private:
  FakeJob job_;
};

}  // namespace attention

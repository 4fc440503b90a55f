// The scheduler's job of an admitted request.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "server/scheduling/job.h"
#include "server/services/plan/attend_plan.h"
#include "server/services/reply/attend_reply.h"
#include "server/services/reply/prefix_rows.h"

namespace attention {

/// The call that waits for a job. Its methods are those of Job with the same names, with sequences
/// counted as in the request.
class AttendSink {
 public:
  virtual ~AttendSink() = default;
  virtual bool is_cancelled() const = 0;
  virtual void OnRows(const std::shared_ptr<const AttendReply>& reply, const RowRange& rows) = 0;
  virtual void Finish(const std::shared_ptr<const AttendReply>& reply, const absl::Status& status,
                      const BatchStats& stats) = 0;
  /// Returns the function for Job::GiveUpReply, which may be called after the sink's end.
  virtual std::function<void()> GiveUp() = 0;
};

/// The properties of a call that its job needs.
struct JobOrigin {
  int64_t size_bytes = 0;  // of the message
  RequestClass request_class;
  TimePoint arrival;  // JobDescription::arrival
  TimePoint deadline = TimePoint::max();
  bool wants_rows = false;
};

class AttendJob final : public Job {
 public:
  AttendJob(AttendPlan plan, const JobOrigin& origin, std::shared_ptr<AttendSink> sink);

  bool is_cancelled() const override { return sink_->is_cancelled(); }
  int64_t reply_bytes() const override { return reply_->size_bytes(); }
  void HoldReply(const std::shared_ptr<HeldReply>& held) override { reply_->Hold(held); }
  std::function<void()> GiveUpReply() override { return sink_->GiveUp(); }
  bool TakeMemory() override;
  void Prepare() override;
  void Gather(Operand operand, const OperandRows& rows, Dtype dtype, void* target) override;
  void DropInputs() override;
  void* Output(size_t sequence) override { return reply_->Output(planned_[sequence]); }
  ScoreOutputs Scores(size_t sequence) override { return reply_->Scores(planned_[sequence]); }
  EarlierRows Earlier(size_t sequence) override { return prefix_rows_.Of(planned_[sequence]); }
  AttentionOptions Options(size_t sequence) const override;
  void OnRows(const RowRange& rows) override;
  void Finish(const absl::Status& status, const BatchStats& stats) override;

 private:
  /// Returns the rows that sequence `index` of the request has in the operand's tensor, or in the
  /// token ids.
  SequenceRows RowsOf(int64_t index, Operand operand) const;
  /// Writes embedded tokens of sequence `index`; `rows` are counted from its first one.
  void Embed(int64_t index, const OperandRows& rows, Dtype dtype, void* target) const;
  int64_t WidthOf(Operand operand) const;

  AttendPlan plan_;
  std::vector<int64_t> planned_;  // the index in the request of each sequence to compute
  PrefixRows prefix_rows_;
  const std::shared_ptr<AttendReply> reply_;
  const std::shared_ptr<AttendSink> sink_;
};

}  // namespace attention

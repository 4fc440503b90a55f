#include "server/services/reply/attend_job.h"

#include <algorithm>
#include <utility>

#include "core/runtime/contain.h"
#include "server/services/plan/plan_prefix.h"
#include "server/services/reply/job_cost.h"

namespace attention {
namespace {

// Returns the pages that a sequence takes when it runs: those of its tokens, but for the full pages
// of its prefix.
int64_t CacheBytesOf(const AttendPlan& plan, int64_t index) {
  const PlannedPrefix& prefix = plan.prefix;
  const int64_t taken = plan.TakenOf(index);
  if (taken == 0 || plan.caches != nullptr) {
    return 0;
  }
  const int64_t shared = taken - taken % prefix.shapes.front().page_tokens;
  return prefix.CacheBytes(plan.sequences[index].query.rows) - prefix.CacheBytes(shared);
}

// Describes what there is to compute.
void DescribeWork(AttendPlan& plan, JobDescription& description) {
  description.sequences.clear();
  description.tokens = description.cache_bytes = 0;
  for (int64_t i = 0; i < std::ssize(plan.sequences); ++i) {
    const PlannedSequence& sequence = plan.sequences[i];
    const int64_t taken = plan.TakenOf(i);
    if (plan.HasWork(sequence)) {
      description.sequences.push_back(
          {sequence.query.rows - taken, sequence.key.rows - taken, plan.CachesOf(i)});
      description.tokens += sequence.query.rows - taken;
      description.cache_bytes += CacheBytesOf(plan, i);
    }
  }
  description.flops = FlopsOf(plan, description);
  description.attention_flops = AttentionFlopsOf(plan, description);
  description.weight_rows = WeightRowsOf(plan, description);
}

JobDescription Describe(AttendPlan& plan, const JobOrigin& origin) {
  JobDescription description;
  description.key = plan.key;
  DescribeWork(plan, description);
  description.size_bytes = origin.size_bytes + plan.extra_bytes + PlannedBytes(plan);
  description.request_class = origin.request_class;
  description.arrival = origin.arrival;
  description.deadline = origin.deadline;
  description.output_dtype = plan.output_dtype;
  description.output_width = plan.output_width;
  description.wanted = plan.wanted;
  description.wants_rows = origin.wants_rows;
  return description;
}

}  // namespace

AttendJob::AttendJob(AttendPlan plan, const JobOrigin& origin, std::shared_ptr<AttendSink> sink)
    : Job(Describe(plan, origin)),
      plan_(std::move(plan)),
      reply_(std::make_shared<AttendReply>(plan_)),
      sink_(std::move(sink)) {
  for (int64_t i = 0; i < std::ssize(plan_.sequences); ++i) {
    if (plan_.HasWork(plan_.sequences[i])) {
      planned_.push_back(i);
    }
  }
}

int64_t AttendJob::WidthOf(Operand operand) const {
  const Shape& shape = plan_.operands[static_cast<int>(operand)].shape;
  return plan_.model != nullptr ? shape.back() : shape.back() * shape[shape.size() - 2];
}

SequenceRows AttendJob::RowsOf(int64_t index, Operand operand) const {
  const PlannedSequence& sequence = plan_.sequences[index];
  SequenceRows rows = operand == Operand::kQuery ? sequence.query : sequence.key;
  if (plan_.is_token_request) {
    rows.first_row += plan_.TakenOf(index);
    rows.rows -= plan_.TakenOf(index);
  }
  return rows;
}

void AttendJob::Gather(Operand operand, const OperandRows& rows, Dtype dtype, void* target) {
  const ReceivedTensor& tensor = plan_.operands[static_cast<int>(operand)];
  const int64_t width = plan_.is_token_request ? plan_.model->info().d_model : WidthOf(operand);
  int64_t row = 0;  // the first one of the sequence
  for (const int64_t i : planned_) {
    const SequenceRows sequence = RowsOf(i, operand);
    const int64_t first = std::max(rows.first, row);
    const int64_t count = std::min(rows.first + rows.count, row + sequence.rows) - first;
    const int64_t before = first - row;
    row += sequence.rows;
    if (count <= 0) {
      continue;
    }
    if (plan_.is_token_request) {
      Embed(i, {before, count}, dtype, target);
    } else {
      tensor.payload.ConvertTo(tensor.dtype, {(sequence.first_row + before) * width, count * width},
                               dtype, target);
    }
    target = ElementAt(target, dtype, count * width);
  }
}

void AttendJob::Embed(int64_t index, const OperandRows& rows, Dtype dtype, void* target) const {
  const SequenceRows all = RowsOf(index, Operand::kQuery);
  TokenSequence tokens;
  tokens.first_position = plan_.cached_len + plan_.TakenOf(index);
  tokens.ids = std::span<const int32_t>(plan_.ids).subspan(all.first_row, all.rows);
  if (!plan_.type_ids.empty()) {
    tokens.type_ids = std::span<const int32_t>(plan_.type_ids).subspan(all.first_row, all.rows);
  }
  if (dtype == Dtype::kF32) {
    plan_.model->EmbedRows(tokens, rows.first, rows.count, static_cast<float*>(target));
    return;
  }
  std::vector<float> embedded(rows.count * plan_.model->info().d_model);
  plan_.model->EmbedRows(tokens, rows.first, rows.count, embedded.data());
  Convert(Dtype::kF32, embedded.data(), dtype, target, std::ssize(embedded));
}

void AttendJob::DropInputs() {
  for (ReceivedTensor& operand : plan_.operands) {
    operand.payload = Payload();
  }
  plan_.texts.reset();  // the reply has them
  if (plan_.prefix.table == nullptr) {
    plan_.ids = {};
  }
  plan_.type_ids = {};
  KeepScoreTensors(plan_.options);
}

AttentionOptions AttendJob::Options(size_t sequence) const {
  const int64_t index = planned_[sequence];
  const PlannedSequence& planned = plan_.sequences[index];
  const int64_t kv_len = plan_.cached_len + planned.key.rows;
  AttentionOptions options = OptionsOfSequence(plan_.options, index, kv_len);
  options.query_offset = planned.query_offset;
  return plan_.model == nullptr ? options
                                : plan_.model->LayerOptions(plan_.key.layer, options, kv_len);
}

bool AttendJob::TakeMemory() {
  bool is_taken = false;
  ContainVoid("taking a prefix", [&] { is_taken = TakePages(plan_); }).IgnoreError();
  if (!is_taken) {
    ForgoPrefixes(plan_);
    DescribeWork(plan_, description_to_change());  // in the memory that it has
  }
  return is_taken;
}

void AttendJob::Prepare() {
  reply_->Allocate();
  prefix_rows_.Prepare(plan_);
}

// Tokens are kept before the answer is sent, so that the caller's next request finds them.
void AttendJob::Finish(const absl::Status& status, const BatchStats& stats) {
  BatchStats all = stats;
  if (status.ok()) {
    ContainVoid("keeping a prefix", [&] { prefix_rows_.Keep(plan_); }).IgnoreError();
    SetCached(plan_, all);
  }
  ForgoPrefixes(plan_);  // before the answer: the caller's next step may need their room
  reply_->SetComputed();
  sink_->Finish(reply_, status, all);
}

void AttendJob::OnRows(const RowRange& rows) {
  sink_->OnRows(reply_, {planned_[rows.sequence], rows.first_row, rows.rows});
}

}  // namespace attention

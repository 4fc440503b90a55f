#include "server/services/reply/attend_job.h"

#include <algorithm>
#include <utility>

#include "core/runtime/contain.h"
#include "server/services/plan/plan_prefix.h"

namespace attention {
namespace {

// The memory of each sequence, with or without rows, in plan, description, job and reply.
constexpr int64_t kSequenceBytes =
    sizeof(PlannedSequence) + sizeof(JobSequence) + sizeof(int64_t) + sizeof(SequenceRows);
// The memory of a text besides its tokens.
constexpr int64_t kTextBytes = sizeof(TokenizedText);

// Returns the memory of what the sequences take from the prefix cache, besides pages, and of the
// hidden states that PrefixRows takes from it and gives to it.
int64_t PrefixBytes(const AttendPlan& plan) {
  return plan.prefix.table == nullptr
             ? 0
             : std::ssize(plan.sequences) * plan.prefix.BytesPerSequence() +
                   std::ssize(plan.ids) * plan.model->info().d_model * int64_t{sizeof(float)};
}

// Returns the memory of the plan besides the request's own bytes.
int64_t PlannedBytes(const AttendPlan& plan) {
  int64_t bytes =
      std::ssize(plan.sequences) * kSequenceBytes + PrefixBytes(plan) +
      plan.NumTables() * static_cast<int64_t>(sizeof(ScoreTable)) + SizeOfLists(plan.options) +
      (std::ssize(plan.ids) + std::ssize(plan.type_ids)) * static_cast<int64_t>(sizeof(int32_t));
  for (size_t i = 0; plan.texts != nullptr && i < plan.texts->size(); ++i) {
    bytes += kTextBytes + std::ssize((*plan.texts)[i].ids) * kTextTokenBytes;
  }
  return bytes;
}

// Returns the number of keys that the rows of the sequence attend to, over all rows.
double AttendedPairs(const AttendPlan& plan, int64_t index) {
  const PlannedSequence& sequence = plan.sequences[index];
  const auto rows = static_cast<double>(sequence.query.rows - plan.TakenOf(index));
  const auto keys = static_cast<double>(plan.cached_len + sequence.key.rows);
  return plan.options.shared.causal ? rows * (keys - std::min(rows, keys) / 2) : rows * keys;
}

int64_t MemoryRows(const JobDescription& description) {
  int64_t rows = 0;
  for (const JobSequence& sequence : description.sequences) {
    rows += sequence.kv_len;
  }
  return rows;
}

int64_t LogitRows(const AttendPlan& plan, const JobDescription& description) {
  return plan.wanted == ModelOutput::kLogits       ? description.tokens + CachedTokens(plan)
         : plan.wanted == ModelOutput::kLastLogits ? std::ssize(description.sequences)
                                                   : 0;
}

double FlopsOf(const AttendPlan& plan, const JobDescription& description) {
  double pairs = 0;
  for (int64_t i = 0; i < std::ssize(plan.sequences); ++i) {
    pairs += AttendedPairs(plan, i);
  }
  const BatchKey& key = plan.key;
  if (plan.model != nullptr) {
    const int64_t memory_rows = key.has_memory ? MemoryRows(description) : 0;
    return key.is_stack()
               ? plan.model->Flops(description.tokens, pairs, LogitRows(plan, description),
                                   memory_rows)
               : plan.model->layer(key.layer).Flops(description.tokens, pairs, memory_rows);
  }
  return 2.0 * static_cast<double>(key.num_heads * (key.head_dim + key.value_head_dim)) * pairs;
}

// Returns whether there is anything to do for the sequence: rows to compute, or keys to cache.
bool HasWork(const AttendPlan& plan, const PlannedSequence& sequence) {
  return sequence.query.rows > 0 || (plan.caches != nullptr && sequence.key.rows > 0);
}

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
    if (HasWork(plan, sequence)) {
      description.sequences.push_back(
          {sequence.query.rows - taken, sequence.key.rows - taken, plan.CachesOf(i)});
      description.tokens += sequence.query.rows - taken;
      description.cache_bytes += CacheBytesOf(plan, i);
    }
  }
  description.flops = FlopsOf(plan, description);
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
    if (HasWork(plan_, plan_.sequences[i])) {
      planned_.push_back(i);
    }
  }
}

int64_t AttendJob::WidthOf(Operand operand) const {
  const Shape& shape = plan_.operands[static_cast<int>(operand)].shape;
  return plan_.model != nullptr ? shape.back() : shape.back() * shape[shape.size() - 2];
}

void AttendJob::Gather(Operand operand, Dtype dtype, void* target) {
  if (plan_.is_token_request) {
    Embed(dtype, target);
    return;
  }
  const ReceivedTensor& tensor = plan_.operands[static_cast<int>(operand)];
  const int64_t width = WidthOf(operand);
  for (const int64_t i : planned_) {
    const PlannedSequence& sequence = plan_.sequences[i];
    const SequenceRows& rows = operand == Operand::kQuery ? sequence.query : sequence.key;
    tensor.payload.ConvertTo(tensor.dtype, {rows.first_row * width, rows.rows * width}, dtype,
                             target);
    target = ElementAt(target, dtype, rows.rows * width);
  }
}

void AttendJob::Embed(Dtype dtype, void* target) const {
  for (const int64_t i : planned_) {
    const int64_t taken = plan_.TakenOf(i);
    const SequenceRows& all = plan_.sequences[i].query;
    const SequenceRows rows = {all.first_row + taken, all.rows - taken};
    TokenSequence tokens;
    tokens.first_position = plan_.cached_len + taken;
    tokens.ids = std::span<const int32_t>(plan_.ids).subspan(rows.first_row, rows.rows);
    if (!plan_.type_ids.empty()) {
      tokens.type_ids = std::span<const int32_t>(plan_.type_ids).subspan(rows.first_row, rows.rows);
    }
    const int64_t elements = rows.rows * plan_.model->info().d_model;
    if (dtype == Dtype::kF32) {
      plan_.model->Embed(tokens, static_cast<float*>(target));
    } else {
      std::vector<float> embedded(elements);
      plan_.model->Embed(tokens, embedded.data());
      Convert(Dtype::kF32, embedded.data(), dtype, target, elements);
    }
    target = ElementAt(target, dtype, elements);
  }
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
  reply_->SetComputed();
  sink_->Finish(reply_, status, all);
}

void AttendJob::OnRows(const RowRange& rows) {
  sink_->OnRows(reply_, {planned_[rows.sequence], rows.first_row, rows.rows});
}

}  // namespace attention

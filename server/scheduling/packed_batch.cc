#include "server/scheduling/packed_batch.h"

#include <algorithm>

#include "core/attention/attention.h"
#include "core/layers/multi_head_attention.h"
#include "core/runtime/round_up.h"
#include "core/runtime/slices.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

constexpr BufferName kOperands{"operands of a batch"};

// The minimum size of a parallel copy. Below it, waking the other threads costs more than they
// copy.
constexpr size_t kMinParallelBytes = 256 * 1024;

// A thread has several copies, so that one that begins late leaves some to the others.
constexpr int kCopiesPerThread = 4;
constexpr int64_t kMinCopyBytes = 64 * 1024;

std::span<KvCache> CachesOf(const JobSequence& sequence) {
  return sequence.caches != nullptr ? std::span<KvCache>(*sequence.caches) : std::span<KvCache>();
}

}  // namespace

PackedBatch::PackedBatch(const Batch& batch, Workspace& workspace)
    : workspace_(workspace), key_(batch.jobs.front()->description().key) {
  LayOut(batch);
  Gather();
  for (const std::shared_ptr<Job>& job : batch.jobs) {
    job->DropInputs();
    job->Prepare();
  }
}

void PackedBatch::LayOut(const Batch& batch) {
  sequences_.reserve(static_cast<size_t>(batch.sequences));
  for (const std::shared_ptr<Job>& job : batch.jobs) {
    int64_t index = 0;
    for (const JobSequence& sequence : job->description().sequences) {
      sequences_.push_back({job.get(), index++, num_rows_, num_keys_});
      num_rows_ += sequence.query_len;
      num_keys_ += key_.has_memory ? sequence.kv_len : 0;
    }
  }
  ChooseOperands();
}

void PackedBatch::ChooseOperands() {
  num_operands_ = key_.has_memory ? 2 : 1;
  if (key_.model == nullptr) {
    num_operands_ = 3;
    operands_[0] = {nullptr, key_.dtype, key_.num_heads * key_.head_dim};
    operands_[1] = {nullptr, key_.dtype, key_.num_kv_heads * key_.head_dim};
    operands_[2] = {nullptr, key_.dtype, key_.num_kv_heads * key_.value_head_dim};
  } else if (key_.is_stack()) {
    operands_[0] = operands_[1] = {nullptr, Dtype::kF32, key_.model->info().d_model};
  } else {
    const MultiHeadAttention& layer = key_.model->layer(key_.layer);
    operands_[0] = {nullptr, layer.dtype(), layer.shape().d_model};
    operands_[1] = {nullptr, layer.dtype(), layer.shape().d_memory};
    operands_[2] = {nullptr, layer.dtype(), layer.shape().d_memory_value};
    num_operands_ = layer.shape().has_memory_values() ? 3 : num_operands_;
  }
}

void PackedBatch::ReserveOperands() {
  size_t offsets[3] = {};
  for (int i = 0; i < num_operands_; ++i) {
    const int64_t elements = (i == 0 ? num_rows_ : num_keys_) * operands_[i].width;
    offsets[i] = input_bytes_;
    input_bytes_ += RoundUpToLine(static_cast<size_t>(elements) * SizeOf(operands_[i].dtype));
  }
  std::byte* buffer = workspace_.Buffer(kOperands, input_bytes_);
  for (int i = 0; i < num_operands_; ++i) {
    operands_[i].data = buffer + offsets[i];
  }
}

// The rows of one operand of a job that one thread copies.
struct PackedBatch::Copy {
  Job* job;
  Operand operand;
  OperandRows rows;
  void* target;
};

void PackedBatch::AddCopies(const Sequence& first, const Sequence* next, int64_t most_bytes,
                            std::vector<Copy>& copies) const {
  for (int i = 0; i < num_operands_; ++i) {
    const Rows& operand = operands_[i];
    const int64_t begin = i == 0 ? first.first_row : first.first_key;
    const int64_t all = i == 0 ? num_rows_ : num_keys_;
    const int64_t next_begin = next == nullptr ? all : i == 0 ? next->first_row : next->first_key;
    const int64_t row_bytes = operand.width * static_cast<int64_t>(SizeOf(operand.dtype));
    const int64_t most_rows = std::max<int64_t>(1, most_bytes / row_bytes);
    for (int64_t row = begin; row < next_begin; row += most_rows) {
      copies.push_back({first.job,
                        static_cast<Operand>(i),
                        {row - begin, std::min(most_rows, next_begin - row)},
                        operand.data + row * row_bytes});
    }
  }
}

void PackedBatch::Gather() {
  ReserveOperands();
  const int threads = workspace_.pool().num_threads();
  const bool is_parallel = threads > 1 && input_bytes_ >= kMinParallelBytes;
  const auto bytes = static_cast<int64_t>(input_bytes_);
  const int64_t most_bytes =
      is_parallel ? std::max(kMinCopyBytes, bytes / (kCopiesPerThread * threads)) : bytes;
  std::vector<Copy> copies;
  copies.reserve(sequences_.size() * num_operands_);
  for (size_t i = 0, end = 0; i < sequences_.size(); i = end) {
    for (end = i + 1; end < sequences_.size() && sequences_[end].index > 0; ++end) {
    }
    AddCopies(sequences_[i], end < sequences_.size() ? &sequences_[end] : nullptr, most_bytes,
              copies);
  }
  const auto copy = [&](int64_t i, int) {
    const Copy& c = copies[i];
    c.job->Gather(c.operand, c.rows, RowsOf(c.operand).dtype, c.target);
  };
  if (is_parallel) {
    workspace_.pool().ParallelFor(std::ssize(copies), copy);
    return;
  }
  for (int64_t i = 0; i < std::ssize(copies); ++i) {
    copy(i, 0);
  }
}

std::pair<Job*, int64_t> PackedBatch::OwnerOf(int64_t sequence) const {
  return {sequences_[sequence].job, sequences_[sequence].index};
}

absl::Status PackedBatch::Compute(const RunCallbacks& callbacks) {
  if (sequences_.empty()) {
    return absl::OkStatus();
  }
  if (key_.model == nullptr) {
    return RunAttention(callbacks);
  }
  return key_.is_stack() ? RunStack(callbacks) : RunLayer(callbacks);
}

MatrixView PackedBatch::RowsOf(Operand operand) const {
  const Rows& rows = operands_[static_cast<int>(operand)];
  const int64_t count = operand == Operand::kQuery ? num_rows_ : num_keys_;
  return {rows.data, rows.dtype, count, rows.width, rows.width};
}

std::optional<MatrixView> PackedBatch::MemoryOf(Operand operand) const {
  return static_cast<int>(operand) < num_operands_ ? std::optional(RowsOf(operand)) : std::nullopt;
}

absl::Status PackedBatch::RunStack(const RunCallbacks& callbacks) {
  std::vector<ModelSequence> sequences;
  sequences.reserve(sequences_.size());
  for (const Sequence& s : sequences_) {
    const JobDescription& job = s.job->description();
    const JobSequence& sequence = job.sequences[s.index];
    const EarlierRows earlier = s.job->Earlier(s.index);
    const auto [rows, width] =
        key_.model->OutputOf(job.wanted, earlier.earlier.rows + sequence.query_len);
    ScoreOutputs scores = s.job->Scores(s.index);
    sequences.push_back({.first_row = s.first_row,
                         .seq_len = sequence.query_len,
                         .first_memory_row = s.first_key,
                         .memory_len = key_.has_memory ? sequence.kv_len : 0,
                         .wanted = job.wanted,
                         .output = {s.job->Output(s.index), job.output_dtype, rows, width, width},
                         .weights_choice = scores.weights_choice,
                         .weights = std::move(scores.layer_weights),
                         .caches = CachesOf(sequence),
                         .earlier = earlier.earlier,
                         .hidden_states = earlier.hidden_states});
  }
  RETURN_IF_ERROR(key_.model->Forward({.hidden_states = RowsOf(Operand::kQuery),
                                       .memory = MemoryOf(Operand::kKey),
                                       .sequences = sequences,
                                       .yield = callbacks.yield},
                                      workspace_));
  for (int64_t i = 0; callbacks.on_rows && i < std::ssize(sequences); ++i) {
    callbacks.on_rows({i, 0, sequences[i].output.rows});  // all are computed, whatever it returns
  }
  return absl::OkStatus();
}

absl::Status PackedBatch::RunLayer(const RunCallbacks& callbacks) {
  const MultiHeadAttention& layer = key_.model->layer(key_.layer);
  const int64_t d_model = layer.shape().d_model;
  std::vector<LayerSequence> sequences;
  sequences.reserve(sequences_.size());
  for (const Sequence& s : sequences_) {
    const JobDescription& job = s.job->description();
    const JobSequence& sequence = job.sequences[s.index];
    const ScoreOutputs scores = s.job->Scores(s.index);
    sequences.push_back(
        {.first_row = s.first_row,
         .query_len = sequence.query_len,
         .first_memory_row = s.first_key,
         .memory_len = key_.has_memory ? sequence.kv_len : 0,
         .output = {s.job->Output(s.index), job.output_dtype, sequence.query_len, d_model, d_model},
         .weights = scores.weights,
         .top_weights = scores.top_weights,
         .log_sum_exp = scores.log_sum_exp,
         .cache = sequence.caches != nullptr ? &sequence.caches->front() : nullptr,
         .options = s.job->Options(s.index)});
  }
  return layer.Run({.hidden_states = RowsOf(Operand::kQuery),
                    .memory = MemoryOf(Operand::kKey),
                    .memory_values = MemoryOf(Operand::kValue),
                    .sequences = sequences,
                    .on_rows = callbacks.on_rows,
                    .block_rows = callbacks.block_rows,
                    .yield = callbacks.yield},
                   workspace_);
}

// Sequences with a cache read their keys and values from the cache only.
absl::Status PackedBatch::AppendToCaches(std::vector<AttentionSequence>& sequences) {
  return ForAll(std::ssize(sequences), workspace_.pool(), [&](int64_t i) -> absl::Status {
    const Sequence& s = sequences_[i];
    AttentionSequence& sequence = sequences[i];
    std::vector<KvCache>* const caches = s.job->description().sequences[s.index].caches;
    if (caches == nullptr) {
      return absl::OkStatus();
    }
    const KeyPreparation preparation = {sequence.options.key_norm, sequence.options.rotary};
    const absl::Status status = caches->front().Append(sequence.key, sequence.value, preparation);
    sequence.key = sequence.value = HeadsView();
    return status;
  });
}

absl::Status PackedBatch::RunAttention(const RunCallbacks& callbacks) {
  const HeadsView query = DenseHeads(RowsOf(Operand::kQuery).data, key_.dtype, num_rows_,
                                     key_.num_heads, key_.head_dim);
  const HeadsView key = DenseHeads(RowsOf(Operand::kKey).data, key_.dtype, num_keys_,
                                   key_.num_kv_heads, key_.head_dim);
  const HeadsView value = DenseHeads(RowsOf(Operand::kValue).data, key_.dtype, num_keys_,
                                     key_.num_kv_heads, key_.value_head_dim);
  std::vector<AttentionSequence> sequences;
  sequences.reserve(sequences_.size());
  for (const Sequence& s : sequences_) {
    const JobDescription& job = s.job->description();
    const JobSequence& sequence = job.sequences[s.index];
    const ScoreOutputs scores = s.job->Scores(s.index);
    sequences.push_back(
        {.query = SliceTokens(query, s.first_row, sequence.query_len),
         .key = SliceTokens(key, s.first_key, sequence.kv_len),
         .value = SliceTokens(value, s.first_key, sequence.kv_len),
         .output = DenseHeads(s.job->Output(s.index), job.output_dtype, sequence.query_len,
                              key_.num_heads, key_.value_head_dim),
         .weights = scores.weights,
         .top_weights = scores.top_weights,
         .log_sum_exp = scores.log_sum_exp,
         .cache = sequence.caches != nullptr ? &sequence.caches->front() : nullptr,
         .options = s.job->Options(s.index)});
  }
  RETURN_IF_ERROR(AppendToCaches(sequences));
  return ScaledDotProductAttention(
      sequences, workspace_,
      {callbacks.on_rows, callbacks.block_rows, {callbacks.yield, SliceFlops(workspace_.pool())}});
}

}  // namespace attention

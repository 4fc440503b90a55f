#include "server/scheduling/packed_batch.h"

#include "core/layers/multi_head_attention.h"

namespace attention {
namespace {

// Below this, waking the other threads costs more than they copy.
constexpr size_t kMinParallelBytes = 256 * 1024;

constexpr size_t RoundUpToLine(size_t bytes) { return (bytes + 63) / 64 * 64; }

HeadsView HeadsOf(const void* data, Dtype dtype, int64_t num_heads, int64_t head_dim) {
  return DenseHeads(data, dtype, 0, num_heads, head_dim);
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
  if (key_.model != nullptr) {
    const MultiHeadAttention& layer = key_.model->layer(0);
    operands_[0] = {nullptr, layer.dtype(), layer.shape().d_model};
    operands_[1] = {nullptr, layer.dtype(), layer.shape().d_memory};
  } else {
    operands_[0] = {nullptr, key_.dtype, key_.num_heads * key_.head_dim};
    operands_[1] = {nullptr, key_.dtype, key_.num_kv_heads * key_.head_dim};
    operands_[2] = {nullptr, key_.dtype, key_.num_kv_heads * key_.value_head_dim};
  }
}

int PackedBatch::PlaceOperands() {
  const int num_operands = key_.model == nullptr ? 3 : key_.has_memory ? 2 : 1;
  size_t offsets[3] = {};
  for (int i = 0; i < num_operands; ++i) {
    const int64_t elements = (i == 0 ? num_rows_ : num_keys_) * operands_[i].width;
    offsets[i] = input_bytes_;
    input_bytes_ += RoundUpToLine(static_cast<size_t>(elements) * SizeOf(operands_[i].dtype));
  }
  std::byte* buffer = workspace_.Buffer(Workspace::kInput, input_bytes_);
  for (int i = 0; i < num_operands; ++i) {
    operands_[i].data = buffer + offsets[i];
  }
  return num_operands;
}

void PackedBatch::Gather() {
  struct Copy {
    Job* job;
    Operand operand;
    void* target;
  };
  const int num_operands = PlaceOperands();
  std::vector<Copy> copies;
  for (const Sequence& sequence : sequences_) {
    for (int i = 0; sequence.index == 0 && i < num_operands; ++i) {
      const int64_t row = i == 0 ? sequence.first_row : sequence.first_key;
      copies.push_back(
          {sequence.job, static_cast<Operand>(i),
           ElementAt(operands_[i].data, operands_[i].dtype, row * operands_[i].width)});
    }
  }
  const auto copy = [&](int64_t i, int) {
    copies[i].job->Gather(copies[i].operand, RowsOf(copies[i].operand).dtype, copies[i].target);
  };
  if (input_bytes_ >= kMinParallelBytes && copies.size() > 1) {
    workspace_.pool().ParallelFor(std::ssize(copies), copy);
  } else {
    for (int64_t i = 0; i < std::ssize(copies); ++i) {
      copy(i, 0);
    }
  }
}

std::pair<Job*, int64_t> PackedBatch::OwnerOf(int64_t sequence) const {
  return {sequences_[sequence].job, sequences_[sequence].index};
}

absl::Status PackedBatch::Compute(const RowBlocks& blocks) {
  if (sequences_.empty()) {
    return absl::OkStatus();
  }
  return key_.model != nullptr ? RunLayer(blocks) : RunAttention(blocks);
}

absl::Status PackedBatch::RunLayer(const RowBlocks& blocks) {
  const int64_t d_model = key_.model->layer(0).shape().d_model;
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
         .options = s.job->Options(s.index)});
  }
  const auto view = [](const Rows& rows, int64_t count) {
    return MatrixView{rows.data, rows.dtype, count, rows.width, rows.width};
  };
  std::optional<MatrixView> memory;
  if (key_.has_memory) {
    memory = view(RowsOf(Operand::kKey), num_keys_);
  }
  return key_.model->layer(0).Run({.hidden_states = view(RowsOf(Operand::kQuery), num_rows_),
                                   .memory = memory,
                                   .sequences = sequences,
                                   .on_rows = blocks.on_rows,
                                   .block_rows = blocks.block_rows},
                                  workspace_);
}

absl::Status PackedBatch::RunAttention(const RowBlocks& blocks) {
  const HeadsView query =
      HeadsOf(RowsOf(Operand::kQuery).data, key_.dtype, key_.num_heads, key_.head_dim);
  const HeadsView key =
      HeadsOf(RowsOf(Operand::kKey).data, key_.dtype, key_.num_kv_heads, key_.head_dim);
  const HeadsView value =
      HeadsOf(RowsOf(Operand::kValue).data, key_.dtype, key_.num_kv_heads, key_.value_head_dim);
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
         .options = s.job->Options(s.index)});
  }
  return ScaledDotProductAttention(sequences, workspace_, blocks.on_rows, blocks.block_rows);
}

}  // namespace attention

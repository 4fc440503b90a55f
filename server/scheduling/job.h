// One admitted request in the scheduler.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/attention/attention.h"
#include "core/attention/kv_cache.h"
#include "core/models/model.h"
#include "core/tensor/ragged.h"
#include "server/scheduling/batch_stats.h"
#include "server/scheduling/request_class.h"
#include "server/scheduling/time_point.h"

namespace attention {

/// The BatchKey::layer of computations that are not a single layer.
inline constexpr int64_t kWholeStack = -1;
inline constexpr int64_t kEncoderAlone = -2;

/// The properties that requests must share to be computed together.
struct BatchKey {
  /// Null: attention without a model, described by the fields below (which are zero with a model).
  const Model* model = nullptr;
  /// Model::number.
  uint64_t model_number = 0;
  int64_t layer = 0;
  /// True for cross-attention, or for an encoder besides the decoder. Always true without a model.
  bool has_memory = false;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t value_head_dim = 0;
  /// The dtype of query, key and value.
  Dtype dtype = Dtype::kF32;

  bool operator==(const BatchKey&) const = default;
  bool is_stack() const { return layer < 0; }
};

/// The bytes of rows in one streamed message, unless it is one row.
inline constexpr int64_t kRowBlockBytes = int64_t{1} << 20;

/// One sequence to compute; query_len > 0, or there are keys to add to `caches`.
struct JobSequence {
  int64_t query_len = 0;
  /// The number of keys that come with the request: query_len for self-attention.
  int64_t kv_len = 0;
  /// The earlier tokens of a session or of a prefix, one cache for each layer that runs. The keys
  /// and values of these rows are appended to them. Borrowed. Null: the sequence has no caches. The
  /// vector of a whole stack may also be empty when its batch is computed, which means the same.
  std::vector<KvCache>* caches = nullptr;
};

/// The destinations of the parts of an answer that a sequence's caller wants besides the output;
/// each may be absent. The members are those of AttentionSequence with the same names; the last two
/// are those of ModelSequence, for a whole stack.
struct ScoreOutputs {
  float* weights = nullptr;
  TopWeights top_weights = {};
  float* log_sum_exp = nullptr;
  const WeightsChoice* weights_choice = nullptr;
  std::vector<float*> layer_weights = {};
};

/// For a whole stack and the prefix cache, as in ModelSequence: the hidden states of the cached
/// tokens (input), and the memory for the hidden states of the computed ones (output).
struct EarlierRows {
  MatrixView earlier = {};
  float* hidden_states = nullptr;
};

/// The packed inputs of a batch. For a model the query holds its rows or embedded tokens, the key
/// its memory, and the value the rows of a layer whose values have rows of their own.
enum class Operand { kQuery, kKey, kValue };

/// Rows of an operand, counted through all sequences of the job one after the other.
struct OperandRows {
  int64_t first = 0;
  int64_t count = 0;
};

/// The description of a job. Only Job::TakeMemory changes it, when the job has left the queue.
struct JobDescription {
  BatchKey key;
  std::vector<JobSequence> sequences;
  /// The sum of query_len.
  int64_t tokens = 0;
  /// The memory that the request holds while it waits.
  int64_t size_bytes = 0;
  /// The memory that TakeMemory takes.
  int64_t cache_bytes = 0;
  /// The number of operations, estimated from the shapes.
  double flops = 0;
  /// Those of them that other jobs cannot share: of attention, not of products with weights.
  double attention_flops = 0;
  /// The rows that are multiplied with a model's weights: the tokens, and the rows of a memory.
  int64_t weight_rows = 0;
  RequestClass request_class;
  /// When the whole request was there: from then on it waits (BatchStats::queue_ns).
  TimePoint arrival;
  TimePoint deadline = TimePoint::max();
  /// The dtype and the number of elements of an output row.
  Dtype output_dtype = Dtype::kF32;
  int64_t output_width = 0;
  /// The output of a whole stack.
  ModelOutput wanted = ModelOutput::kHiddenStates;
  /// Whether the caller wants rows as soon as they are computed.
  bool wants_rows = false;

  /// Returns the rows that a batch is filled with: the tokens, or of a job without any the keys
  /// that it caches; at least 1, since any job takes time.
  int64_t num_rows() const {
    if (tokens > 0) {
      return tokens;
    }
    int64_t keys = 0;
    for (const JobSequence& sequence : sequences) {
      keys += sequence.kv_len;
    }
    return std::max<int64_t>(1, keys);
  }
};

class HeldReply;

/// A request, or a step of a session, and the functions that the scheduler calls to compute it.
///
/// Threads: description() and is_cancelled() are called from any thread; reply_bytes, GiveUpReply
/// and HoldReply from the thread that submits the job; the others from the dispatcher's threads, in
/// the order TakeMemory, Gather..., DropInputs, Prepare, Output, Scores, Earlier and Options,
/// OnRows..., Finish. Sequences are counted as in the description.
class Job {
 public:
  explicit Job(JobDescription description) : description_(std::move(description)) {}
  virtual ~Job() = default;
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  const JobDescription& description() const { return description_; }
  /// Returns whether the caller no longer waits for the answer.
  virtual bool is_cancelled() const = 0;

  /// The time that the job takes alone, by the estimate with which it was queued; 0: it is not
  /// known, or the job is tried whatever the estimate (DeadlineProbes). The queue sets it.
  std::chrono::nanoseconds expected_time() const { return expected_time_; }
  void set_expected_time(std::chrono::nanoseconds time) { expected_time_ = time; }

  /// Returns the size of the reply's memory in bytes.
  virtual int64_t reply_bytes() const { return 0; }
  /// Keeps `held`, the reply's bytes in the ReplyBudget, as long as the reply's memory exists or
  /// may exist, and calls its SetComputed when the reply has been computed. Called before the job
  /// is queued.
  virtual void HoldReply(const std::shared_ptr<HeldReply>& /*held*/) {}
  /// Returns a function that ends the sending of a reply that its caller does not read. The
  /// function may be called after the job's end.
  virtual std::function<void()> GiveUpReply() {
    return [] {};
  }

  /// Takes the memory of caches that the computation needs, when a batch takes the job. Returns
  /// false when there is no memory. The job then runs without cached tokens (its cost in
  /// description() grows) and must be queued again. Does not throw.
  virtual bool TakeMemory() { return true; }
  /// Allocates the memory of the reply.
  virtual void Prepare() = 0;
  /// Writes rows of the operand one after the other, converted to `dtype`. Called once for each row
  /// of each operand, by several threads at the same time for different rows.
  virtual void Gather(Operand operand, const OperandRows& rows, Dtype dtype, void* target) = 0;
  /// Releases the bytes of the request, which are not needed any more. The options that Options
  /// returns do not point to them.
  virtual void DropInputs() = 0;
  /// Returns the destination of row 0 of the sequence's output; rows are dense. There is one row
  /// per query row, or as `wanted` says.
  virtual void* Output(size_t sequence) = 0;
  virtual ScoreOutputs Scores(size_t sequence) = 0;
  virtual EarlierRows Earlier(size_t /*sequence*/) { return {}; }
  /// Returns the options of the sequence, except for a whole stack. They borrow from the job.
  virtual AttentionOptions Options(size_t sequence) const = 0;
  /// The runner calls this, if the job wants_rows, when these rows are final. It does not block,
  /// and does not throw: a failure to send them fails this job only.
  virtual void OnRows(const RowRange& rows) = 0;
  /// Ends the job; called exactly once and last, possibly without any other call before it. Does
  /// not throw.
  virtual void Finish(const absl::Status& status, const BatchStats& stats) = 0;

 protected:
  /// Returns the description for TakeMemory. No other function may change it.
  JobDescription& description_to_change() { return description_; }

 private:
  JobDescription description_;
  std::chrono::nanoseconds expected_time_{0};
};

/// Returns whether the caller no longer waits for the answer: the job is cancelled or past its
/// deadline.
inline bool IsAbandoned(const Job& job, TimePoint now) {
  return job.is_cancelled() || job.description().deadline <= now;
}

/// The assumed time for an answer to reach its caller.
inline constexpr std::chrono::milliseconds kTravelTime{2};

/// Returns whether an answer that leaves now reaches its caller after the job's deadline.
inline bool IsLate(const Job& job, TimePoint now) {
  return job.description().deadline <= now + kTravelTime;
}

/// Returns whether computing the job would be in vain: it is abandoned, or would be before its end
/// if it began now.
inline bool IsLost(const Job& job, TimePoint now) {
  return IsAbandoned(job, now) || job.description().deadline - now < job.expected_time();
}

}  // namespace attention

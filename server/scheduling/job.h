// One admitted request, as the scheduler sees it.
#pragma once

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
#include "server/scheduling/request_class.h"
#include "server/scheduling/time_point.h"

namespace attention {

/// BatchKey::layer of what is no single layer.
inline constexpr int64_t kWholeModel = -1;
inline constexpr int64_t kEncoderAlone = -2;

/// What requests must have in common to be computed together.
struct BatchKey {
  /// Null: attention without weights, described by the fields below (zero with a model).
  const Model* model = nullptr;
  int64_t layer = 0;
  /// Cross-attention, or an encoder beside the decoder. Always true without a model.
  bool has_memory = false;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t value_head_dim = 0;
  /// Of query, key and value.
  Dtype dtype = Dtype::kF32;

  bool operator==(const BatchKey&) const = default;
  bool is_stack() const { return layer < 0; }
};

/// One sequence to compute; query_len > 0.
struct JobSequence {
  int64_t query_len = 0;
  /// Keys that come with the request: query_len for self-attention.
  int64_t kv_len = 0;
  /// What came before, and what these rows' keys and values are appended to: one cache for each
  /// layer that runs. Borrowed; null: none.
  std::vector<KvCache>* caches = nullptr;
};

/// Where the parts of an answer go that a sequence's caller wants beside the output; each may be
/// off. As AttentionSequence's members of the same names; the last two are ModelSequence's, of a
/// whole stack.
struct ScoreOutputs {
  float* weights = nullptr;
  TopWeights top_weights = {};
  float* log_sum_exp = nullptr;
  const WeightsChoice* weights_choice = nullptr;
  std::vector<float*> layer_weights = {};
};

/// The packed inputs of a batch. A model's rows, or embedded tokens, are its query; its memory is
/// the key, and the value where a layer's values come from rows of their own.
enum class Operand { kQuery, kKey, kValue };

/// What the scheduler did with a job. Durations in nanoseconds.
struct BatchStats {
  int64_t queue_ns = 0;    // arrival until a batch took it
  int64_t compute_ns = 0;  // from then until its last row was computed
  uint64_t batch_id = 0;   // from 1; 0 when it never was in a batch
  int64_t batch_requests = 0;
  int64_t batch_sequences = 0;
  int64_t batch_tokens = 0;
};

/// Fixed at admission.
struct JobDescription {
  BatchKey key;
  std::vector<JobSequence> sequences;
  /// Sum of query_len.
  int64_t tokens = 0;
  /// Memory the request holds while it waits.
  int64_t size_bytes = 0;
  /// Estimated from the shapes.
  double flops = 0;
  RequestClass request_class;
  TimePoint arrival;
  TimePoint deadline = TimePoint::max();
  /// Dtype and elements of an output row.
  Dtype output_dtype = Dtype::kF32;
  int64_t output_width = 0;
  /// Of a whole stack.
  ModelOutput wanted = ModelOutput::kHiddenStates;
  /// Rows are wanted as soon as they are computed.
  bool wants_rows = false;
};

class HeldReply;

/// Threads: description() and is_cancelled() are called from any thread; the others from the
/// dispatcher's threads, in the order Gather..., DropInputs, Prepare, Output, Scores and Options,
/// OnRows..., Finish. Sequences are counted as in the description.
class Job {
 public:
  explicit Job(JobDescription description) : description_(std::move(description)) {}
  virtual ~Job() = default;
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  const JobDescription& description() const { return description_; }
  /// Nobody waits for the answer any more.
  virtual bool is_cancelled() const = 0;

  /// Of the reply's memory.
  virtual int64_t reply_bytes() const { return 0; }
  /// Holds on to `part` for as long as there is that memory, or may be, and tells it when the reply
  /// has been computed. Before the job is queued.
  virtual void HoldReply(const std::shared_ptr<HeldReply>& /*part*/) {}
  /// Ends the sending of a reply that nobody takes; may be called after the job's end.
  virtual std::function<void()> GiveUpReply() {
    return [] {};
  }

  /// Makes the reply memory.
  virtual void Prepare() = 0;
  /// Writes the operand's rows of all sequences one after the other, converted to `dtype`. Called
  /// once per operand, possibly for several operands at a time.
  virtual void Gather(Operand operand, Dtype dtype, void* target) = 0;
  /// The request's own bytes are not needed any more: what Options points to is the job's own.
  virtual void DropInputs() = 0;
  /// Where row 0 of the sequence's output goes; rows are dense. They are the query's, or as
  /// `wanted` says.
  virtual void* Output(size_t sequence) = 0;
  virtual ScoreOutputs Scores(size_t sequence) = 0;
  /// What the sequence asks for, but of a whole stack; borrows from the job.
  virtual AttentionOptions Options(size_t sequence) const = 0;
  /// With wants_rows: these rows are final. Does not block. Does not throw: a failure to send them
  /// is this job's alone.
  virtual void OnRows(const RowRange& rows) = 0;
  /// The end, exactly once and last. May come without any other call before it. Does not throw.
  virtual void Finish(const absl::Status& status, const BatchStats& stats) = 0;

 private:
  const JobDescription description_;
};

/// Nobody waits for its answer any more: cancelled, or past its deadline.
inline bool IsDead(const Job& job, TimePoint now) {
  return job.is_cancelled() || job.description().deadline <= now;
}

}  // namespace attention

#include "server/services/reply/attend_reply.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "core/runtime/round_up.h"
#include "proto/attention/v1/attention.pb.h"
#include "proto/codec/encode.h"
#include "server/scheduling/reply_budget.h"

namespace attention {
namespace {

// The bytes of a small field, with its tag, in the encoded message and in the copies of encoding.
constexpr size_t kFieldBytes = 32;

// The memory of a table in a message: the protobuf objects of shape and reference, their encoding,
// and the slice with its owner.
constexpr int64_t kTableMessageBytes =
    sizeof(v1::LayerWeights) + sizeof(v1::Tensor) + 4 * sizeof(int64_t) + sizeof(std::string) +
    6 * kFieldBytes + 2 * sizeof(grpc::Slice) + 2 * sizeof(std::shared_ptr<const void>);

// The memory of a token in a message: its id, its text, and their encoding.
constexpr int64_t kTokenMessageBytes =
    sizeof(int32_t) + sizeof(std::string) + sizeof(void*) + 2 * kFieldBytes;

// The minimum size for which a system call is faster than writing zeros.
constexpr size_t kMinBytesOfPages = size_t{1} << 20;

// Fills memory with zeros. For large ranges the system provides zero pages when they are first
// read, possibly much later, by the thread that sends them.
void Zero(std::byte* begin, size_t size_bytes) {
  static const auto page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t to_page =
      (page_bytes - reinterpret_cast<uintptr_t>(begin) % page_bytes) % page_bytes;
  const size_t pages_bytes =
      size_bytes < kMinBytesOfPages ? 0 : (size_bytes - to_page) / page_bytes * page_bytes;
  if (pages_bytes == 0 || madvise(begin + to_page, pages_bytes, MADV_DONTNEED) != 0) {
    std::memset(begin, 0, size_bytes);
    return;
  }
  std::memset(begin, 0, to_page);
  const size_t done = to_page + pages_bytes;
  std::memset(begin + done, 0, size_bytes - done);
}

constexpr int64_t kTextMessageBytes = sizeof(v1::TokenizedText) + 2 * kFieldBytes;

}  // namespace

AttendReply::AttendReply(const AttendPlan& plan)
    : dtype_(plan.output_dtype),
      shape_(plan.output_shape),
      row_axes_(plan.model == nullptr ? 2 : 1),
      width_(plan.output_width),
      weights_choice_(plan.weights_choice),
      texts_(plan.texts) {
  output_bytes_ = static_cast<size_t>(NumElements(shape_)) * SizeOf(dtype_);
  memory_bytes_ = output_bytes_;
  outputs_.reserve(plan.sequences.size());
  for (const PlannedSequence& planned : plan.sequences) {
    outputs_.push_back(planned.output);
  }
  AddTables(plan);
  message_bytes_ = MessageBytes(plan);
}

int64_t AttendReply::MessageBytes(const AttendPlan& plan) const {
  int64_t bytes = plan.copied_reply_bytes + std::ssize(tables_) * kTableMessageBytes;
  for (size_t i = 0; texts_ != nullptr && i < texts_->size(); ++i) {
    bytes += kTextMessageBytes + std::ssize((*texts_)[i].ids) * kTokenMessageBytes;
  }
  return bytes;
}

void AttendReply::AddTables(const AttendPlan& plan) {
  const v1::AttentionOptions& wanted = *plan.options.wire;
  const auto add_tables = [&](ScoreKind kind, const auto& row_elements) {
    for (int64_t i = 0; i < std::ssize(plan.sequences); ++i) {
      AddTable({.kind = kind,
                .sequence = i,
                .num_heads = plan.num_heads,
                .rows = plan.sequences[i].query.rows,
                .row_elements = row_elements(plan.sequences[i])});
    }
  };
  if (wanted.return_weights()) {
    add_tables(ScoreKind::kWeights, [&](const PlannedSequence& s) { return plan.KeysOf(s); });
  }
  if (wanted.return_log_sum_exp()) {
    add_tables(ScoreKind::kLogSumExp, [](const PlannedSequence&) { return int64_t{1}; });
  }
  if (wanted.weights_top_k() > 0) {
    add_tables(ScoreKind::kTopWeights, [&](const PlannedSequence& s) { return plan.TopKOf(s); });
  }
  for (int64_t i = 0; i < std::ssize(plan.sequences); ++i) {
    for (const int64_t layer : plan.weights_choice.layers) {
      const auto [num_heads, rows, keys] = plan.WeightsOf(layer, plan.sequences[i]);
      AddTable({.kind = ScoreKind::kLayerWeights,
                .sequence = i,
                .layer = layer,
                .num_heads = num_heads,
                .rows = rows,
                .row_elements = keys});
    }
  }
}

void AttendReply::AddTable(ScoreTable table) {
  const auto reserve = [&] {
    const size_t offset = RoundUpToLine(memory_bytes_);
    memory_bytes_ =
        offset +
        static_cast<size_t>(table.num_heads * table.rows * table.row_elements) * kTableElementBytes;
    return offset;
  };
  table.offset = reserve();
  if (table.kind == ScoreKind::kTopWeights) {
    table.keys_offset = reserve();
  }
  tables_.push_back(table);
}

void AttendReply::Allocate() {
  memory_ = std::shared_ptr<AlignedBuffer>(
      new AlignedBuffer(memory_bytes_), [held = held_](AlignedBuffer* memory) { delete memory; });
  size_t written = 0;
  const auto zero_until = [&](size_t offset) {
    if (offset > written) {
      Zero(memory_->data() + written, offset - written);
    }
  };
  for (const SequenceRows& output : outputs_) {
    zero_until(output.first_row * RowBytes());
    written = (output.first_row + output.rows) * RowBytes();
  }
  zero_until(output_bytes_);
  PointToTables();
}

void AttendReply::SetComputed() {
  if (held_ != nullptr) {
    held_->SetComputed(std::chrono::steady_clock::now());
  }
}

void AttendReply::PointToTables() {
  scores_.resize(outputs_.size());
  for (const ScoreTable& table : tables_) {
    ScoreOutputs& scores = scores_[table.sequence];
    float* const floats = FloatsAt(table.offset);
    switch (table.kind) {
      case ScoreKind::kWeights:
        scores.weights = floats;
        break;
      case ScoreKind::kLogSumExp:
        scores.log_sum_exp = floats;
        break;
      case ScoreKind::kTopWeights:
        if (table.row_elements > 0) {
          scores.top_weights = {
              .k = table.row_elements,
              .weights = floats,
              .keys = reinterpret_cast<int32_t*>(memory_->data() + table.keys_offset)};
        }
        break;
      case ScoreKind::kLayerWeights:
        scores.weights_choice = &weights_choice_;
        scores.layer_weights.push_back(floats);
        break;
    }
  }
}

void* AttendReply::Output(int64_t sequence) {
  return memory_->data() + outputs_[sequence].first_row * RowBytes();
}

const void* AttendReply::Output(int64_t sequence) const {
  return memory_->data() + outputs_[sequence].first_row * RowBytes();
}

ScoreOutputs AttendReply::Scores(int64_t sequence) { return scores_[sequence]; }

grpc::Slice AttendReply::RowsSlice(const RowRange& rows) const {
  const int64_t first = outputs_[rows.sequence].first_row + rows.first_row;
  return SliceOf(first * RowBytes(), rows.rows * RowBytes());
}

grpc::Slice AttendReply::SliceOf(size_t offset, size_t size_bytes) const {
  return SharedSlice(memory_, memory_->data() + offset, size_bytes);
}

}  // namespace attention

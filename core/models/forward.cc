// A run of a whole model: the stack, then the output that each sequence requests.
#include <algorithm>
#include <utility>

#include "core/kernels/tile/tile_kernels.h"
#include "core/layers/rows_per_slice.h"
#include "core/models/stack_run.h"
#include "core/models/validate_run.h"
#include "core/runtime/status_macros.h"
#include "core/tensor/convert_rows.h"
#include "core/tensor/row_blocks.h"

namespace attention {
namespace {

constexpr BufferName kHiddenStates{"hidden states"};
constexpr BufferName kMemoryStates{"hidden states of the encoder"};
constexpr BufferName kLogitsInput{"rows for logits"};
constexpr BufferName kLogitsOutput{"logits"};

MutableMatrixView Reserve(Workspace& workspace, const BufferName& name, int64_t rows,
                          int64_t cols) {
  return {workspace.Buffer(name, rows * cols * sizeof(float)), Dtype::kF32, rows, cols, cols};
}

/// Returns a copy of the rows, which the stack replaces by its output.
MutableMatrixView CopyRows(const MatrixView& rows, Workspace& workspace, const BufferName& name) {
  const MutableMatrixView copy = Reserve(workspace, name, rows.rows, rows.cols);
  ConvertRows(rows, copy, workspace.pool());
  return copy;
}

const float* RowOf(const MutableMatrixView& rows, int64_t row) {
  return static_cast<const float*>(rows.data) + row * rows.row_stride;
}

/// Writes `row` to row `index` of `output`.
void StoreRow(const float* row, const MutableMatrixView& output, int64_t index) {
  Convert(Dtype::kF32, row, output.dtype,
          ElementAt(output.data, output.dtype, index * output.row_stride), output.cols);
}

/// The hidden states of a sequence after the last norm: the earlier rows, then the new ones.
class SequenceHiddenStates {
 public:
  SequenceHiddenStates(const MutableMatrixView& hidden, const ModelSequence& sequence)
      : hidden_(hidden), sequence_(sequence) {}

  int64_t rows() const { return sequence_.earlier.rows + sequence_.seq_len; }
  const float* Row(int64_t row) const {
    const MatrixView& earlier = sequence_.earlier;
    return row < earlier.rows ? static_cast<const float*>(earlier.data) + row * earlier.row_stride
                              : RowOf(hidden_, sequence_.first_row + row - earlier.rows);
  }

 private:
  const MutableMatrixView& hidden_;
  const ModelSequence& sequence_;
};

/// The maximum number of columns whose means one task computes.
constexpr int64_t kMeanColumns = 32;

/// Writes the means of the rows from column `first` on, of kMeanColumns columns or up to the last.
void StoreMeans(const MutableMatrixView& hidden, const ModelSequence& sequence, int64_t first) {
  const SequenceHiddenStates states(hidden, sequence);
  const int64_t count = std::min(kMeanColumns, hidden.cols - first);
  double sums[kMeanColumns] = {};
  for (int64_t r = 0; r < states.rows(); ++r) {
    const float* row = states.Row(r) + first;
    std::transform(sums, sums + count, row, sums, std::plus<>());
  }
  float means[kMeanColumns];
  std::transform(sums, sums + count, means, [&](double total) {
    return static_cast<float>(total / static_cast<double>(states.rows()));
  });
  const MutableMatrixView& output = sequence.output;
  Convert(Dtype::kF32, means, output.dtype, ElementAt(output.data, output.dtype, first), count);
}

void StorePooled(const MutableMatrixView& hidden, std::span<const ModelSequence> sequences,
                 ThreadPool& pool) {
  struct Means {
    const ModelSequence* sequence;
    int64_t first_column;
  };
  std::vector<Means> means;
  for (const ModelSequence& s : sequences) {
    if (s.wanted == ModelOutput::kFirstPooled) {
      StoreRow(SequenceHiddenStates(hidden, s).Row(0), s.output, 0);
    }
    const int64_t columns = s.wanted == ModelOutput::kMeanPooled ? hidden.cols : 0;
    for (int64_t column = 0; column < columns; column += kMeanColumns) {
      means.push_back({&s, column});
    }
  }
  pool.ParallelFor(std::ssize(means), [&](int64_t i, int /*worker*/) {
    StoreMeans(hidden, *means[i].sequence, means[i].first_column);
  });
}

/// A row of hidden states, and the memory for its logits.
struct LogitsRow {
  const float* hidden_states = nullptr;
  MutableMatrixView output;
  int64_t output_row = 0;
};

std::vector<LogitsRow> LogitsRows(const MutableMatrixView& hidden,
                                  std::span<const ModelSequence> sequences) {
  std::vector<LogitsRow> rows;
  for (const ModelSequence& s : sequences) {
    const SequenceHiddenStates states(hidden, s);
    if (s.wanted == ModelOutput::kLastLogits) {
      rows.push_back({states.Row(states.rows() - 1), s.output, 0});
    }
    for (int64_t r = 0; s.wanted == ModelOutput::kLogits && r < states.rows(); ++r) {
      rows.push_back({states.Row(r), s.output, r});
    }
  }
  return rows;
}

/// Writes the rows, which lie apart, to `target` one after the other.
void GatherRows(std::span<const LogitsRow> rows, const MutableMatrixView& target,
                ThreadPool& pool) {
  ForRowBlocks(target.rows, pool, [&](int64_t first, int64_t count) {
    for (int64_t r = first; r < first + count; ++r) {
      StoreRow(rows[r].hidden_states, target, r);
    }
  });
}

void Softcap(float softcap, const MutableMatrixView& logits, ThreadPool& pool) {
  const LogitRow no_terms;
  pool.ParallelFor(logits.rows, [&](int64_t r, int /*worker*/) {
    CurrentTileKernels().logits({.scores = static_cast<float*>(logits.data) + r * logits.row_stride,
                                 .stride = logits.row_stride,
                                 .rows = 1,
                                 .cols = logits.row_stride,
                                 .softcap = softcap,
                                 .terms = &no_terms});
  });
}

/// Computes the logits of at most kRows rows at a time, so that a large vocabulary needs little
/// memory.
absl::Status StoreLogits(const Head& head, const MutableMatrixView& hidden, const ModelCall& call,
                         Workspace& workspace) {
  constexpr int64_t kRows = 64;
  const Dtype compute = head.linear.compute();
  const std::vector<LogitsRow> rows = LogitsRows(hidden, call.sequences);
  for (size_t first = 0; first < rows.size(); first += kRows) {
    RETURN_IF_ERROR(CallYield(call.yield));
    const std::span<const LogitsRow> part =
        std::span(rows).subspan(first, std::min<size_t>(kRows, rows.size() - first));
    const MutableMatrixView input{
        workspace.Buffer(kLogitsInput, part.size() * hidden.cols * SizeOf(compute)), compute,
        std::ssize(part), hidden.cols, hidden.cols};
    GatherRows(part, input, workspace.pool());
    const MutableMatrixView logits =
        Reserve(workspace, kLogitsOutput, std::ssize(part), head.linear.num_columns());
    const OutputRows all{0, logits};
    head.linear.Run({.input = ReadOnly(input), .outputs = {&all, 1}}, workspace);
    if (head.softcap > 0) {
      Softcap(head.softcap, logits, workspace.pool());
    }
    workspace.pool().ParallelFor(std::ssize(part), [&](int64_t i, int /*worker*/) {
      StoreRow(RowOf(logits, i), part[i].output, part[i].output_row);
    });
  }
  return absl::OkStatus();
}

/// Writes the hidden states of all rows, where a sequence wants them as its output or beside it.
void StoreHiddenStates(const MutableMatrixView& hidden, std::span<const ModelSequence> sequences,
                       ThreadPool& pool) {
  constexpr int64_t kRows = 16;  // of a task
  std::vector<RowRange> ranges;
  for (int64_t i = 0; i < std::ssize(sequences); ++i) {
    const ModelSequence& s = sequences[i];
    const bool is_wanted = s.wanted == ModelOutput::kHiddenStates || s.hidden_states != nullptr;
    const int64_t rows = is_wanted ? s.earlier.rows + s.seq_len : 0;
    for (int64_t row = 0; row < rows; row += kRows) {
      ranges.push_back({i, row, std::min(kRows, rows - row)});
    }
  }
  pool.ParallelFor(std::ssize(ranges), [&](int64_t i, int /*worker*/) {
    const RowRange& range = ranges[i];
    const ModelSequence& s = sequences[range.sequence];
    const SequenceHiddenStates states(hidden, s);
    for (int64_t row = range.first_row; row < range.first_row + range.rows; ++row) {
      if (s.wanted == ModelOutput::kHiddenStates) {
        StoreRow(states.Row(row), s.output, row);
      }
      if (s.hidden_states != nullptr && row >= s.earlier.rows) {
        std::copy_n(states.Row(row), hidden.cols,
                    s.hidden_states + (row - s.earlier.rows) * hidden.cols);
      }
    }
  });
}

absl::Status StoreOutputs(const ModelParts& state, const MutableMatrixView& hidden,
                          const ModelCall& call, Workspace& workspace) {
  StorePooled(hidden, call.sequences, workspace.pool());
  StoreHiddenStates(hidden, call.sequences, workspace.pool());
  return state.head.has_value() ? StoreLogits(*state.head, hidden, call, workspace)
                                : absl::OkStatus();
}

}  // namespace

absl::Status Model::Forward(const ModelCall& call, Workspace& workspace) const {
  RETURN_IF_ERROR(ValidateRun(*this, call));
  const ModelParts& state = *state_;
  std::vector<StackSequence> sequences;
  std::vector<StackSequence> memory_sequences;
  for (const ModelSequence& s : call.sequences) {
    sequences.push_back({s.first_row, s.seq_len, s.first_memory_row, s.memory_len, &s});
    if (s.memory_len > 0) {
      memory_sequences.push_back(
          {.first_row = s.first_memory_row, .seq_len = s.memory_len, .request = &s});
    }
  }
  const MutableMatrixView hidden = CopyRows(call.hidden_states, workspace, kHiddenStates);
  StackCall stack_call{.hidden_states = hidden, .sequences = sequences, .yield = call.yield};
  const Stack* stack = &state.stack;
  if (info().has_encoder && !call.memory.has_value()) {
    stack = &*state.encoder;
  } else if (info().has_encoder) {
    const MutableMatrixView memory = CopyRows(*call.memory, workspace, kMemoryStates);
    const StackCall encoder_call{
        .hidden_states = memory, .sequences = memory_sequences, .yield = call.yield};
    RETURN_IF_ERROR(RunStack(*this, state, *state.encoder, encoder_call, workspace));
    stack_call.memory =
        MatrixView{memory.data, memory.dtype, memory.rows, memory.cols, memory.cols};
  }
  RETURN_IF_ERROR(RunStack(*this, state, *stack, stack_call, workspace));
  return StoreOutputs(state, hidden, call, workspace);
}

}  // namespace attention

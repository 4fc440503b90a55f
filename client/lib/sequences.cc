#include "client/lib/sequences.h"

#include <algorithm>
#include <numeric>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

struct Rows {
  int64_t first = 0;
  int64_t count = 0;
};

/// Returns whether the output has one row for each sequence.
bool IsPooled(v1::ModelOutput output) {
  return output == v1::MEAN_POOLED || output == v1::CLS_POOLED || output == v1::LAST_LOGITS;
}

/// Returns all but the last `inner` extents. REQUIRES: there are so many.
Shape Leading(const Shape& shape, size_t inner) {
  return Shape(shape.begin(), shape.end() - static_cast<int64_t>(inner));
}

/// Returns the extents {B, S} or {T} before the last `inner` extents of a tensor.
absl::StatusOr<Shape> RowsOf(const Tensor& tensor, size_t inner, const char* name) {
  const size_t rank = tensor.shape().size();
  if (rank != inner + 1 && rank != inner + 2) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": expected ", inner + 1, " or ", inner + 2, " extents, found ", rank));
  }
  return Leading(tensor.shape(), inner);
}

/// Cuts the rows of {B, S} or {T} by `lengths` (empty: all of them).
absl::StatusOr<std::vector<Rows>> Cut(const Shape& leading, const std::vector<int64_t>& lengths,
                                      const char* name) {
  std::vector<Rows> cuts;
  if (leading.size() == 2) {
    const int64_t batch_size = leading[0];
    if (!lengths.empty() && std::ssize(lengths) != batch_size) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": expected ", batch_size, " values, found ", lengths.size()));
    }
    for (int64_t b = 0; b < batch_size; ++b) {
      const int64_t length = lengths.empty() ? leading[1] : lengths[b];
      if (length < 0 || length > leading[1]) {
        return absl::InvalidArgumentError(
            absl::StrCat(name, ": expected values of 0 to ", leading[1], ", found ", length));
      }
      cuts.push_back({b * leading[1], length});
    }
    return cuts;
  }
  const int64_t total = NumElements(leading);
  int64_t first = 0;
  for (const int64_t length : lengths.empty() ? std::vector<int64_t>{total} : lengths) {
    if (length < 0 || length > total - first) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": expected values that sum to ", total, ", found ",
                       std::accumulate(lengths.begin(), lengths.end(), int64_t{0})));
    }
    cuts.push_back({first, length});
    first += length;
  }
  if (first != total) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": expected values that sum to ", total, ", found ", first));
  }
  return cuts;
}

absl::StatusOr<std::vector<SequenceSpan>> Pair(const std::vector<Rows>& queries,
                                               const std::vector<Rows>& keys) {
  if (queries.size() != keys.size()) {
    return absl::InvalidArgumentError(absl::StrCat("expected key/value rows for ", queries.size(),
                                                   " sequences, found ", keys.size()));
  }
  std::vector<SequenceSpan> spans;
  for (size_t i = 0; i < queries.size(); ++i) {
    spans.push_back({queries[i].first, queries[i].count, keys[i].first, keys[i].count,
                     keys[i].count - queries[i].count});
  }
  return spans;
}

/// Cuts the rows of hidden states.
absl::StatusOr<std::vector<Rows>> CutStates(const Tensor& tensor, const char* name,
                                            const std::vector<int64_t>& lengths,
                                            const char* lengths_name) {
  ASSIGN_OR_RETURN(const Shape rows, RowsOf(tensor, 1, name));
  return Cut(rows, lengths, lengths_name);
}

absl::StatusOr<std::vector<SequenceSpan>> Spans(const HiddenStatesInput& input) {
  const auto memory_rows = [&] {
    return CutStates(*input.memory, "memory", input.memory_lengths, "memory_lengths");
  };
  if (input.tensor == nullptr) {  // the encoder alone
    ASSIGN_OR_RETURN(const std::vector<Rows> rows, memory_rows());
    return Pair(rows, rows);
  }
  ASSIGN_OR_RETURN(const std::vector<Rows> rows,
                   CutStates(*input.tensor, "hidden_states", input.lengths, "lengths"));
  if (input.memory == nullptr) {
    return Pair(rows, rows);
  }
  ASSIGN_OR_RETURN(const std::vector<Rows> memory, memory_rows());
  return Pair(rows, memory);
}

absl::StatusOr<std::vector<SequenceSpan>> Spans(const TokenIdsInput& input) {
  ASSIGN_OR_RETURN(const std::vector<Rows> rows,
                   Cut({std::ssize(input.ids)}, input.lengths, "lengths"));
  return Pair(rows, rows);
}

absl::StatusOr<std::vector<SequenceSpan>> Spans(const QueryKeyValueInput& input) {
  ASSIGN_OR_RETURN(const Shape query_leading, RowsOf(*input.query, 2, "query"));
  ASSIGN_OR_RETURN(const Shape key_leading, RowsOf(*input.key, 2, "key"));
  RETURN_IF_ERROR(RowsOf(*input.value, 2, "value").status());
  ASSIGN_OR_RETURN(const std::vector<Rows> rows, Cut(query_leading, input.lengths, "lengths"));
  ASSIGN_OR_RETURN(const std::vector<Rows> keys, Cut(key_leading, input.kv_lengths, "kv_lengths"));
  ASSIGN_OR_RETURN(std::vector<SequenceSpan> spans, Pair(rows, keys));
  if (!input.query_offsets.empty() && input.query_offsets.size() != spans.size()) {
    return absl::InvalidArgumentError(absl::StrCat("query_offsets: expected ", spans.size(),
                                                   " values, found ", input.query_offsets.size()));
  }
  for (size_t i = 0; i < spans.size(); ++i) {
    if (!input.query_offsets.empty()) {
      spans[i].query_offset = input.query_offsets[i];
    } else if (query_leading.size() == 2) {
      spans[i].query_offset = key_leading[1] - query_leading[1];
    }
  }
  return spans;
}

absl::StatusOr<std::vector<SequenceSpan>> Spans(const TextInput& input,
                                                std::span<const v1::TokenizedText> tokens) {
  if (tokens.size() != input.texts.size()) {
    return absl::InvalidArgumentError(absl::StrCat("tokens: expected those of ", input.texts.size(),
                                                   " texts, found those of ", tokens.size()));
  }
  std::vector<Rows> rows;
  int64_t first = 0;
  for (const v1::TokenizedText& text : tokens) {
    rows.push_back({first, text.ids_size()});
    first += text.ids_size();
  }
  return Pair(rows, rows);
}

absl::StatusOr<std::vector<SequenceSpan>> SpansOf(const AttendRequest& request,
                                                  std::span<const v1::TokenizedText> tokens) {
  if (const auto* text = std::get_if<TextInput>(&request.input)) {
    return Spans(*text, tokens);
  }
  if (const auto* ids = std::get_if<TokenIdsInput>(&request.input)) {
    return Spans(*ids);
  }
  if (const auto* states = std::get_if<HiddenStatesInput>(&request.input)) {
    return Spans(*states);
  }
  return Spans(std::get<QueryKeyValueInput>(request.input));
}

}  // namespace

absl::StatusOr<std::vector<SequenceSpan>> SequencesOf(const AttendRequest& request,
                                                      std::span<const v1::TokenizedText> tokens) {
  ASSIGN_OR_RETURN(std::vector<SequenceSpan> spans, SpansOf(request, tokens));
  for (int64_t i = 0; i < std::ssize(spans); ++i) {
    SequenceSpan& span = spans[i];
    const bool is_pooled = IsPooled(request.model_output);
    span.first_output_row = is_pooled ? i : span.first_row;
    span.output_rows = is_pooled ? std::min<int64_t>(1, span.query_len) : span.query_len;
  }
  return spans;
}

Shape LeadingExtents(const AttendRequest& request, std::span<const SequenceSpan> sequences) {
  if (IsPooled(request.model_output)) {
    return {std::ssize(sequences)};
  }
  if (const auto* input = std::get_if<HiddenStatesInput>(&request.input)) {
    return Leading(input->tensor != nullptr ? input->tensor->shape() : input->memory->shape(), 1);
  }
  if (const auto* input = std::get_if<QueryKeyValueInput>(&request.input)) {
    return Leading(input->query->shape(), 2);
  }
  int64_t tokens = 0;
  for (const SequenceSpan& span : sequences) {
    tokens += span.query_len;
  }
  return {tokens};
}

}  // namespace attention

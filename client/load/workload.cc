#include "client/load/workload.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/lib/sequences.h"
#include "client/load/describe_options.h"
#include "core/runtime/status_macros.h"
#include "proto/codec/tensor.h"

namespace attention {
namespace {

constexpr size_t kMaxShown = 8;

std::string List(const std::vector<int64_t>& values) {
  const auto end = values.begin() + static_cast<int64_t>(std::min(kMaxShown, values.size()));
  return absl::StrCat(absl::StrJoin(values.begin(), end, ","), end == values.end() ? "" : ",...");
}

std::string Lengths(const char* name, const std::vector<int64_t>& lengths) {
  return lengths.empty() ? "" : absl::StrCat(", ", name, " ", List(lengths));
}

std::string DtypeName(const Tensor& tensor) { return std::string(Name(tensor.dtype())); }

struct Describer {
  std::string operator()(const HiddenStatesInput& input) const {
    std::string text;
    if (input.tensor != nullptr) {
      text = absl::StrCat("hidden states ", ShapeText(input.tensor->shape()), " ",
                          DtypeName(*input.tensor), Lengths("lengths", input.lengths));
    }
    if (input.memory != nullptr) {
      absl::StrAppend(&text, text.empty() ? "memory " : ", memory ",
                      ShapeText(input.memory->shape()),
                      Lengths("memory lengths", input.memory_lengths));
    }
    return text;
  }
  std::string operator()(const TextInput& input) const {
    return absl::StrCat(input.texts.size(), input.texts.size() == 1 ? " text" : " texts");
  }
  std::string operator()(const TokenIdsInput& input) const {
    const std::vector<int64_t>& lengths = input.lengths;
    if (lengths.size() < 2) {
      return absl::StrCat(input.ids.size(), " tokens");
    }
    const bool are_equal =
        std::count(lengths.begin(), lengths.end(), lengths[0]) == std::ssize(lengths);
    return absl::StrCat(lengths.size(), " sequences of ",
                        are_equal ? absl::StrCat(lengths[0]) : List(lengths), " tokens");
  }
  std::string operator()(const QueryKeyValueInput& input) const {
    return absl::StrCat("query ", ShapeText(input.query->shape()), " key ",
                        ShapeText(input.key->shape()), " value ", ShapeText(input.value->shape()),
                        " ", DtypeName(*input.query), Lengths("lengths", input.lengths),
                        Lengths("kv lengths", input.kv_lengths),
                        Lengths("query offsets", input.query_offsets));
  }
};

}  // namespace

absl::StatusOr<int64_t> QueryRows(const AttendRequest& request, const AttendResult& answer) {
  ASSIGN_OR_RETURN(const std::vector<SequenceSpan> sequences, SequencesOf(request, answer.tokens));
  int64_t rows = 0;
  for (const SequenceSpan& sequence : sequences) {
    rows += sequence.query_len;
  }
  return rows;
}

std::string Describe(const AttendRequest& request) {
  return std::visit(Describer(), request.input) + DescribeRun(request) + DescribeOptions(request);
}

}  // namespace attention

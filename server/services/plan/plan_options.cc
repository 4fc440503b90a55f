#include "server/services/plan/plan_options.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/attention/check_options.h"
#include "core/runtime/status_macros.h"
#include "server/services/plan/field_error.h"
#include "server/services/plan/read_options.h"

namespace attention {
namespace {

// Checks the options. `path` is empty, or the path of a sequence's options.
absl::Status Check(const AttentionOptions& options, const OptionsFit& fit,
                   const std::string& path) {
  const std::optional<OptionError> error = CheckOptions(options, fit);
  return error.has_value() ? Wrong(OptionPath(path + error->field), ": ", error->text)
                           : absl::OkStatus();
}

// Returns the visibility rules of sequence `index`, and the shared options that their check needs.
// The global tokens are those that the sequence names itself.
AttentionOptions RulesOfSequence(const PlannedOptions& planned, int index) {
  AttentionOptions rules{.similarity = planned.shared.similarity,
                         .bandwidth = planned.shared.bandwidth};
  for (const VisibilityNumber& number : kVisibilityNumbers) {
    rules.*number.value = planned.shared.*number.value;
  }
  ReadVisibility(planned.wire->sequences(index), rules);
  return rules;
}

absl::Status CheckNumOptions(const v1::AttentionOptions& wire, const OptionExtents& extents) {
  if (!wire.sequences().empty() && wire.sequences_size() != std::ssize(extents.kv_lens)) {
    return Wrong(OptionPath("sequences"), ": expected none or one for each of ",
                 extents.kv_lens.size(), " sequences, found ", wire.sequences_size());
  }
  return absl::OkStatus();
}

absl::Status CheckSequences(const PlannedOptions& planned, const std::vector<int64_t>& kv_lens) {
  const v1::AttentionOptions& wire = *planned.wire;
  for (int i = 0; i < wire.sequences_size(); ++i) {
    RETURN_IF_ERROR(Check(RulesOfSequence(planned, i), {.kv_len = kv_lens[i]},
                          absl::StrCat("sequences[", i, "].")));
  }
  return absl::OkStatus();
}

std::string OneOr(int64_t extent) { return extent == 1 ? "1" : absl::StrCat("1 or ", extent); }

absl::StatusOr<ScoreTensor> ReadScores(const v1::Tensor& wire, Payload payload, v1::DataType dtype,
                                       const OptionExtents& extents, const char* field) {
  const FieldPath path = OptionPath(field);
  absl::StatusOr<ReceivedElements> read = ReadElements(wire, std::move(payload), dtype, path.path);
  if (!read.ok()) {
    return AboutField(path, read.status());
  }
  ReceivedElements received = *std::move(read);
  const Shape& shape = received.shape;
  if (shape.size() != 4 || (shape[0] != 1 && shape[0] != std::ssize(extents.kv_lens)) ||
      (shape[1] != 1 && shape[1] != extents.num_heads) || shape[2] != extents.query_len ||
      shape[3] != extents.kv_len) {
    return Wrong(path, ".shape: expected [", OneOr(std::ssize(extents.kv_lens)), ", ",
                 OneOr(extents.num_heads), ", ", extents.query_len, ", ", extents.kv_len,
                 "], found ", ShapeText(shape));
  }
  return ScoreTensor{std::move(received.shape), std::move(received.payload), AlignedBuffer()};
}

void Keep(ScoreTensor& scores) {
  const size_t size_bytes = scores.payload.size_bytes();
  scores.elements = AlignedBuffer(size_bytes);
  scores.payload.CopyTo(0, size_bytes, scores.elements.data());
  scores.payload = Payload();
}

/// Returns a view that is not null also for a tensor without elements, since logits are rounded
/// differently with a bias than without one.
template <typename T>
ScoreView<T> ViewOf(const ScoreTensor& scores, int64_t sequence) {
  static constexpr T kNone = {};
  if (scores.shape.empty()) {
    return {};
  }
  if (scores.elements.size_bytes() == 0) {
    return {.data = &kNone, .row_stride = scores.shape[3]};
  }
  const int64_t head = scores.shape[2] * scores.shape[3];
  const int64_t batch_stride = scores.shape[0] == 1 ? 0 : scores.shape[1] * head;
  return {.data = reinterpret_cast<const T*>(scores.elements.data()) + sequence * batch_stride,
          .head_stride = scores.shape[1] == 1 ? 0 : head,
          .row_stride = scores.shape[3]};
}

}  // namespace

absl::StatusOr<PlannedOptions> PlanOptions(const Received<v1::AttendRequest>& request,
                                           const OptionExtents& extents) {
  // The number is checked first, since the others are copied.
  RETURN_IF_ERROR(CheckNumOptions(request.message.options(), extents));
  PlannedOptions options;
  options.wire = std::make_unique<const v1::AttentionOptions>(request.message.options());
  const v1::AttentionOptions& wire = *options.wire;
  ASSIGN_OR_RETURN(options.shared, ReadSharedOptions(wire, extents.head_dim));
  options.shared.causal = wire.has_causal() ? wire.causal() : extents.is_causal;
  RETURN_IF_ERROR(Check(options.shared,
                        {.num_heads = extents.num_heads,
                         .head_dim = extents.head_dim,
                         .kv_len = extents.kv_len,
                         .has_bias = wire.has_bias(),
                         .has_mask = wire.has_mask()},
                        ""));
  RETURN_IF_ERROR(CheckSequences(options, extents.kv_lens));
  if (wire.has_bias()) {
    ASSIGN_OR_RETURN(options.bias, ReadScores(wire.bias(), request.PayloadOf(wire.bias()), v1::FP32,
                                              extents, "bias"));
  }
  if (wire.has_mask()) {
    ASSIGN_OR_RETURN(options.mask, ReadScores(wire.mask(), request.PayloadOf(wire.mask()), v1::BOOL,
                                              extents, "mask"));
  }
  if (wire.weights_top_k() < 0) {
    return Wrong(OptionPath("weights_top_k"), ": expected 0 or more, found ", wire.weights_top_k());
  }
  return options;
}

int64_t SizeOfLists(const PlannedOptions& options) {
  const v1::AttentionOptions& wire = *options.wire;
  return wire.sequences().empty() && wire.global_tokens().empty()
             ? 0
             : static_cast<int64_t>(wire.SpaceUsedLong());
}

void KeepScoreTensors(PlannedOptions& options) {
  Keep(options.bias);
  Keep(options.mask);
}

AttentionOptions OptionsOfSequence(const PlannedOptions& planned, int64_t index, int64_t kv_len) {
  const v1::AttentionOptions& wire = *planned.wire;
  AttentionOptions options = planned.shared;
  if (!wire.sequences().empty()) {
    ReadVisibility(wire.sequences(static_cast<int>(index)), options);
  }
  const std::span<const int64_t> tokens = options.global_tokens;
  const auto end = std::lower_bound(tokens.begin(), tokens.end(), kv_len);
  options.global_tokens = tokens.first(end - tokens.begin());
  options.bias = ViewOf<float>(planned.bias, index);
  options.mask = ViewOf<uint8_t>(planned.mask, index);
  return options;
}

}  // namespace attention

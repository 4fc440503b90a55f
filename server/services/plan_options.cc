#include "server/services/plan_options.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "server/services/read_options.h"
#include "server/services/wrong.h"

namespace attention {
namespace {

// Beyond every position, and no sum of positions overflows.
constexpr int64_t kFar = int64_t{1} << 42;

// `part` is the request's options, or one of its sequences.
template <typename Part>
absl::Status CheckVisibility(const Part& part, const std::string& path, int64_t kv_len) {
  const std::pair<const char*, int64_t> counts[] = {
      {"window", part.window()}, {"window_right", part.window_right()}, {"prefix", part.prefix()}};
  for (const auto& [field, count] : counts) {
    if (count < 0) {
      return Wrong("options.", path, field, ": expected 0 or more, found ", count);
    }
  }
  int64_t next = 0;
  for (int i = 0; i < part.global_tokens_size(); ++i) {
    const int64_t token = part.global_tokens(i);
    if (token < next || token >= kv_len) {
      return Wrong("options.", path, "global_tokens[", i, "]: expected ascending positions, here ",
                   next, " to ", kv_len - 1, ", found ", token);
    }
    next = token + 1;
  }
  return absl::OkStatus();
}

absl::Status CheckSequences(const v1::AttentionOptions& wire, const std::vector<int64_t>& kv_lens) {
  if (!wire.sequences().empty() && wire.sequences_size() != std::ssize(kv_lens)) {
    return Wrong("options.", "sequences: expected none or one for each of ", kv_lens.size(),
                 " sequences, found ", wire.sequences_size());
  }
  for (int i = 0; i < wire.sequences_size(); ++i) {
    RETURN_IF_ERROR(
        CheckVisibility(wire.sequences(i), absl::StrCat("sequences[", i, "]."), kv_lens[i]));
  }
  return absl::OkStatus();
}

template <typename Part>
std::span<const int64_t> GlobalTokens(const Part& part, int64_t kv_len) {
  const auto& tokens = part.global_tokens();
  const auto end = std::lower_bound(tokens.begin(), tokens.end(), kv_len);
  return {tokens.data(), static_cast<size_t>(end - tokens.begin())};
}

std::string OneOr(int64_t extent) { return extent == 1 ? "1" : absl::StrCat("1 or ", extent); }

absl::StatusOr<ScoreTensor> ReadScores(const v1::Tensor& wire, Payload payload, v1::DataType dtype,
                                       const OptionExtents& extents, const char* field) {
  const std::string path = absl::StrCat("options.", field);
  ASSIGN_OR_RETURN(ReceivedElements received, ReadElements(wire, std::move(payload), dtype, path));
  const Shape& shape = received.shape;
  if (shape.size() != 4 || (shape[0] != 1 && shape[0] != std::ssize(extents.kv_lens)) ||
      (shape[1] != 1 && shape[1] != extents.num_heads) || shape[2] != extents.query_len ||
      shape[3] != extents.kv_len) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ".shape: expected [", OneOr(std::ssize(extents.kv_lens)), ", ",
                     OneOr(extents.num_heads), ", ", extents.query_len, ", ", extents.kv_len,
                     "], found ", ShapeText(shape)));
  }
  return ScoreTensor{std::move(received.shape), std::move(received.payload), AlignedBuffer()};
}

void Keep(ScoreTensor& scores) {
  const size_t size_bytes = scores.payload.size_bytes();
  scores.elements = AlignedBuffer(size_bytes);
  scores.payload.CopyTo(0, size_bytes, scores.elements.data());
  scores.payload = Payload();
}

template <typename T>
ScoreView<T> ViewOf(const ScoreTensor& scores, int64_t sequence) {
  if (scores.elements.size_bytes() == 0) {
    return {};
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
  PlannedOptions options;
  options.wire = std::make_unique<const v1::AttentionOptions>(request.message.options());
  const v1::AttentionOptions& wire = *options.wire;
  ASSIGN_OR_RETURN(options.shared, ReadSharedOptions(wire, extents.num_heads, extents.head_dim));
  options.shared.causal = wire.has_causal() ? wire.causal() : extents.is_causal;
  RETURN_IF_ERROR(CheckVisibility(wire, "", extents.kv_len));
  RETURN_IF_ERROR(CheckSequences(wire, extents.kv_lens));
  if (wire.has_bias()) {
    ASSIGN_OR_RETURN(options.bias, ReadScores(wire.bias(), request.PayloadOf(wire.bias()), v1::FP32,
                                              extents, "bias"));
  }
  if (wire.has_mask()) {
    ASSIGN_OR_RETURN(options.mask, ReadScores(wire.mask(), request.PayloadOf(wire.mask()), v1::BOOL,
                                              extents, "mask"));
  }
  if (wire.weights_top_k() < 0) {
    return Wrong("options.", "weights_top_k: expected 0 or more, found ", wire.weights_top_k());
  }
  return options;
}

void KeepScoreTensors(PlannedOptions& options) {
  Keep(options.bias);
  Keep(options.mask);
}

AttentionOptions OptionsOfSequence(const PlannedOptions& planned, int64_t index, int64_t kv_len) {
  const v1::AttentionOptions& wire = *planned.wire;
  const v1::SequenceOptions& own = wire.sequences().empty()
                                       ? v1::SequenceOptions::default_instance()
                                       : wire.sequences(static_cast<int>(index));
  AttentionOptions options = planned.shared;
  options.causal = own.has_causal() ? own.causal() : options.causal;
  options.window = std::min(kFar, own.has_window() ? own.window() : wire.window());
  options.window_right =
      std::min(kFar, own.has_window_right() ? own.window_right() : wire.window_right());
  options.prefix = std::min(kFar, own.has_prefix() ? own.prefix() : wire.prefix());
  options.global_tokens =
      own.global_tokens().empty() ? GlobalTokens(wire, kv_len) : GlobalTokens(own, kv_len);
  options.bias = ViewOf<float>(planned.bias, index);
  options.mask = ViewOf<uint8_t>(planned.mask, index);
  return options;
}

}  // namespace attention

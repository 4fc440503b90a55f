#include "core/layers/feed_forward.h"

#include <vector>

namespace attention {
namespace {

constexpr BufferName kFeedForward{"feed-forward rows"};

PackedLinear PackUp(const FeedForwardWeights& w, const PackedLinear::Format& format) {
  std::vector<PackedLinear::Part> parts;
  if (w.gate.has_value()) {
    parts.push_back({*w.gate, w.d_hidden});
  }
  parts.push_back({w.up, w.d_hidden});
  PackedLinear::Format up = format;
  up.is_gated = w.gate.has_value();
  return PackedLinear(w.d_model, parts, up);
}

PackedLinear PackDown(const FeedForwardWeights& w, const PackedLinear::Format& format) {
  const PackedLinear::Part part{w.down, w.d_model};
  return PackedLinear(w.d_hidden, {&part, 1}, format);
}

PackedLinear::Format FormatOf(const FeedForwardWeights& w, WeightsDtype dtype) {
  return {.weights = dtype, .compute = RowsDtype(dtype, w.d_model % 2 == 0 && w.d_hidden % 2 == 0)};
}

}  // namespace

FeedForward::FeedForward(const FeedForwardWeights& weights, WeightsDtype dtype)
    : activation_(weights.activation),
      row_flops_(2.0 * static_cast<double>(weights.d_model * weights.d_hidden) *
                 (weights.gate.has_value() ? 3 : 2)),
      up_(PackUp(weights, FormatOf(weights, dtype))),
      down_(PackDown(weights, FormatOf(weights, dtype))) {}

void FeedForward::Run(const MatrixView& input, const std::optional<MatrixView>& residual,
                      const MutableMatrixView& output, Workspace& workspace) const {
  const Dtype dtype = compute();
  const int64_t width = down_.in_features();
  const MutableMatrixView hidden{workspace.Buffer(kFeedForward, input.rows * width * SizeOf(dtype)),
                                 dtype, input.rows, width, width};
  const OutputRows hidden_rows{0, hidden};
  up_.Run({.input = input, .outputs = {&hidden_rows, 1}, .activation = activation_}, workspace);
  const OutputRows output_rows{0, output};
  down_.Run({.input = {hidden.data, dtype, input.rows, width, width},
             .outputs = {&output_rows, 1},
             .residual = residual},
            workspace);
}

}  // namespace attention

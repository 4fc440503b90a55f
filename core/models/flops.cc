// The floating point operations of a run of a model.
#include "core/models/model.h"
#include "core/models/model_parts.h"

namespace attention {
namespace {

struct Work {
  int64_t rows = 0;
  double attended_pairs = 0;
  int64_t memory_rows = 0;
};

double StackFlops(const Model& model, const Stack& stack, const Work& work) {
  double flops = 0;
  for (const Sublayer& sublayer : stack.sublayers) {
    flops +=
        sublayer.feed_forward != nullptr
            ? sublayer.feed_forward->row_flops() * static_cast<double>(work.rows)
            : model.layer(sublayer.attention)
                  .Flops(work.rows, work.attended_pairs, sublayer.is_cross ? work.memory_rows : 0);
  }
  return flops;
}

}  // namespace

double Model::Flops(int64_t rows, double attended_pairs, int64_t logit_rows,
                    int64_t memory_rows) const {
  const ModelParts& state = *state_;
  if (!info().has_stack) {
    return layer(0).Flops(rows, attended_pairs, memory_rows);
  }
  double flops = 2.0 * static_cast<double>(info().d_model * info().vocab_size * logit_rows);
  if (info().has_encoder) {
    flops += StackFlops(
        *this, *state.encoder,
        {.rows = memory_rows == 0 ? rows : memory_rows, .attended_pairs = attended_pairs});
  }
  const bool ends_with_encoder = info().has_encoder && memory_rows == 0;
  return ends_with_encoder ? flops
                           : flops + StackFlops(*this, state.stack,
                                                {.rows = rows,
                                                 .attended_pairs = attended_pairs,
                                                 .memory_rows = memory_rows});
}

}  // namespace attention

#include "client/cli/token_sampler.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace attention {

int TokenSampler::Choose(const v1::TopLogits& top) {
  if (options_.temperature <= 0) {
    return 0;
  }
  const int count = static_cast<int>(std::min<int64_t>(top.logits_size(), options_.top_k));
  std::vector<double> weights;
  double sum = 0;
  for (int i = 0; i < count; ++i) {
    weights.push_back(
        std::exp((double{top.logits(i)} - double{top.logits(0)}) / options_.temperature));
    sum += weights.back();
  }
  double kept = 0;
  int num_kept = 0;
  while (num_kept < count && (num_kept == 0 || kept < options_.top_p * sum)) {
    kept += weights[num_kept++];
  }
  // 53 bits: the same double everywhere, which the library's distributions do not promise.
  double left = static_cast<double>(generator_() >> 11) * 0x1p-53 * kept;
  for (int i = 0; i < num_kept; ++i) {
    left -= weights[i];
    if (left < 0) {
      return i;
    }
  }
  return num_kept - 1;
}

}  // namespace attention

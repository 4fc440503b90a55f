// Which keys are hidden from which rows of a picture, and by what.
#pragma once

#include <string>
#include <vector>

#include "client/plot/picture.h"
#include "core/reference/reference.h"

namespace attention {

/// What hides keys, in words, each once.
class HidingRules {
 public:
  void Add(const std::string& rule);
  /// "causal, window 4".
  std::string Text() const;

 private:
  std::vector<std::string> rules_;
};

/// Hides what `options` hide, whatever was hidden before; the last `extra_keys` keys are seen by
/// all rows. Adds what they are to `rules` when that is something. REQUIRES: mask and bias of
/// `options` are empty or fit the layer without those keys.
void HideByRules(const reference::Options& options, int64_t extra_keys, LayerPicture& layer,
                 HidingRules& rules);

/// Also hides what has weight 0 in all heads, and adds to `rules` that it did.
void HideZeros(LayerPicture& layer, HidingRules& rules);

}  // namespace attention

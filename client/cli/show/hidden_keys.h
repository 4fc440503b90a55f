// Which keys are hidden from which rows of a picture, and by what.
#pragma once

#include <string>
#include <vector>

#include "client/plot/picture.h"
#include "core/reference/reference.h"

namespace attention {

/// Hides from each row the keys that `options` hide, whatever was hidden before; no row has the
/// last `extra_keys` keys hidden. If a key is hidden, adds to `rules` what hides keys, each rule
/// once: "causal", "window 4". REQUIRES: mask and bias of `options` are empty or fit the layer
/// without the extra keys.
void HideByRules(const reference::Options& options, int64_t extra_keys, LayerPicture& layer,
                 std::vector<std::string>& rules);

/// Also hides the cells that have weight 0 in all heads; adds that to `rules` if there are some.
void HideZeros(LayerPicture& layer, std::vector<std::string>& rules);

}  // namespace attention

// A picture without its weights, as JSON in pages and in files of `attend run`.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "client/plot/picture.h"
#include "core/tensor/safetensors.h"

namespace attention {

/// The key of PictureFacts in the metadata of a file.
inline constexpr char kPictureFacts[] = "attend.picture";

/// Returns {title, source, hiddenBy, texts, masks, sequences: [{name, layers: [{name, number,
/// heads, rows, keys, mask, maskHeads, tensor}]}]}. `rows` and `keys` are indices into `texts`,
/// lists of tokens. `mask` is an index into `masks`, or -1; a mask has, in base64, a bit for each
/// of [maskHeads, rows, keys], the lowest bit of a byte first. Equal lists and masks are stored
/// once. REQUIRES: names and weights fit (CheckPicture).
nlohmann::json PictureFacts(const AttentionPicture& picture);

/// Returns the picture that `facts` describe, with weights from `tensors`. INVALID_ARGUMENT says
/// what does not fit.
absl::StatusOr<AttentionPicture> PictureFrom(const std::string& facts, NamedTensors tensors);

}  // namespace attention

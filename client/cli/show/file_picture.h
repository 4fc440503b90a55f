// Pictures of attention weights in files.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/plot/picture.h"
#include "proto/attention/v1/attention.pb.h"

namespace attention {

struct FilePictureOptions {
  /// FILE.npy, FILE.safetensors or FILE.safetensors:TENSOR.
  std::string path;
  /// The tokens: lines of a text, or JSON: a list of strings, such a list for each sequence, or
  /// {"rows": list, "keys": list}. Empty: as the file says, or numbers.
  std::string tokens;
  /// What [A, H, Sq, Sk] counts first: sequences instead of layers.
  bool has_sequences = false;
  /// Which keys a row sees; nothing set: as the file says, or all that has weight.
  v1::AttentionOptions visibility;
};

/// What `attend run --output` wrote, with its tokens and hidden cells; or weights from elsewhere:
/// [Sq, Sk], [H, Sq, Sk], [L, H, Sq, Sk] or [L, N, H, Sq, Sk], or in several tensors, each of which
/// is a layer, in natural order of their names, [H, Sq, Sk] or [N, H, Sq, Sk]. INVALID_ARGUMENT
/// names the tensor, the shape that was expected, and the one found.
absl::StatusOr<AttentionPicture> PictureOfFile(const FilePictureOptions& options);

}  // namespace attention

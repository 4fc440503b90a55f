// Tokens from files, for weights that bring none.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "client/plot/picture.h"

namespace attention {

/// Names the rows and keys of `picture` by what the file at `path` says (FilePictureOptions); a
/// list names both where they are equally many, else the rows. INVALID_ARGUMENT names the file,
/// what was expected and what was found.
absl::Status NameTokens(const std::string& path, AttentionPicture& picture);

}  // namespace attention

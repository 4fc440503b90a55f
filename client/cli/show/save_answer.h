// Answers in files, and pictures of those files.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/lib/attend_request.h"
#include "client/lib/attention_client.h"
#include "client/plot/picture.h"

namespace attention {

/// Writes the answer to `request`: `output` to FILE.npy; or it and `weights.N`, `log_sum_exp.N`,
/// `top_weights.N`, `top_keys.N` and `layer_weights.LAYER.N` to FILE.safetensors, with the tokens
/// and hidden cells that `attend plot` needs (picture_facts.h), for which it asks the server for
/// the model. INVALID_ARGUMENT for another extension.
absl::Status SaveAnswer(const std::string& path, AttentionClient& client,
                        const AttendRequest& request, const AttendResult& result);

/// Returns the picture of the weights in a FILE.safetensors. Of a file that SaveAnswer did not
/// write it knows no tokens and hidden cells. INVALID_ARGUMENT names its tensors if none has
/// weights.
absl::StatusOr<AttentionPicture> PictureOfFile(const std::string& path);

}  // namespace attention

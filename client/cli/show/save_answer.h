// Files of answers, and pictures of them.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/lib/attend_request.h"
#include "client/lib/attention_client.h"
#include "client/plot/picture.h"

namespace attention {

/// The answer to `request`: `output` to FILE.npy; or it and `weights.N`, `log_sum_exp.N`,
/// `top_weights.N`, `top_keys.N` and `layer_weights.LAYER.N` to FILE.safetensors, with what `attend
/// plot` wants to know of weights: tokens, and what is hidden (picture_facts.h), for which the
/// server is asked for the model. INVALID_ARGUMENT for another extension.
absl::Status SaveAnswer(const std::string& path, AttentionClient& client,
                        const AttendRequest& request, const AttendResult& result);

/// The picture of the weights in a FILE.safetensors that SaveAnswer wrote. INVALID_ARGUMENT for
/// another file.
absl::StatusOr<AttentionPicture> PictureOfFile(const std::string& path);

}  // namespace attention

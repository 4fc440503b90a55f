// Files of answers.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "client/lib/attend_request.h"
#include "client/lib/attention_client.h"

namespace attention {

/// The answer to `request`: `output` to FILE.npy; or it and `weights.N`, `log_sum_exp.N`,
/// `top_weights.N`, `top_keys.N` and `layer_weights.LAYER.N` to FILE.safetensors, with what `attend
/// plot` wants to know of weights: tokens, and what is hidden (picture_facts.h), for which the
/// server is asked for the model. INVALID_ARGUMENT for another extension.
absl::Status SaveAnswer(const std::string& path, AttentionClient& client,
                        const AttendRequest& request, const AttendResult& result);

}  // namespace attention

// The picture of an answer.
#pragma once

#include "absl/status/statusor.h"
#include "client/lib/attend_request.h"
#include "client/lib/attention_client.h"
#include "client/plot/picture.h"

namespace attention {

/// Returns all attention weights of `result`, which answers `request`; without sequences when it
/// has none. The options of the request and the layers of the model say which cells are hidden.
/// Asks the server for the model. Errors of SequencesOf and ReferenceOptionsOf.
absl::StatusOr<AttentionPicture> PictureOfAnswer(AttentionClient& client,
                                                 const AttendRequest& request,
                                                 const AttendResult& result);

}  // namespace attention

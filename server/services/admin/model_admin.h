// The calls that list, load, unload, reload and verify the models of the server's folder.
#pragma once

#include "server/models/model_loader.h"
#include "server/services/calls/native_calls.h"
#include "server/services/calls/typed_call.h"

namespace attention {

/// Adds these methods, which a loader answers; null: there is no folder of models. All but
/// ListModelStates need the right of an administrator.
void AddModelAdmin(TypedMethods<AttentionAsyncService>& methods, ModelLoader* loader);

}  // namespace attention

#include "server/services/admin/model_admin.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace attention {
namespace {

template <typename Request, typename Reply>
using AdminCall = TypedCall<AttentionAsyncService, Request, Reply>;
using LoadCall = AdminCall<v1::LoadModelRequest, v1::ModelStates>;
using UnloadCall = AdminCall<v1::UnloadModelRequest, v1::ModelStates>;
using ReloadCall = AdminCall<v1::ReloadModelsRequest, v1::ModelStates>;
using VerifyCall = AdminCall<v1::VerifyModelRequest, v1::VerifyModelResponse>;

v1::ModelState::Phase ToWire(ModelPhase phase) {
  switch (phase) {
    case ModelPhase::kLoading:
      return v1::ModelState::LOADING;
    case ModelPhase::kReady:
      return v1::ModelState::READY;
    case ModelPhase::kFailed:
      return v1::ModelState::FAILED;
    case ModelPhase::kUnloading:
      return v1::ModelState::UNLOADING;
    default:
      return v1::ModelState::UNLOADED;
  }
}

void ToWire(const ModelState& state, v1::ModelState& wire) {
  wire.set_name(state.name);
  wire.set_version(state.version);
  wire.set_phase(ToWire(state.phase));
  wire.set_serving(state.is_serving);
  wire.set_error(std::string(state.error.message()));
  wire.set_model_type(state.model_type);
  wire.set_weights_dtype(std::string(Name(state.weights_dtype)));
  wire.set_weights_bytes(state.weights_bytes);
  wire.set_read_bytes(state.read_bytes);
  wire.set_load_ns(absl::ToInt64Nanoseconds(state.load_time));
  wire.set_num_unused_tensors(state.num_unused_tensors);
}

/// Returns the states of the versions of `name` that the caller may use; with an empty name, of all
/// models.
v1::ModelStates StatesOf(const ModelLoader& loader, const std::string& name, const Caller& caller) {
  v1::ModelStates wire;
  for (const ModelState& state : loader.States()) {
    if ((name.empty() || state.name == name) && caller.MayUse(state.name)) {
      ToWire(state, *wire.add_states());
    }
  }
  return wire;
}

v1::VerifyModelResponse ToWire(const ModelVerification& verification) {
  v1::VerifyModelResponse wire;
  wire.set_model(verification.info.name);
  wire.set_version(verification.info.version);
  wire.set_weights_dtype(std::string(Name(verification.info.weights_dtype)));
  wire.set_num_tokens(verification.num_tokens);
  for (const ModelDifference& difference : verification.differences) {
    v1::VerifyModelResponse::Difference& target = *wire.add_differences();
    target.set_of(difference.of);
    target.set_max_abs_error(difference.max_abs_error);
    target.set_relative_l2(difference.relative_l2);
    if (difference.top1_agreement.has_value()) {
      target.set_top1_agreement(*difference.top1_agreement);
    }
  }
  return wire;
}

template <typename Call>
ModelRequest RequestOf(const std::shared_ptr<Call>& call) {
  ModelRequest request = {.is_cancelled = [call] { return call->is_cancelled(); }};
  if constexpr (requires { call->request().model(); }) {
    request.name = call->request().model();
    if (call->request().has_version()) {
      request.version = call->request().version();
    }
  }
  return request;
}

/// Checks the right to the model; a token of an administrator may be limited to models. Without a
/// name the caller needs the right to all models.
absl::Status CheckRight(const Caller& caller, const ModelRequest& request) {
  if (request.name.empty()) {
    return caller.models == nullptr
               ? absl::OkStatus()
               : absl::PermissionDeniedError(
                     absl::StrCat("expected a caller who may use all models, found tenant \"",
                                  caller.tenant, "\", who may use some"));
  }
  return caller.CheckModel(request.name);
}

/// Returns a Method's `begin` that calls run(request, call) if there is a folder of models and the
/// caller has the right to the model.
template <typename Call, typename Run>
auto Permitted(ModelLoader* loader, Run run) {
  return [loader, run = std::move(run)](const std::shared_ptr<Call>& call) {
    if (loader == nullptr) {
      call->Finish(NoModelFolder());
      return;
    }
    const ModelRequest request = RequestOf(call);
    if (const absl::Status status = CheckRight(call->caller(), request); !status.ok()) {
      call->Finish(status);
      return;
    }
    run(request, call);
  };
}

/// Returns a Method's `begin` that runs `operation` on the loader, then answers with the states.
template <typename Call>
auto Changing(ModelLoader* loader,
              void (ModelLoader::*operation)(const ModelRequest&, ModelLoader::Done)) {
  const auto change = [loader, operation](const ModelRequest& request,
                                          const std::shared_ptr<Call>& call) {
    (loader->*operation)(request, [loader, call, name = request.name](const absl::Status& status) {
      if (status.ok()) {
        call->Finish(Contain("the answer", [&]() -> absl::StatusOr<v1::ModelStates> {
          return StatesOf(*loader, name, call->caller());
        }));
      } else {
        call->Finish(call->caller().HideOtherModels(status));
      }
    });
  };
  return Permitted<Call>(loader, change);
}

/// Returns a Method's `begin` that verifies a model, then answers with the differences.
template <typename Call>
auto Verifying(ModelLoader* loader) {
  const auto verify = [loader](const ModelRequest& request, const std::shared_ptr<Call>& call) {
    loader->Verify(request, [call](const absl::StatusOr<ModelVerification>& result) {
      if (result.ok()) {
        call->Finish(Contain("the answer", [&]() -> absl::StatusOr<v1::VerifyModelResponse> {
          return ToWire(*result);
        }));
      } else {
        call->Finish(call->caller().HideOtherModels(result.status()));
      }
    });
  };
  return Permitted<Call>(loader, verify);
}

}  // namespace

void AddModelAdmin(TypedMethods<AttentionAsyncService>& methods, ModelLoader* loader) {
  methods.Add<v1::ListModelStatesRequest, v1::ModelStates>(
      "ListModelStates", Right::kCall,
      [loader](const v1::ListModelStatesRequest&, const Caller& caller) {
        return loader == nullptr ? absl::StatusOr<v1::ModelStates>(NoModelFolder())
                                 : StatesOf(*loader, "", caller);
      });
  methods.AddForAdmins<LoadCall>("LoadModel", Changing<LoadCall>(loader, &ModelLoader::Load));
  methods.AddForAdmins<UnloadCall>("UnloadModel",
                                   Changing<UnloadCall>(loader, &ModelLoader::Unload));
  methods.AddForAdmins<ReloadCall>("ReloadModels",
                                   Changing<ReloadCall>(loader, &ModelLoader::Reload));
  methods.AddForAdmins<VerifyCall>("VerifyModel", Verifying<VerifyCall>(loader));
}

}  // namespace attention

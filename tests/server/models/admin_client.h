// A server with a folder of models, and the calls that change what it serves.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "proto/codec/status.h"
#include "tests/server/wire_tensors.h"
#include "tests/support/in_process_server.h"
#include "tests/support/matchers.h"
#include "tests/support/model_folder.h"

namespace attention {

inline ServerOptions OptionsFor(const std::string& folder, LoadFunction load = LoadFakeModel) {
  ServerOptions options;
  options.admin_listen = "127.0.0.1:0";
  options.threads = 2;
  options.models.folder.path = folder;
  options.models.load = std::move(load);
  return options;
}

/// For a model of FakeModelFolder.
inline v1::AttendRequest RequestFor(const std::string& model) {
  v1::AttendRequest request = DemoRequest(SeededTensor(7, Dtype::kF32, {2, 5, 32}));
  request.set_model(model);
  return request;
}

class AdminClient {
 public:
  explicit AdminClient(const InProcessServer& server) : client_(server.NewAdminChannel()) {}

  AttendClient& attend() { return client_; }
  v1::AttentionService::Stub& stub() { return client_.stub(); }

  absl::StatusOr<v1::ModelStates> Load(const std::string& model, int64_t version = 0) {
    v1::LoadModelRequest request;
    return Named(&v1::AttentionService::Stub::LoadModel, request, model, version);
  }
  absl::StatusOr<v1::ModelStates> Unload(const std::string& model, int64_t version = 0) {
    v1::UnloadModelRequest request;
    return Named(&v1::AttentionService::Stub::UnloadModel, request, model, version);
  }
  absl::StatusOr<v1::VerifyModelResponse> Verify(const std::string& model, int64_t version = 0) {
    v1::VerifyModelRequest request;
    return Named(&v1::AttentionService::Stub::VerifyModel, request, model, version);
  }
  absl::StatusOr<v1::ModelStates> Reload() {
    return Call(&v1::AttentionService::Stub::ReloadModels, v1::ReloadModelsRequest());
  }
  absl::StatusOr<v1::ModelStates> List() {
    return Call(&v1::AttentionService::Stub::ListModelStates, v1::ListModelStatesRequest());
  }

 private:
  template <typename Request, typename Reply>
  using Method = grpc::Status (v1::AttentionService::Stub::*)(grpc::ClientContext*, const Request&,
                                                              Reply*);
  template <typename Request, typename Reply>
  absl::StatusOr<Reply> Named(Method<Request, Reply> method, Request& request,
                              const std::string& model, int64_t version) {
    request.set_model(model);
    if (version > 0) {
      request.set_version(version);
    }
    return Call(method, request);
  }
  template <typename Request, typename Reply>
  absl::StatusOr<Reply> Call(Method<Request, Reply> method, const Request& request) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(5));
    Reply reply;
    const grpc::Status status = (client_.stub().*method)(&context, request, &reply);
    if (!status.ok()) {
      return ToAbslStatus(status);
    }
    return reply;
  }

  AttendClient client_;
};

/// "NAME:VERSION PHASE", with a + if it serves. UNLOADING counts as UNLOADED: a call that has been
/// answered may hold its model for a moment longer.
inline std::vector<std::string> Lines(const absl::StatusOr<v1::ModelStates>& states) {
  std::vector<std::string> lines;
  EXPECT_THAT(states, IsOk());
  const v1::ModelStates all = states.value_or(v1::ModelStates());
  for (const v1::ModelState& state : all.states()) {
    const v1::ModelState::Phase phase =
        state.phase() == v1::ModelState::UNLOADING ? v1::ModelState::UNLOADED : state.phase();
    lines.push_back(absl::StrCat(state.name(), ":", state.version(), " ",
                                 v1::ModelState::Phase_Name(phase), state.serving() ? "+" : ""));
  }
  return lines;
}

}  // namespace attention

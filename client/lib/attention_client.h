// The C++ client of Attend: tensors in, absl::StatusOr out.
//
//   const ConnectionOptions connection = {.server = "127.0.0.1:8001"};
//   ASSIGN_OR_RETURN(auto client, AttentionClient::Connect({.connection = connection}));
//   ASSIGN_OR_RETURN(AttendResult result, client->Attend({.model = "demo", .input =
//   HiddenStatesInput{&rows}}));
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/lib/attend_request.h"
#include "client/lib/connection_options.h"
#include "proto/attention/v1/attention.pb.h"
#include "proto/grpc/health/v1/health.pb.h"

namespace attention {

struct ClientOptions {
  ConnectionOptions connection = {};
  /// Deadline of every call, counted from its start; positive. A call never waits longer.
  absl::Duration timeout = absl::Seconds(30);
};

/// Thread-safe; calls run side by side on one connection. Every call blocks its thread until it is
/// answered, and fails with DEADLINE_EXCEEDED after the timeout. Errors carry the server's code and
/// text; UNAVAILABLE names the address that was tried, and a message larger than the server takes
/// names the server's flag --max-message-bytes.
class AttentionClient {
 public:
  /// Opens the connection with the first call. INVALID_ARGUMENT for a timeout that is not positive;
  /// errors of MakeChannel.
  static absl::StatusOr<std::unique_ptr<AttentionClient>> Connect(const ClientOptions& options);
  ~AttentionClient();

  /// The whole answer in one message. A tensor is copied once on its way out and once on its way
  /// in.
  absl::StatusOr<AttendResult> Attend(const AttendRequest& request);

  /// The same answer, bit for bit, block by block.
  absl::StatusOr<AttendResult> AttendStream(const AttendRequest& request, const StreamSink& sink);

  /// The same by the Open Inference Protocol, of this server or another that speaks it: one call of
  /// ModelInfer. Only the output comes back, without timings of the server. INVALID_ARGUMENT also
  /// for requests that the protocol cannot express.
  absl::StatusOr<AttendResult> Infer(const AttendRequest& request);

  /// All models, in the order of name, then version.
  absl::StatusOr<std::vector<v1::Model>> ListModels();
  /// One model; without a version, the highest. NOT_FOUND for a name or version that the server
  /// does not have.
  absl::StatusOr<v1::Model> GetModel(const std::string& name,
                                     std::optional<int64_t> version = std::nullopt);

  /// The models of the server's folder; FAILED_PRECONDITION when it has none (--models). Calls that
  /// change models wait until the change is complete, so their timeout must allow for loading.
  /// attention.proto says what a missing version means. Answers have the states of the model, or of
  /// all models.
  absl::StatusOr<std::vector<v1::ModelState>> ListModelStates();
  absl::StatusOr<std::vector<v1::ModelState>> LoadModel(const std::string& name,
                                                        std::optional<int64_t> version = {});
  absl::StatusOr<std::vector<v1::ModelState>> UnloadModel(const std::string& name,
                                                          std::optional<int64_t> version = {});
  absl::StatusOr<std::vector<v1::ModelState>> ReloadModels();
  absl::StatusOr<v1::VerifyModelResponse> VerifyModel(const std::string& name,
                                                      std::optional<int64_t> version = {});

  /// Counters since the start of the server, and its present state.
  absl::StatusOr<v1::ServerStatistics> GetStatistics();

  /// Changes what the server logs as `request` says. Returns what it logs now.
  absl::StatusOr<v1::Logging> SetLogging(const v1::SetLoggingRequest& request);

  /// grpc.health.v1: OK when `service` (empty: the server as a whole; "model/NAME": a model) is
  /// SERVING, UNAVAILABLE when it is not, NOT_FOUND when the server does not know it.
  absl::Status CheckHealth(const std::string& service);

 private:
  struct State;
  explicit AttentionClient(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Called with each state; returns whether to continue.
using OnHealth = std::function<bool(grpc::health::v1::HealthCheckResponse::ServingStatus status)>;

/// grpc.health.v1 Watch of `service`, named as CheckHealth has it: calls `on_health` with the state
/// now and after each change, on this thread, until it returns false (OK), `until` has passed
/// (DEADLINE_EXCEEDED), or the call ends (its status; UNAVAILABLE when the server goes). A service
/// that the server does not know is SERVICE_UNKNOWN, and may come to be. The timeout of `options`
/// does not count here.
absl::Status WatchHealth(const ClientOptions& options, const std::string& service, absl::Time until,
                         const OnHealth& on_health);

}  // namespace attention

// The C++ client of Attend.
//
//   const ConnectionOptions connection = {.server = "127.0.0.1:8001"};
//   auto client = AttentionClient::Connect({.connection = connection});  // absl::StatusOr
//   absl::StatusOr<AttendResult> result =
//       (*client)->Attend({.model = "demo", .input = HiddenStatesInput{&rows}});
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
  /// The deadline of every call, counted from its start: positive, at most a year.
  absl::Duration timeout = absl::Seconds(30);
};

/// Calls one server, or several in turn. Thread-safe; calls run side by side on one connection.
/// Every call blocks its thread until the answer arrives, and fails with DEADLINE_EXCEEDED after
/// the timeout. Errors have the server's code and text, and its pushback as a payload (kPushback);
/// UNAVAILABLE and DEADLINE_EXCEEDED also name the address, and an error about a message that is
/// too large names the server's flag --max-message-bytes.
class AttentionClient {
 public:
  /// Makes a client, which connects with its first call. INVALID_ARGUMENT for a timeout that is not
  /// positive or is more than a year; else errors of MakeChannel.
  static absl::StatusOr<std::unique_ptr<AttentionClient>> Connect(const ClientOptions& options);
  ~AttentionClient();

  /// Returns the whole answer, which comes in one message. Each tensor is copied once when it is
  /// sent and once when it is received.
  absl::StatusOr<AttendResult> Attend(const AttendRequest& request);

  /// Passes the answer, with the same bits, to `sink` block by block. INTERNAL, whether joined or
  /// not, for a block that does not follow the one before it, and when rows are missing at the end.
  absl::StatusOr<AttendResult> AttendStream(const AttendRequest& request, const StreamSink& sink);

  /// Calls ModelInfer of the Open Inference Protocol, of this server or another that implements it.
  /// The answer has only the output, without timings of the server. INVALID_ARGUMENT also for
  /// requests that the protocol cannot express.
  absl::StatusOr<AttendResult> Infer(const AttendRequest& request);

  /// Returns all models, in the order of name, then version.
  absl::StatusOr<std::vector<v1::Model>> ListModels();
  /// Returns a model, of the highest version unless `version` is given. NOT_FOUND for a name or
  /// version that the server does not have.
  absl::StatusOr<v1::Model> GetModel(const std::string& name,
                                     std::optional<int64_t> version = std::nullopt);

  /// These calls are about the server's folder of models; FAILED_PRECONDITION without one
  /// (--models). All but VerifyModel return the states of the model, or of all models. Calls that
  /// change models need the admin right (PERMISSION_DENIED: ask the admin listener) and wait until
  /// the change is complete, so their timeout must allow for loading. attention.proto says what a
  /// missing version means.
  absl::StatusOr<std::vector<v1::ModelState>> ListModelStates();
  absl::StatusOr<std::vector<v1::ModelState>> LoadModel(const std::string& name,
                                                        std::optional<int64_t> version = {});
  absl::StatusOr<std::vector<v1::ModelState>> UnloadModel(const std::string& name,
                                                          std::optional<int64_t> version = {});
  absl::StatusOr<std::vector<v1::ModelState>> ReloadModels();
  absl::StatusOr<v1::VerifyModelResponse> VerifyModel(const std::string& name,
                                                      std::optional<int64_t> version = {});

  /// Returns counters since the start of the server, and its present state.
  absl::StatusOr<v1::ServerStatistics> GetStatistics();

  /// Changes the settings of the server's log. Returns the new ones.
  absl::StatusOr<v1::Logging> SetLogging(const v1::SetLoggingRequest& request);

  /// Calls Check of grpc.health.v1. OK if `service` (empty: the server as a whole; "model/NAME": a
  /// model) is SERVING, UNAVAILABLE if not, NOT_FOUND if the server does not know it.
  absl::Status CheckHealth(const std::string& service);

  /// Waits until `service`, which is named as for CheckHealth, is SERVING. A server that cannot be
  /// reached, or does not know the service, may do so later; any other error is returned at once.
  /// DEADLINE_EXCEEDED, with the last reason, if it is not within `timeout`.
  absl::Status WaitUntilReady(const std::string& service, absl::Duration timeout);

 private:
  struct State;
  explicit AttentionClient(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// A callback that receives each state and returns whether to continue.
using OnHealth = std::function<bool(grpc::health::v1::HealthCheckResponse::ServingStatus status)>;

/// Watches the health of a `service`, which is named as for CheckHealth, by Watch of
/// grpc.health.v1. Calls `on_health` on this thread, with the state now and after each change. The
/// state of an unknown service is SERVICE_UNKNOWN until the server has it. Returns OK after
/// `on_health` returned false, DEADLINE_EXCEEDED when `until` has passed, UNAVAILABLE when the
/// server ends, and otherwise the status of the call. The timeout of `options` does not apply.
absl::Status WatchHealth(const ClientOptions& options, const std::string& service, absl::Time until,
                         const OnHealth& on_health);

}  // namespace attention

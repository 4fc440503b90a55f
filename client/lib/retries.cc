#include "client/lib/retries.h"

#include <grpc/grpc.h>

#include <climits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace attention {
namespace {

/// Calls that may be made twice. Not among them: Decode and ModelStreamInfer, whose streams have a
/// past, and what changes models, logging or shared memory.
std::string NamesOfPureMethods() {
  struct Service {
    const char* name;
    std::vector<const char*> methods;
  };
  const Service services[] = {
      {"attention.v1.AttentionService",
       {"Attend", "AttendStream", "ListModels", "GetModel", "GetStatistics", "ListModelStates"}},
      {"inference.GRPCInferenceService",
       {"ServerLive", "ServerReady", "ModelReady", "ServerMetadata", "ModelMetadata", "ModelConfig",
        "ModelStatistics", "ModelInfer", "RepositoryIndex"}},
      {"grpc.health.v1.Health", {"Check"}}};
  std::vector<std::string> names;
  for (const Service& service : services) {
    for (const char* method : service.methods) {
      names.push_back(
          absl::StrCat(R"({"service":")", service.name, R"(","method":")", method, R"("})"));
    }
  }
  return absl::StrJoin(names, ",");
}

}  // namespace

void SetCallPolicy(const CallPolicy& policy, grpc::ChannelArguments& arguments) {
  std::string config = R"({"loadBalancingConfig":[{"round_robin":{}}])";
  if (policy.watch_health) {
    absl::StrAppend(&config, R"(,"healthCheckConfig":{"serviceName":""})");
  }
  if (policy.retries) {
    // Five attempts, gRPC's most. It stops them while more than half of all fail.
    absl::StrAppend(&config, R"(,"methodConfig":[{"name":[)", NamesOfPureMethods(),
                    R"(],"retryPolicy":{"maxAttempts":5,"initialBackoff":"0.1s",)",
                    R"("maxBackoff":"2s","backoffMultiplier":2,)",
                    R"("retryableStatusCodes":["UNAVAILABLE","RESOURCE_EXHAUSTED"]}}],)",
                    R"("retryThrottling":{"maxTokens":1000,"tokenRatio":1})");
  }
  arguments.SetServiceConfigJSON(config + "}");
  // Not what DNS says.
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, policy.retries ? 1 : 0);
  // Whatever the size: what is kept are counted references to the caller's bytes.
  arguments.SetInt(GRPC_ARG_PER_RPC_RETRY_BUFFER_SIZE, INT_MAX);
}

}  // namespace attention

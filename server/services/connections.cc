#include "server/services/connections.h"

#include <grpc/grpc.h>
#include <grpc/support/alloc.h>

#include <cstdlib>
#include <iterator>
#include <memory>
#include <string>

#include "absl/strings/numbers.h"
#include "nlohmann/json.hpp"

namespace attention {
namespace {

// Of one answer; there may be more answers.
constexpr intptr_t kMaxSockets = 500;

// What a channelz function returned; an empty object when it knows nothing.
nlohmann::json Parse(char* text) {
  const std::unique_ptr<char, decltype(&gpr_free)> owner(text, &gpr_free);
  nlohmann::json json = nlohmann::json::parse(text == nullptr ? "{}" : text, nullptr, false);
  return json.is_object() ? json : nlohmann::json::object();
}

// 64-bit numbers are strings in protobuf's JSON.
intptr_t IdOf(const nlohmann::json& reference, const char* key) {
  int64_t id = 0;
  return absl::SimpleAtoi(reference.value(key, ""), &id) ? static_cast<intptr_t>(id) : 0;
}

int64_t CountSockets(intptr_t server) {
  int64_t count = 0;
  for (intptr_t first = 0;;) {
    const nlohmann::json page = Parse(grpc_channelz_get_server_sockets(server, first, kMaxSockets));
    const nlohmann::json sockets = page.value("socketRef", nlohmann::json::array());
    count += std::ssize(sockets);
    if (sockets.empty() || page.value("end", true)) {
      return count;
    }
    first = IdOf(sockets.back(), "socketId") + 1;
  }
}

}  // namespace

int64_t CountConnections() {
  int64_t count = 0;
  for (intptr_t first = 0;;) {
    const nlohmann::json page = Parse(grpc_channelz_get_servers(first));
    const nlohmann::json servers = page.value("server", nlohmann::json::array());
    for (const nlohmann::json& server : servers) {
      first = IdOf(server.value("ref", nlohmann::json::object()), "serverId") + 1;
      count += CountSockets(first - 1);
    }
    if (servers.empty() || page.value("end", true)) {
      return count;
    }
  }
}

}  // namespace attention

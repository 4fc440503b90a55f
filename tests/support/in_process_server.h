// The real server, in this process, on a free port.
#pragma once

#include <grpcpp/create_channel.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "server/server.h"

namespace attention {

/// Serves until destroyed, with all its models from the beginning. Ends the program when the server
/// does not start.
class InProcessServer {
 public:
  explicit InProcessServer(ServerOptions options = {}) {
    options.listen = {"127.0.0.1:0"};
    absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(options);
    if (!server.ok()) {
      std::cerr << server.status() << std::endl;
      std::abort();
    }
    server_ = *std::move(server);
    if (!server_->WaitUntilReady(absl::Minutes(2))) {
      std::cerr << "the server's models are not loaded" << std::endl;
      std::abort();
    }
  }

  Server& server() { return *server_; }
  /// 127.0.0.1 and the port that was chosen.
  const std::string& address() const { return server_->listening_addresses().front(); }

  /// A channel with a connection of its own, which it has by now, and no limit on messages: a busy
  /// machine may refuse a first attempt to connect, which gRPC makes again.
  std::shared_ptr<grpc::Channel> NewChannel() const { return NewChannel(address()); }
  /// The same to the listener for administrators. REQUIRES: the options have one.
  std::shared_ptr<grpc::Channel> NewAdminChannel() const {
    return NewChannel(server_->admin_address());
  }

 private:
  static std::shared_ptr<grpc::Channel> NewChannel(const std::string& address) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetMaxSendMessageSize(-1);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto channel =
        grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
    if (!channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::minutes(1))) {
      std::cerr << "no connection to " << address << std::endl;
      std::abort();
    }
    return channel;
  }

  std::unique_ptr<Server> server_;
};

}  // namespace attention

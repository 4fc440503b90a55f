// A service of a test's own on a free port of this machine.
#pragma once

#include <grpcpp/server_builder.h>

#include <chrono>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace attention {

/// Serves from construction to destruction, when calls under way are given up. The service outlives
/// it: as its member it stands behind whatever calls use.
class LoopbackServer {
 public:
  explicit LoopbackServer(grpc::Service& service,
                          const std::shared_ptr<grpc::ServerCredentials>& credentials =
                              grpc::InsecureServerCredentials(),
                          const std::string& host = "127.0.0.1") {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(absl::StrCat(host, ":0"), credentials, &port);
    builder.RegisterService(&service);
    server_ = builder.BuildAndStart();
    EXPECT_NE(server_, nullptr);
    address_ = absl::StrCat(host, ":", port);
  }
  ~LoopbackServer() { server_->Shutdown(std::chrono::system_clock::now()); }
  LoopbackServer(const LoopbackServer&) = delete;
  LoopbackServer& operator=(const LoopbackServer&) = delete;

  const std::string& address() const { return address_; }

 private:
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

}  // namespace attention

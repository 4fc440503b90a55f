// HTTP/2 as bytes, for calls that no gRPC client would make.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "absl/strings/numbers.h"
#include "gtest/gtest.h"

namespace attention {

inline std::string Frame(char kind, char flags, uint32_t stream, const std::string& payload) {
  const size_t size = payload.size();
  std::string frame;
  for (const uint64_t byte : {size >> 16, size >> 8, size}) {
    frame.push_back(static_cast<char>(byte));
  }
  frame += {kind, flags};
  for (const int shift : {24, 16, 8, 0}) {
    frame.push_back(static_cast<char>(stream >> shift));
  }
  return frame + payload;
}

// A header that enters no table.
inline std::string Header(const std::string& name, const std::string& value) {
  return std::string(1, '\0') + static_cast<char>(name.size()) + name +
         static_cast<char>(value.size()) + value;
}

inline std::string CallHeaders(const std::string& path) {
  return "\x83\x86" + Header(":path", path) + Header(":authority", "localhost") +
         Header("content-type", "application/grpc") + Header("te", "trailers");
}

/// A connection to `address`, "127.0.0.1:PORT".
class Http2Socket {
 public:
  explicit Http2Socket(const std::string& address) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    int port = 0;
    EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
    Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Frame(4, 0, 0, ""));
  }
  ~Http2Socket() { close(socket_); }
  Http2Socket(const Http2Socket&) = delete;
  Http2Socket& operator=(const Http2Socket&) = delete;

  void Send(const std::string& bytes) {
    EXPECT_EQ(send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  /// Returns all that is received until `text` has come, or nothing comes for ten seconds.
  std::string ReceiveUntil(const std::string& text) {
    const timeval patience = {.tv_sec = 300, .tv_usec = 0};
    EXPECT_EQ(setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
    std::string received;
    char bytes[4096];
    while (received.find(text) == std::string::npos) {
      const ssize_t count = recv(socket_, bytes, sizeof(bytes), 0);
      if (count <= 0) {
        break;
      }
      received.append(bytes, static_cast<size_t>(count));
    }
    return received;
  }

 private:
  const int socket_;
};

}  // namespace attention

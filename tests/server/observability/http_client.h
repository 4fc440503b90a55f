// A client that can be as slow and as rude as a test needs it.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "gmock/gmock.h"

namespace attention {

class HttpClient {
 public:
  /// `address` is 127.0.0.1:PORT. The client has the address 127.0.0.`host`.
  explicit HttpClient(const std::string& address, int host = 1)
      : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in source = {};
    source.sin_family = AF_INET;
    source.sin_addr.s_addr = htonl((INADDR_LOOPBACK & ~0xffU) + static_cast<uint32_t>(host));
    EXPECT_EQ(bind(socket_, reinterpret_cast<sockaddr*>(&source), sizeof(source)), 0) << host;
    sockaddr_in target = {};
    target.sin_family = AF_INET;
    target.sin_port = htons(std::atoi(address.substr(address.rfind(':') + 1).c_str()));
    target.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(socket_, reinterpret_cast<sockaddr*>(&target), sizeof(target)), 0) << address;
  }
  ~HttpClient() { close(socket_); }
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// False when the server has closed the connection.
  bool Send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t count = send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
      if (count < 0) {
        return false;
      }
      text.remove_prefix(count);
    }
    return true;
  }

  /// Returns whether an answer begins within five minutes, and reads nothing of it.
  bool AwaitAnswer() {
    pollfd wait = {socket_, POLLIN, 0};
    char first = 0;
    return poll(&wait, 1, 300'000) > 0 && recv(socket_, &first, 1, MSG_PEEK) > 0;
  }

  /// What comes until the server closes the connection, or for five minutes.
  std::string ReadAll() {
    std::string all;
    char buffer[4096];
    pollfd wait = {socket_, POLLIN, 0};
    while (poll(&wait, 1, 300'000) > 0) {
      const ssize_t count = recv(socket_, buffer, sizeof(buffer), 0);
      if (count <= 0) {
        return all;
      }
      all.append(buffer, count);
    }
    ADD_FAILURE() << "the server keeps the connection open";
    return all;
  }

 private:
  const int socket_;
};

inline std::string HttpGet(const std::string& address, const std::string& path) {
  HttpClient client(address);
  client.Send("GET " + path + " HTTP/1.1\r\nHost: " + address + "\r\n\r\n");
  return client.ReadAll();
}

}  // namespace attention

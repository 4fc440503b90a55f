// An HTTP server that keeps what is posted to it, and answers as it was told.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "core/runtime/mutex.h"
#include "gmock/gmock.h"
#include "server/sockets/listening_socket.h"

namespace attention {

class HttpReceiver {
 public:
  /// One answer after the other, `HTTP/1.1 ` apart: "503 Busy\r\nRetry-After: 1", with a body after
  /// an empty line; then "200 OK".
  explicit HttpReceiver(std::vector<std::string> answers = {})
      : answers_(std::move(answers)), thread_([this] { Serve(); }) {}
  ~HttpReceiver() {
    shutdown(listening_.sockets[0].get(), SHUT_RDWR);
    {
      MutexLock lock(mutex_);
      is_ending_ = true;
    }
    thread_.join();
  }

  std::string url() const { return "http://" + listening_.address; }

  /// Head and body of what came, one after the other; waits until there are `count`.
  std::vector<std::pair<std::string, std::string>> Await(size_t count) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(5);
    MutexLock lock(mutex_);
    while (received_.size() < count && arrived_.WaitUntil(mutex_, end)) {
    }
    EXPECT_GE(received_.size(), count);
    return received_;
  }

 private:
  void Serve() {
    while (true) {
      pollfd wait = {listening_.sockets[0].get(), POLLIN, 0};
      poll(&wait, 1, 100);
      {
        MutexLock lock(mutex_);
        if (is_ending_) {
          return;
        }
      }
      const FileDescriptor connection(accept(listening_.sockets[0].get(), nullptr, nullptr));
      if (connection.get() >= 0) {
        Receive(connection.get());
      }
    }
  }

  void Receive(int connection) {
    std::string text;
    size_t head = std::string::npos;
    size_t size = 0;
    char buffer[4096];
    while (head == std::string::npos || text.size() < head + 4 + size) {
      const ssize_t count = recv(connection, buffer, sizeof(buffer), 0);
      if (count <= 0) {
        return;
      }
      text.append(buffer, count);
      head = text.find("\r\n\r\n");
      const size_t length = text.find("Content-Length: ");
      if (head != std::string::npos && length < head) {
        size = std::stoul(text.substr(length + 16));
      }
    }
    std::string answer = "200 OK";
    {
      MutexLock lock(mutex_);
      if (received_.size() < answers_.size()) {
        answer = answers_[received_.size()];
      }
      received_.emplace_back(text.substr(0, head), text.substr(head + 4));
      arrived_.NotifyAll();
    }
    const size_t end = std::min(answer.find("\r\n\r\n"), answer.size());
    const std::string body = answer.substr(std::min(end + 4, answer.size()));
    answer = "HTTP/1.1 " + answer.substr(0, end) +
             "\r\nContent-Length: " + std::to_string(body.size()) +
             "\r\nConnection: close\r\n\r\n" + body;
    send(connection, answer.data(), answer.size(), MSG_NOSIGNAL);
  }

  const std::vector<std::string> answers_;
  const ListeningSockets listening_ = *ListenOn("127.0.0.1:0");
  Mutex mutex_;
  CondVar arrived_;
  std::vector<std::pair<std::string, std::string>> received_ ABSL_GUARDED_BY(mutex_);
  bool is_ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace attention

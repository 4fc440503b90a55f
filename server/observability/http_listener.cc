#include "server/observability/http_listener.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <deque>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/runtime/status_macros.h"
#include "server/log/log.h"
#include "server/sockets/listening_socket.h"
#include "server/sockets/peer_host.h"

namespace attention {
namespace {

using std::chrono::steady_clock;

// The time after an answer in which the client reads it and stops sending. If a connection were
// closed while its bytes are unread, the answer would be lost.
constexpr auto kCloseDelay = std::chrono::seconds(2);

// The age up to which a page that is still being sent is sent to others too.
constexpr auto kSharedAge = std::chrono::seconds(1);

// What the system keeps of an answer that the client does not read. By default it keeps megabytes.
constexpr int kSendBufferBytes = 128 << 10;

using Answer = std::shared_ptr<const std::string>;

// `fields` are further header fields, each with its line end.
std::string HttpAnswer(const char* status, const std::string& content_type, const std::string& body,
                       const char* fields = "") {
  return absl::StrCat("HTTP/1.1 ", status, "\r\n", fields, "Content-Type: ", content_type,
                      "\r\nContent-Length: ", body.size(), "\r\nConnection: close\r\n\r\n", body);
}

Answer HttpRefusal(const char* status, const std::string& text, const char* fields = "") {
  return std::make_shared<const std::string>(
      HttpAnswer(status, "text/plain; charset=utf-8", text + "\n", fields));
}

}  // namespace

/// The loop of the listener's thread.
class HttpListener::Loop {
 public:
  Loop(ListeningSockets listening, FileDescriptor wake, Pages pages)
      : listening_(std::move(listening)), wake_(std::move(wake)), pages_(std::move(pages)) {
    KeepSpare();
  }

  void Run() {
    bool is_running = true;
    while (is_running) {
      if (!RunLogged("serving /metrics", [&] { is_running = ServeOnce(); })) {
        connections_.clear();
      }
    }
  }

  void RemoveSocket() { listening_.file.reset(); }  // Run does not use the file
  /// Ends Run. Any thread.
  void Stop() { eventfd_write(wake_.get(), 1); }

 private:
  /// Waits, and serves every connection that is ready. Returns false after Stop.
  bool ServeOnce() {
    if (!Wait()) {
      return false;
    }
    const steady_clock::time_point now = steady_clock::now();
    // Only connections that were polled: accepting adds others.
    const size_t known = connections_.size(), first = 1 + listening_.sockets.size();
    for (size_t i = 0; i < known; ++i) {
      if (waits_[first + i].revents != 0 && !Advance(connections_[i])) {
        connections_[i].end = now;
      }
    }
    for (size_t i = 0; i < listening_.sockets.size(); ++i) {
      if (waits_[1 + i].revents != 0) {
        Accept(listening_.sockets[i]);
      }
    }
    std::erase_if(connections_, [now](const Connection& c) { return c.end <= now; });
    made_.clear();
    KeepSpare();
    return true;
  }

  // Keeps a descriptor for one connection, so that the limit of open files, which clients may have
  // reached, is seen in /metrics.
  void KeepSpare() {
    if (spare_.get() < 0) {
      spare_ = FileDescriptor(open("/dev/null", O_RDONLY | O_CLOEXEC));
    }
  }

  struct Connection {
    FileDescriptor socket;
    std::string host;
    steady_clock::time_point end;
    std::string request = {};
    bool is_asking = true;  // the request is still to be read
    Answer answer = {};     // null: there is nothing to send yet, or any more
    size_t sent = 0;
  };

  struct SharedPage {
    std::weak_ptr<const std::string> answer;
    steady_clock::time_point made;
  };

  // Waits for an event, or until a connection's time is over. Returns false after Stop.
  bool Wait() {
    const steady_clock::time_point now = steady_clock::now();
    const bool is_pausing = now < pause_end_;
    waits_ = {{wake_.get(), POLLIN, 0}};
    for (const FileDescriptor& listener : listening_.sockets) {
      waits_.push_back({listener.get(), static_cast<short>(is_pausing ? 0 : POLLIN), 0});
    }
    steady_clock::time_point end = is_pausing ? pause_end_ : now + kPatience;
    for (const Connection& connection : connections_) {
      const short events = connection.answer ? POLLOUT : POLLIN;
      waits_.push_back({connection.socket.get(), events, 0});
      end = std::min(end, connection.end);
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - now);
    poll(waits_.data(), waits_.size(), static_cast<int>(std::max<int64_t>(0, left.count())));
    return waits_[0].revents == 0;
  }

  void Accept(const FileDescriptor& listener) {
    while (true) {
      Accepted accepted = AcceptConnection(listener);
      if (accepted.error != 0 && spare_.get() >= 0) {
        spare_ = FileDescriptor();
        accepted = AcceptConnection(listener);
      }
      if (accepted.error != 0) {
        pause_end_ = steady_clock::now() + kPauseAfterFailure;
      }
      if (accepted.connection.get() < 0) {
        return;
      }
      setsockopt(accepted.connection.get(), SOL_SOCKET, SO_SNDBUF, &kSendBufferBytes,
                 sizeof(kSendBufferBytes));
      std::string host = PeerOfConnection(accepted.connection.get()).host;
      if (std::ssize(connections_) == kMaxConnections) {
        CloseOneFor(host);
      }
      connections_.push_back(
          {std::move(accepted.connection), std::move(host), steady_clock::now() + kPatience});
    }
  }

  // Closes the oldest connection of the host that has most of them, with the new one of `host`.
  void CloseOneFor(const std::string& host) {
    std::map<std::string, int> held;
    for (const Connection& connection : connections_) {
      ++held[connection.host];
    }
    ++held[host];
    connections_.erase(std::ranges::max_element(
        connections_, {}, [&](const Connection& connection) { return held[connection.host]; }));
  }

  // Reads and writes without waiting. Returns false when the connection is over.
  bool Advance(Connection& connection) {
    if (connection.is_asking && !Read(connection)) {
      return false;
    }
    if (connection.answer != nullptr) {
      return Write(connection);
    }
    return connection.is_asking || Discard(connection);
  }

  bool Read(Connection& connection) {
    char buffer[2048];
    const ssize_t count = recv(connection.socket.get(), buffer, sizeof(buffer), 0);
    if (count <= 0) {
      return count < 0 && (errno == EAGAIN || errno == EINTR);
    }
    connection.request.append(buffer, count);
    if (connection.request.find("\r\n\r\n") != std::string::npos) {
      connection.answer = AnswerTo(connection.request);
    } else if (connection.request.size() > kMaxRequestBytes) {
      connection.answer =
          HttpRefusal("431 Request Header Fields Too Large",
                      absl::StrCat("expected at most ", kMaxRequestBytes, " bytes"));
    }
    connection.is_asking = connection.answer == nullptr;
    return true;
  }

  // Returns the answer to a request, of which only the first line counts.
  Answer AnswerTo(const std::string& request) {
    const std::vector<std::string> words =
        absl::StrSplit(request.substr(0, request.find_first_of("\r\n")), ' ');
    if (words.size() != 3 || words[2].rfind("HTTP/1.", 0) != 0) {
      return HttpRefusal("400 Bad Request", "expected a request of HTTP/1.1");
    }
    if (words[0] != "GET" && words[0] != "HEAD") {
      return HttpRefusal("405 Method Not Allowed", "expected GET or HEAD", "Allow: GET, HEAD\r\n");
    }
    const auto page = pages_.find(words[1].substr(0, words[1].find('?')));
    if (page == pages_.end()) {
      return HttpRefusal("404 Not Found", "there is no such page; try " + pages_.begin()->first);
    }
    Answer answer = AnswerWith(*page);
    return words[0] == "GET" ? answer
                             : std::make_shared<const std::string>(
                                   answer->substr(0, answer->find("\r\n\r\n") + 4));
  }

  // Returns a page with its header. Connections share it, so that connections that do not read
  // cannot fill the memory: there are only the pages of the last kPatience, one for each
  // kSharedAge.
  Answer AnswerWith(const Pages::value_type& page) {
    SharedPage& shared = shared_[page.first];
    const steady_clock::time_point now = steady_clock::now();
    Answer answer = now < shared.made + kSharedAge ? shared.answer.lock() : nullptr;
    if (answer == nullptr) {
      answer = std::make_shared<const std::string>(
          HttpAnswer("200 OK", page.second.content_type, page.second.body()));
      shared = {.answer = answer, .made = now};
      made_.push_back(answer);
    }
    return answer;
  }

  static bool Write(Connection& connection) {
    const ssize_t count = send(connection.socket.get(), connection.answer->data() + connection.sent,
                               connection.answer->size() - connection.sent, MSG_NOSIGNAL);
    if (count < 0) {
      return errno == EAGAIN || errno == EINTR;
    }
    connection.sent += static_cast<size_t>(count);
    if (connection.sent == connection.answer->size()) {
      connection.answer.reset();
      shutdown(connection.socket.get(), SHUT_WR);
      connection.end = std::min(connection.end, steady_clock::now() + kCloseDelay);
    }
    return true;
  }

  static bool Discard(Connection& connection) {
    char buffer[2048];
    const ssize_t count = recv(connection.socket.get(), buffer, sizeof(buffer), 0);
    return count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR));
  }

  ListeningSockets listening_;
  const FileDescriptor wake_;
  FileDescriptor spare_;
  const Pages pages_;
  std::map<std::string, SharedPage> shared_;  // by path
  std::vector<Answer> made_;                  // in this round, for all that wait for them
  std::deque<Connection> connections_;        // in order of their arrival
  std::vector<pollfd> waits_;                 // wake, listeners, connections
  steady_clock::time_point pause_end_;
};

HttpListener::HttpListener(std::string address, std::unique_ptr<Loop> loop)
    : address_(std::move(address)), loop_(std::move(loop)), thread_([this] { loop_->Run(); }) {}

void HttpListener::RemoveSocket() { loop_->RemoveSocket(); }

HttpListener::~HttpListener() {
  loop_->Stop();
  thread_.join();
}

absl::StatusOr<std::unique_ptr<HttpListener>> HttpListener::Start(const std::string& address,
                                                                  Pages pages) {
  ASSIGN_OR_RETURN(ListeningSockets listening, ListenOn(address));
  FileDescriptor wake(eventfd(0, EFD_CLOEXEC));
  if (wake.get() < 0) {
    return absl::UnavailableError("cannot listen: the system has no free file descriptor");
  }
  std::string listens_on = listening.address;
  auto loop = std::make_unique<Loop>(std::move(listening), std::move(wake), std::move(pages));
  return std::unique_ptr<HttpListener>(new HttpListener(std::move(listens_on), std::move(loop)));
}

}  // namespace attention

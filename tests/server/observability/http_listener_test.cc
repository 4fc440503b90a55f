// What a listener answers, and that nobody keeps others from their answer.
#include "server/observability/http_listener.h"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "tests/server/observability/http_client.h"
#include "tests/support/eventually.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_folder.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class HttpListenerTest : public ::testing::Test {
 protected:
  std::string Get(const std::string& path) { return HttpGet(address_, path); }
  std::string Ask(const std::string& request) {
    HttpClient client(address_);
    client.Send(request);
    return client.ReadAll();
  }

  // A client that has what the system keeps of its answer, and reads no more.
  std::unique_ptr<HttpClient> DeafClient() {
    auto deaf = std::make_unique<HttpClient>(address_);
    deaf->Send("GET /large HTTP/1.1\r\n\r\n");
    EXPECT_TRUE(deaf->AwaitAnswer());
    return deaf;
  }

  const std::string large_ = std::string(16 << 20, 'x');
  std::atomic<int> large_made_ = 0;
  const std::unique_ptr<HttpListener> listener_ = *HttpListener::Start(
      "127.0.0.1:0", {{"/metrics", {"text/plain", [] { return std::string("one 1\n"); }}},
                      {"/large", {"text/plain", [this] {
                                    ++large_made_;
                                    return large_;
                                  }}}});
  const std::string address_ = listener_->address();
};

TEST_F(HttpListenerTest, AnswersWithThePage) {
  EXPECT_EQ(Get("/metrics"),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n"
            "Connection: close\r\n\r\none 1\n");
}

TEST_F(HttpListenerTest, AnswersWhateverTheQuery) {
  EXPECT_THAT(Get("/metrics?name[]=one"), EndsWith("\r\n\r\none 1\n"));
}

TEST_F(HttpListenerTest, SendsAllOfAPageThatIsLargerThanTheSocketTakes) {
  EXPECT_THAT(Get("/large").size(), large_.size() + Get("/large").find("\r\n\r\n") + 4);
}

TEST_F(HttpListenerTest, AnswersHeadWithoutTheBody) {
  EXPECT_THAT(Ask("HEAD /metrics HTTP/1.1\r\n\r\n"),
              AllOf(HasSubstr("Content-Length: 6"), EndsWith("\r\n\r\n")));
}

TEST_F(HttpListenerTest, ReadsARequestThatComesInPieces) {
  HttpClient client(address_);
  for (const char c : std::string("GET /metrics HTTP/1.0\r\n\r\n")) {
    EXPECT_TRUE(client.Send(std::string(1, c)));
  }
  EXPECT_THAT(client.ReadAll(), EndsWith("one 1\n"));
}

TEST_F(HttpListenerTest, RefusesWhatItDoesNotServe) {
  EXPECT_THAT(Get("/secret"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(Ask("POST /metrics HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(Ask("what is this\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Ask("PRI * HTTP/2.0\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
}

TEST_F(HttpListenerTest, RefusesAHeaderThatDoesNotEnd) {
  EXPECT_THAT(Ask("GET /metrics HTTP/1.1\r\nX: " + std::string(100'000, 'x')),
              StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(Get("/metrics"), EndsWith("one 1\n"));
}

// The last of the slow ones is still there: it was not their time that made room.
TEST_F(HttpListenerTest, AnswersBesideClientsThatHoldAllItsConnections) {
  EXPECT_TRUE(Eventually([&] {  // on a busy machine the listener's patience may end before
    std::vector<std::unique_ptr<HttpClient>> slow;
    for (int i = 0; i < 2 * HttpListener::kMaxConnections; ++i) {
      slow.push_back(std::make_unique<HttpClient>(address_));
      slow.back()->Send("GET /metr");
    }
    EXPECT_THAT(Get("/metrics"), EndsWith("one 1\n"));
    return slow.back()->Send("ics HTTP/1.0\r\n\r\n") &&
           absl::EndsWith(slow.back()->ReadAll(), "one 1\n");
  }));
}

TEST_F(HttpListenerTest, ClosesNoConnectionOfAHostThatHasFew) {
  EXPECT_TRUE(Eventually([&] {  // on a busy machine the listener's patience may end before
    HttpClient honest(address_);
    std::vector<std::unique_ptr<HttpClient>> others;
    for (int i = 0; i < 2 * HttpListener::kMaxConnections; ++i) {
      others.push_back(std::make_unique<HttpClient>(address_, 2));
    }
    others.back()->Send("GET /metrics HTTP/1.1\r\n\r\n");
    EXPECT_THAT(others.back()->ReadAll(), EndsWith("one 1\n"));  // now all were accepted
    return honest.Send("GET /metrics HTTP/1.1\r\n\r\n") &&
           absl::EndsWith(honest.ReadAll(), "one 1\n");
  }));
}

TEST_F(HttpListenerTest, AnswersBesideClientsThatDoNotTakeTheirAnswer) {
  std::vector<std::unique_ptr<HttpClient>> deaf;
  for (int i = 0; i < 8; ++i) {
    deaf.push_back(std::make_unique<HttpClient>(address_));
    deaf.back()->Send("GET /large HTTP/1.1\r\n\r\n");
  }
  EXPECT_THAT(Get("/metrics"), EndsWith("one 1\n"));
}

TEST_F(HttpListenerTest, ClientsThatDoNotTakeTheirAnswerShareAPage) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::unique_ptr<HttpClient>> deaf;
  for (int i = 0; i < 16; ++i) {
    deaf.push_back(DeafClient());
  }
  const auto time = std::chrono::steady_clock::now() - begin;
  EXPECT_LE(large_made_.load(), 1 + time / std::chrono::seconds(1));
}

TEST_F(HttpListenerTest, APageThatWasSentIsMadeAnewForTheNextClient) {
  Get("/large");
  Get("/large");
  EXPECT_EQ(large_made_.load(), 2);
}

TEST(HttpListenerRoundTest, ClientsThatWaitTogetherShareAPage) {
  constexpr int kClients = 20;
  std::promise<void> busy, free;
  std::atomic<int> made = 0;
  const auto listener =
      *HttpListener::Start("127.0.0.1:0", {{"/busy",
                                            {"text/plain",
                                             [&] {
                                               busy.set_value();
                                               free.get_future().wait();
                                               return std::string();
                                             }}},
                                           {"/page", {"text/plain", [&] {
                                                        ++made;
                                                        return std::string("one 1\n");
                                                      }}}});
  HttpClient first(listener->address());
  first.Send("GET /busy HTTP/1.1\r\n\r\n");
  busy.get_future().wait();
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.push_back(std::make_unique<HttpClient>(listener->address()));
    clients.back()->Send("GET /page HTTP/1.1\r\n\r\n");
  }
  free.set_value();
  for (const auto& client : clients) {
    EXPECT_THAT(client->ReadAll(), EndsWith("one 1\n"));
  }
  EXPECT_LT(made.load(), kClients / 2);  // 1, unless a loaded system delivers some later
}

TEST_F(HttpListenerTest, ClosesTheConnectionOfAClientThatNeverAsks) {
  EXPECT_EQ(HttpClient(address_).ReadAll(), "");
}

TEST_F(HttpListenerTest, ListensWhereItWasTold) {
  EXPECT_THAT(address_, AllOf(StartsWith("127.0.0.1:"), Not(EndsWith(":0"))));
  EXPECT_THAT(HttpListener::Start(address_, {}),
              StatusIs(absl::StatusCode::kUnavailable,
                       "cannot listen on " + address_ + ": Address already in use"));
  EXPECT_THAT(HttpListener::Start("127.0.0.1:70000", {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "expected HOST:PORT with a port of 0 to 65535, or unix:/PATH, found "
                       "127.0.0.1:70000"));
  EXPECT_THAT(HttpListener::Start(":8002", {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("found :8002")));
}

TEST(HttpListenerUnixTest, RemovesItsFileWhenItEnds) {
  const TempFolder folder;
  const std::string path = folder.path() + "/metrics.sock";
  {
    const auto listener = HttpListener::Start("unix:" + path, {});
    ASSERT_THAT(listener, IsOk());
    EXPECT_TRUE(std::filesystem::exists(path));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace attention

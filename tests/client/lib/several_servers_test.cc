// One client of several real servers.
#include <array>
#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "client/lib/attention_client.h"
#include "client/load/bench.h"
#include "core/models/seeded_model.h"
#include "core/tensor/seeded.h"
#include "gmock/gmock.h"
#include "tests/support/eventually.h"
#include "tests/support/in_process_server.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

/// With a model named `name` beside the built-in one, to be told by.
ServerOptions Named(const std::string& name) {
  ServerOptions options;
  options.threads = 1;
  SeededModelSpec model = DemoModelSpec();
  model.name = name;
  options.random_models = {model};
  return options;
}

class SeveralServersTest : public ::testing::Test {
 protected:
  std::string addresses() const {
    return absl::StrJoin(servers_, ",",
                         [](std::string* out, const std::unique_ptr<InProcessServer>& server) {
                           absl::StrAppend(out, server->address());
                         });
  }

  LoadOptions Options() const {
    return {.connection = {.server = addresses()},
            .concurrency = 4,
            .connections = 1,
            .warmup = absl::ZeroDuration(),
            .duration = absl::InfiniteDuration(),
            .timeout = absl::Minutes(2)};
  }

  int64_t AnsweredBy(size_t server) {
    return (*AttentionClient::Connect({.connection = {.server = servers_[server]->address()}}))
        ->GetStatistics()
        ->succeeded();
  }

  /// What failed, told by code, while one of the servers is disturbed: the second one, once it has
  /// answered, until the others have answered more.
  template <typename Disturb>
  std::map<std::string, int64_t> FailuresWhile(const Disturb& disturb, const LoadOptions& options) {
    const auto client = *AttentionClient::Connect({.connection = options.connection});
    Workload workload;
    workload.request.model = "demo";
    workload.request.input = HiddenStatesInput{&rows_};
    const RequestMix mix(std::move(workload));
    const NativeProtocol protocol(false);
    const auto runner = *MakeRequestRunner(*client, mix, protocol, options);
    std::atomic<bool> stop = false;
    std::thread thread([&] {
      EXPECT_TRUE(Eventually([&] { return AnsweredBy(1) > 5; }));
      disturb();
      const int64_t before = AnsweredBy(0) + AnsweredBy(2);
      EXPECT_TRUE(Eventually([&] { return AnsweredBy(0) + AnsweredBy(2) > before + 20; }));
      stop = true;
    });
    const auto level = runner->Run(options, {.stop = &stop});
    thread.join();
    EXPECT_THAT(level, IsOk());
    EXPECT_GT(level->result.answers, 10);
    std::map<std::string, int64_t> failures;
    for (const auto& [code, tally] : level->result.failures) {
      failures[absl::StrCat(code, ": ", tally.first_text)] = tally.count;
    }
    return failures;
  }

  const Tensor rows_ = SeededTensor(1, Dtype::kF32, {1, 2, 512});
  std::array<std::unique_ptr<InProcessServer>, 3> servers_ = {
      std::make_unique<InProcessServer>(Named("a")), std::make_unique<InProcessServer>(Named("b")),
      std::make_unique<InProcessServer>(Named("c"))};
};

TEST_F(SeveralServersTest, TakeTurns) {
  const auto client = *AttentionClient::Connect({.connection = {.server = addresses()}});
  // Turns are taken among those that are connected; the first answers say when all are.
  std::map<std::string, int> turns;
  EXPECT_TRUE(Eventually([&] {
    turns[client->ListModels()->front().name()] += 1;
    return turns.size() == 3;
  }));
  turns.clear();
  for (int i = 0; i < 30; ++i) {
    turns[client->ListModels()->front().name()] += 1;
  }
  EXPECT_THAT(turns, ElementsAre(Pair("a", 10), Pair("b", 10), Pair("c", 10)));
}

TEST_F(SeveralServersTest, OneThatDrainsIsNotNoticed) {
  EXPECT_THAT(FailuresWhile([this] { servers_[1]->server().Drain(absl::Minutes(5)); }, Options()),
              IsEmpty());
}

TEST_F(SeveralServersTest, OneThatDrainsIsSoonLeftOut) {
  const auto client =
      *AttentionClient::Connect({.connection = {.server = addresses(), .retries = false}});
  AttendRequest request;
  request.model = "demo";
  request.input = HiddenStatesInput{&rows_};
  ASSERT_THAT(client->Attend(request), IsOk());
  servers_[1]->server().Drain(absl::Minutes(5));
  // Its health tells. Of nine in a row, three would be its turn.
  int in_a_row = 0;
  EXPECT_TRUE(Eventually([&] {
    const absl::Status status = client->Attend(request).status();
    in_a_row = status.ok() ? in_a_row + 1 : 0;
    EXPECT_THAT(status, AnyOf(IsOk(), StatusIs(absl::StatusCode::kUnavailable,
                                               HasSubstr("the server is draining"))));
    return in_a_row == 9;
  }));
}

}  // namespace
}  // namespace attention

// /metrics of a real server, beside the requests it counts.
#include <fcntl.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/kernels/onednn/isa.h"
#include "server/services/calls/unknown_call.h"
#include "server/sockets/connection_limit.h"
#include "server/sockets/listening_socket.h"
#include "tests/server/decode/decode_stream.h"
#include "tests/server/observability/http_client.h"
#include "tests/server/wire_tensors.h"
#include "tests/support/eventually.h"
#include "tests/support/in_process_server.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

ServerOptions WithMetrics() {
  ServerOptions options;
  options.threads = 1;
  options.metrics_listen = "127.0.0.1:0";
  options.logged_requests = LoggedRequests::kNone;
  return options;
}

class MetricsTest : public ::testing::Test {
 protected:
  // Lines of the page that begin so, sorted as they come.
  std::vector<std::string> Lines(const std::string& prefix) {
    std::vector<std::string> found;
    const std::vector<std::string> lines = absl::StrSplit(Page(), '\n');
    for (const std::string& line : lines) {
      if (absl::StartsWith(line, prefix)) {
        found.push_back(line);
      }
    }
    return found;
  }
  std::string Page() { return HttpGet(server_.server().metrics_address(), "/metrics"); }

  bool Counts(const std::string& line) {
    return Eventually([&] {
      const std::vector<std::string> lines = Lines(line.substr(0, line.rfind(' ') + 1));
      return std::find(lines.begin(), lines.end(), line) != lines.end();
    });
  }

  grpc::StatusCode Attend(const v1::AttendRequest& request) {
    grpc::ClientContext context;
    v1::AttendResponse response;
    return client_.stub().Attend(&context, request, &response).error_code();
  }

  InProcessServer server_{WithMetrics()};
  AttendClient client_{server_.NewChannel()};
};

TEST_F(MetricsTest, IsPlainTextOfPrometheus) {
  EXPECT_THAT(Page(), StartsWith("HTTP/1.1 200 OK\r\n"
                                 "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
}

TEST_F(MetricsTest, CountsRequestsByModelRpcAndCode) {
  EXPECT_EQ(Attend(DemoRequest(SeededTensor(1, Dtype::kF32, {3, 512}))), grpc::StatusCode::OK);
  EXPECT_EQ(Attend(DemoRequest(SeededTensor(1, Dtype::kF32, {3, 8}))),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_TRUE(Counts("attend_requests_total{model=\"demo\",rpc=\"Attend\",code=\"OK\"} 1"));
  EXPECT_TRUE(
      Counts("attend_requests_total{model=\"demo\",rpc=\"Attend\",code=\"INVALID_ARGUMENT\"} 1"));
  const std::string labels = "{model=\"demo\",rpc=\"Attend\",code=\"OK\"} 1";
  for (const char* const phase : {"request", "queue", "compute", "send"}) {
    EXPECT_TRUE(Counts(std::string("attend_") + phase + "_seconds_count" + labels)) << phase;
  }
  EXPECT_THAT(Lines("attend_first_block_seconds_count"), IsEmpty());
  EXPECT_TRUE(Counts("attend_batch_tokens_sum 3"));
  EXPECT_TRUE(Counts("attend_batch_requests_count 1"));
  EXPECT_TRUE(Counts("attend_padding_tokens_total 0"));
  EXPECT_TRUE(Counts("attend_copied_bytes_total 6144"));  // 3 rows of 512 floats
}

TEST_F(MetricsTest, ANameThatIsNotServedMakesNoSeries) {
  v1::AttendRequest request = DemoRequest(SeededTensor(1, Dtype::kF32, {3, 512}));
  request.set_model("made-up");
  EXPECT_EQ(Attend(request), grpc::StatusCode::NOT_FOUND);
  EXPECT_TRUE(Counts("attend_requests_total{model=\"\",rpc=\"Attend\",code=\"NOT_FOUND\"} 1"));
  EXPECT_THAT(Page(), Not(HasSubstr("made-up")));
}

TEST_F(MetricsTest, TimesTheFirstBlockOfAStream) {
  grpc::ClientContext context;
  const auto reader =
      client_.stub().AttendStream(&context, DemoRequest(SeededTensor(1, Dtype::kF32, {3, 512})));
  for (v1::AttendStreamResponse part; reader->Read(&part);) {
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_TRUE(Counts(
      "attend_first_block_seconds_count{model=\"demo\",rpc=\"AttendStream\",code=\"OK\"} 1"));
}

TEST_F(MetricsTest, SaysWhyRequestsWereRefused) {
  server_.server().Drain(absl::ZeroDuration());
  EXPECT_EQ(Attend(DemoRequest(SeededTensor(1, Dtype::kF32, {3, 512}))),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(Counts("attend_refused_total{reason=\"unavailable\"} 1"));
  EXPECT_THAT(Lines("attend_ready "), ElementsAre("attend_ready 0"));
  EXPECT_THAT(Lines("attend_all_models_served "), ElementsAre("attend_all_models_served 0"));
  EXPECT_THAT(Lines("attend_draining "), ElementsAre("attend_draining 1"));
}

TEST_F(MetricsTest, ADeadlineThatPassesCountsAsThatAndNotAsACancelledCall) {
  grpc::ChannelArguments small_window;
  small_window.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 65536);
  small_window.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  small_window.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  small_window.SetMaxReceiveMessageSize(-1);
  const auto channel = grpc::CreateCustomChannel(server_.address(),
                                                 grpc::InsecureChannelCredentials(), small_window);
  ASSERT_TRUE(
      channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::minutes(5)));
  AttendClient client(channel);
  const v1::AttendRequest request = DemoRequest(SeededTensor(1, Dtype::kF32, {2048, 512}));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(3));
  // The caller does not read the answer, so that it is still being sent at the deadline, unless the
  // machine is so slow that it is not computed by then.
  const auto reader = client.stub().AttendStream(&context, request);
  EXPECT_TRUE(Counts(
      "attend_requests_total{model=\"demo\",rpc=\"AttendStream\",code=\"DEADLINE_EXCEEDED\"} 1"));
  for (v1::AttendStreamResponse part; reader->Read(&part);) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
}

TEST_F(MetricsTest, ActionsOfASessionCountForItsModel) {
  DecodeStream stream(server_.NewChannel());
  v1::DecodeRequest open;
  open.mutable_open()->set_model("demo");
  open.mutable_open()->set_layer(0);
  ASSERT_EQ(stream.Do(open).code(), absl::StatusCode::kOk);
  v1::DecodeRequest fork;
  fork.mutable_fork()->set_new_sequence(1);
  ASSERT_EQ(stream.Do(fork).code(), absl::StatusCode::kOk);
  EXPECT_TRUE(Counts("attend_requests_total{model=\"demo\",rpc=\"Decode.open\",code=\"OK\"} 1"));
  EXPECT_TRUE(Counts("attend_requests_total{model=\"demo\",rpc=\"Decode.fork\",code=\"OK\"} 1"));
}

TEST_F(MetricsTest, DescribesServerModelsAndProcess) {
  EXPECT_THAT(Lines("attend_ready "), ElementsAre("attend_ready 1"));
  EXPECT_THAT(Lines("attend_all_models_served "), ElementsAre("attend_all_models_served 1"));
  EXPECT_THAT(Lines("attend_compute_stalled "), ElementsAre("attend_compute_stalled 0"));
  EXPECT_THAT(Lines("attend_compute_threads "), ElementsAre("attend_compute_threads 1"));
  EXPECT_THAT(Lines("attend_numa_nodes "), ElementsAre("attend_numa_nodes 1"));
  EXPECT_THAT(Lines("attend_models_loaded "), ElementsAre("attend_models_loaded 1"));
  EXPECT_THAT(Lines("attend_model_info"),
              ElementsAre("attend_model_info{model=\"demo\",version=\"1\",type=\"seeded\","
                          "weights_dtype=\"fp32\"} 1"));
  EXPECT_THAT(Lines("attend_build_info"), SizeIs(1));
  EXPECT_THAT(
      Lines("attend_processor_info"),
      ElementsAre(HasSubstr(absl::StrCat("instruction_set=\"", std::string(Name(CurrentIsa())),
                                         "\",vector_bits=\"", CurrentAbilities().vector_bits))));
  EXPECT_THAT(Lines("attend_connections "), ElementsAre("attend_connections 1"));
  const std::shared_ptr<grpc::Channel> another = server_.NewChannel();
  EXPECT_THAT(Lines("attend_connections "), ElementsAre("attend_connections 2"));
  EXPECT_THAT(Lines("process_resident_memory_bytes "), SizeIs(1));
  EXPECT_THAT(Lines("attend_parked_sessions_ended_total"),
              ElementsAre("attend_parked_sessions_ended_total{reason=\"resumed\"} 0",
                          "attend_parked_sessions_ended_total{reason=\"expired\"} 0",
                          "attend_parked_sessions_ended_total{reason=\"evicted\"} 0"));
}

// The value of a metric without labels; -1: the page does not have it.
double ValueOf(const std::string& page, const std::string& name) {
  const size_t found = page.find("\n" + name + " ");
  return found == std::string::npos ? -1 : std::stod(page.substr(found + name.size() + 2));
}

// No file can be opened beyond those that are open and `left` others, as long as it lives.
class FewFiles {
 public:
  explicit FewFiles(size_t left) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const int highest = Open();
    rlimit few = {.rlim_cur = static_cast<rlim_t>(highest) + 64, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
    max_ = few.rlim_cur;
    for (int file = highest; file >= 0; file = Open()) {
      taken_.emplace_back(file);
    }
    taken_.resize(taken_.size() - left);
  }
  ~FewFiles() { setrlimit(RLIMIT_NOFILE, &before_); }

  uint64_t max() const { return max_; }

 private:
  static int Open() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

  rlimit before_ = {};
  uint64_t max_ = 0;
  std::vector<FileDescriptor> taken_;
};

TEST_F(MetricsTest, AtTheLimitOfOpenFilesTheProcessIsStillDescribed) {
  const std::vector<std::string> start = Lines("process_start_time_seconds ");
  ASSERT_THAT(start, SizeIs(1));
  const FewFiles files(/*left=*/1);  // for the client's end of the connection
  const std::string page = Page();
  EXPECT_THAT(page, HasSubstr("\n" + start.front() + "\n"));
  EXPECT_EQ(ValueOf(page, "process_max_fds"), static_cast<double>(files.max()));
  // The connection of the page before may just have been closed.
  EXPECT_GE(ValueOf(page, "process_open_fds"), static_cast<double>(files.max()) - 1);
  EXPECT_GT(ValueOf(page, "process_resident_memory_bytes"), 0);
  EXPECT_GT(ValueOf(page, "process_virtual_memory_bytes"), 0);
}

TEST(FewFilesTest, WarnsOfALimitThatIsTooSmallForTheConnections) {
  EXPECT_EQ(FewFilesWarning(1000, 1128), "");
  EXPECT_THAT(FewFilesWarning(1000, 1127),
              StartsWith("--max-connections: expected a limit of open files (ulimit -n) of at "
                         "least 1128, 128 of which are the server's own, found 1127; each "
                         "listener takes at most 999 connections"));
  EXPECT_EQ(FewFilesWarning(1000, RLIM_INFINITY), "");
  EXPECT_EQ(ConnectionsWithin(RLIM_INFINITY, 1000), 1000);
  EXPECT_EQ(ConnectionsWithin(64, 1000), 32) << "the other half is the server's own";
}

TEST(TurnedAwayTest, ConnectionsThatFindNoPlaceAmongThoseThatWaitAreCountedApart) {
  ServerOptions options = WithMetrics();
  options.calls_without_work = 1;
  InProcessServer server(options);
  const auto count = [&](const std::string& name) {
    return ValueOf(HttpGet(server.server().metrics_address(), "/metrics"), name);
  };
  const double before = count("attend_connections_turned_away_total");
  std::vector<std::unique_ptr<HttpClient>> silent;
  ::testing::internal::CaptureStderr();
  // A host may have 256 that wait; some are passed on meanwhile.
  EXPECT_TRUE(Eventually([&] {
    for (int i = 0; i < 300; ++i) {
      silent.push_back(std::make_unique<HttpClient>(server.address()));
    }
    return count("attend_connections_turned_away_total") > before;
  }));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("connections of 127.0.0.1 are refused: 256 of it wait, of 256 in all"));
  EXPECT_EQ(count("attend_connections_refused_total"), 0);
}

TEST_F(MetricsTest, CountsCallsOfUnknownMethods) {
  const int64_t before = UnknownCall::count();
  grpc::GenericStub stub(server_.NewChannel());
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  const auto call =
      stub.PrepareUnaryCall(&context, "/a.Service/Method", grpc::ByteBuffer(), &queue);
  call->StartCall();
  grpc::ByteBuffer reply;
  grpc::Status status;
  call->Finish(&reply, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  EXPECT_TRUE(queue.Next(&tag, &ok));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_THAT(Lines("attend_unknown_calls_total "),
              ElementsAre(absl::StrCat("attend_unknown_calls_total ", before + 1)));
}

TEST_F(MetricsTest, EveryFamilyHasAHelpTextAndOneType) {
  const std::string page = Page();
  std::vector<std::string> names;
  const std::vector<std::string> lines = absl::StrSplit(page, '\n');
  for (const std::string& line : lines) {
    if (absl::StartsWith(line, "# TYPE ")) {
      const std::vector<std::string> words = absl::StrSplit(line, ' ');
      names.push_back(words[2]);
      EXPECT_THAT(page, HasSubstr("# HELP " + words[2] + " "));
    }
  }
  EXPECT_THAT(names, Contains("attend_queued_work_seconds"));
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

TEST_F(MetricsTest, StatisticsSayTheSameByModel) {
  EXPECT_EQ(Attend(DemoRequest(SeededTensor(1, Dtype::kF32, {3, 512}))), grpc::StatusCode::OK);
  EXPECT_TRUE(Counts("attend_requests_total{model=\"demo\",rpc=\"Attend\",code=\"OK\"} 1"));
  const v1::ServerStatistics statistics = client_.Statistics();
  ASSERT_EQ(statistics.models_size(), 1);
  const v1::ModelStatistics& demo = statistics.models(0);
  EXPECT_EQ(demo.model(), "demo");
  EXPECT_EQ(demo.succeeded(), 1);
  EXPECT_EQ(demo.tokens(), 3);
  EXPECT_EQ(demo.compute_ns(), statistics.compute_ns());
  EXPECT_EQ(demo.latency().counts_size(), demo.latency().bounds_ns_size() + 1);
  EXPECT_EQ(std::accumulate(demo.latency().counts().begin(), demo.latency().counts().end(), 0), 1);
  EXPECT_GT(statistics.received_bytes(), 6144);
  EXPECT_GT(statistics.sent_bytes(), 6144);
  EXPECT_GT(statistics.cpu_ns(), 0);
  EXPECT_GT(statistics.resident_bytes(), 0);
  EXPECT_FALSE(statistics.version().empty());
}

}  // namespace
}  // namespace attention

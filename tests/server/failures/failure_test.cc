// Whatever allocation or mapping fails on a request's way, or while a model is loaded: it fails
// that request and nothing else. The next one is answered with the right bits, and nothing of the
// failed one is held.
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "core/kernels/gemm/gemm.h"
#include "core/kernels/gemm/gemm_cache.h"
#include "gmock/gmock.h"
#include "server/scheduling/reply_budget.h"
#include "server/sessions/session_table.h"
#include "tests/server/decode/decode_stream.h"
#include "tests/server/failures/injection.h"
#include "tests/server/models/admin_client.h"
#include "tests/server/open_inference/infer_client.h"
#include "tests/server/open_inference/infer_requests.h"
#include "tests/server/wire_tensors.h"
#include "tests/support/eventually.h"
#include "tests/support/in_process_server.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_folder.h"

namespace attention {
namespace {

/// The bytes of an answer, or why there is none.
struct Outcome {
  absl::StatusCode code = absl::StatusCode::kOk;
  std::string text;
  std::string bytes;
};

Outcome OutcomeOf(const grpc::Status& status, std::string bytes) {
  return {static_cast<absl::StatusCode>(status.error_code()), status.error_message(),
          std::move(bytes)};
}

/// Every n up to kAllOf, then ever fewer: a path of 2,000 allocations takes some 150 trials.
constexpr int64_t kAllOf = 60;
int64_t Next(int64_t n) { return n < kAllOf ? n + 1 : n + n / 16; }

class FailureTest : public ::testing::Test {
 protected:
  explicit FailureTest(const ServerOptions& options = Options()) : server_(options) {
    SpareThisThread();
  }
  ~FailureTest() override {
    StopFailing();
    GemmCache::Get().SetMax(kMaxGemmKernels);
  }

  /// Room for few replies and sessions, so that one that leaks is soon missed.
  static ServerOptions Options() {
    ServerOptions options;
    options.threads = 2;
    options.max_reply_bytes = 4 << 20;
    options.max_cache_bytes = 64 << 20;
    options.max_sessions = 2;
    return options;
  }

  v1::ServerStatistics Statistics() { return client_.Statistics(); }

  void ExpectNothingHeld() {
    EXPECT_TRUE(Eventually([&] {
      const v1::ServerStatistics now = Statistics();
      return now.running_requests() == 0 && now.waiting_requests() == 0 &&
             now.waiting_bytes() == 0 && now.waiting_ns() == 0 && now.sessions() == 0 &&
             now.cache_bytes() <= max_kept_bytes_;
    })) << Statistics().DebugString();
  }

  /// Fails the n-th request for the resource, for every n that `ask` comes to.
  void FailEach(Resource resource, const std::function<Outcome()>& ask) {
    const Outcome expected = ask();
    ASSERT_EQ(expected.code, absl::StatusCode::kOk) << expected.text;
    int64_t failed = 0;
    bool is_over = false;
    for (int64_t n = 1; !is_over; n = Next(n)) {
      SCOPED_TRACE(n);
      FailNth(resource, n);
      const Outcome outcome = ask();
      is_over = !StopFailing();
      failed += outcome.code == absl::StatusCode::kOk ? 0 : 1;
      if (outcome.code == absl::StatusCode::kOk) {
        ASSERT_TRUE(outcome.bytes == expected.bytes) << "an answer in spite of it, a wrong one";
      } else {
        ASSERT_EQ(outcome.code, absl::StatusCode::kResourceExhausted) << outcome.text;
        ASSERT_NE(outcome.text, "");
      }
      const Outcome after = ask();
      ASSERT_EQ(after.code, absl::StatusCode::kOk) << after.text;
      ASSERT_TRUE(after.bytes == expected.bytes) << "the next request's bits";
    }
    EXPECT_GT(failed, 0);
    ExpectNothingHeld();
  }

  Outcome Attend(const v1::AttendRequest& request) {
    v1::AttendResponse response;
    const grpc::Status status = client_.Attend(request, &response);
    return OutcomeOf(status, response.output().data());
  }

  Outcome Stream(const v1::AttendRequest& request) {
    std::vector<v1::AttendStreamResponse> parts;
    const grpc::Status status = client_.AttendStream(request, &parts);
    std::string bytes;
    for (const v1::AttendStreamResponse& part : parts) {
      bytes += part.rows().output().data();
    }
    return OutcomeOf(status, std::move(bytes));
  }

  /// What may stay in the prefix cache.
  int64_t max_kept_bytes_ = 0;
  InProcessServer server_;
  AttendClient client_{server_.NewChannel()};
};

/// Grouped heads, a mask and the log-sum-exp: most of what a request can hold.
v1::AttendRequest BareRequest() {
  v1::AttendRequest request = QkvRequest(SeededTensor(1, Dtype::kF32, {70, 4, 32}),
                                         SeededTensor(2, Dtype::kF32, {90, 2, 32}),
                                         SeededTensor(3, Dtype::kF32, {90, 2, 16}));
  v1::AttentionOptions& options = *request.mutable_options();
  options.set_return_log_sum_exp(true);
  WriteTensorHeader(v1::BOOL, {1, 1, 70, 90}, *options.mutable_mask());
  options.mutable_mask()->set_data(std::string(70 * 90, '\1'));
  return request;
}

v1::AttendRequest LayerRequest() { return DemoRequest(SeededTensor(1, Dtype::kF32, {300, 512})); }

TEST_F(FailureTest, EachFailedAllocationOfAttentionWithoutAModelEndsThatRequestAlone) {
  FailEach(Resource::kHeap, [&] { return Attend(BareRequest()); });
}

/// Its inflated bytes count in the queue before there is a job.
TEST_F(FailureTest, EachFailedAllocationOfACompressedRequestEndsItAlone) {
  const auto stub = v1::AttentionService::NewStub(server_.NewChannel());
  FailEach(Resource::kHeap, [&] {
    grpc::ClientContext context;
    context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
    v1::AttendResponse response;
    const grpc::Status status = stub->Attend(&context, BareRequest(), &response);
    return OutcomeOf(status, response.output().data());
  });
}

TEST(ReplyFailureTest, EachOverdueReplyIsGivenUpOnce) {
  for (int64_t n = 1; n < 10; ++n) {
    ReplyBudget budget(100, std::chrono::seconds(1));
    const TimePoint start = TimePoint() + std::chrono::hours(1);
    std::vector<std::shared_ptr<HeldReply>> parts;
    int given_up = 0;
    for (int i = 0; i < 3; ++i) {
      parts.push_back(budget.Take("", 10, [&given_up] { ++given_up; }, start));
      parts.back()->SetComputed(start);
    }
    SpareThisThread(false);
    FailNth(Resource::kHeap, n);
    try {
      budget.GiveUpOverdue(start + std::chrono::seconds(2));
    } catch (const std::bad_alloc&) {
      EXPECT_EQ(given_up, 0);
    }
    StopFailing();
    budget.GiveUpOverdue(start + std::chrono::seconds(2));
    EXPECT_EQ(given_up, 3) << n;
  }
}

TEST(ParkFailureTest, ASessionThatCannotBeKeptEndsAndLeavesTheTable) {
  int64_t kept = 0;
  int64_t lost = 0;
  for (int64_t n = 1; n < 10; ++n) {
    SCOPED_TRACE(n);
    SessionTable table({.max_sessions = 1});
    SessionTable::Parked parked = {std::make_shared<Session>(SessionPlan()), *table.TakeSlot(""),
                                   ""};
    const std::string token = SessionTable::MakeResumeToken();
    SpareThisThread(false);
    FailNth(Resource::kHeap, n);
    try {
      table.Park(token, std::move(parked));
      ++kept;
    } catch (const std::bad_alloc&) {
      ++lost;
      EXPECT_EQ(table.statistics().sessions, 0);
    }
    StopFailing();
    EXPECT_EQ(table.statistics().sessions, table.statistics().parked);
  }
  EXPECT_GT(lost, 0);
  EXPECT_GT(kept, 0);
}

TEST_F(FailureTest, EachFailedAllocationOfALayerEndsThatRequestAlone) {
  FailEach(Resource::kHeap, [&] { return Attend(LayerRequest()); });
}

TEST_F(FailureTest, EachFailedAllocationOfAStreamEndsItAlone) {
  FailEach(Resource::kHeap, [&] { return Stream(LayerRequest()); });
}

TEST_F(FailureTest, EachFailedAllocationOfAnOpenInferenceRequestEndsItAlone) {
  InferClient infer(server_.NewChannel());
  inference::ModelInferRequest request = InferRequest("demo");
  AddTensor(request, "hidden_states", SeededTensor(1, Dtype::kF32, {1, 20, 512}));
  (*request.mutable_parameters())["causal"].set_bool_param(true);  // a map
  FailEach(Resource::kHeap, [&]() -> Outcome {
    const auto response = infer.Infer(request);
    return response.ok()
               ? Outcome{.bytes = response->raw_output_contents(0)}
               : Outcome{response.status().code(), std::string(response.status().message()), ""};
  });
}

TEST_F(FailureTest, EachFailedAllocationOfAnOpenInferenceStreamEndsItAlone) {
  InferClient infer(server_.NewChannel());
  inference::ModelInferRequest request = InferRequest("demo");
  AddTensor(request, "hidden_states", SeededTensor(1, Dtype::kF32, {1, 20, 512}));
  (*request.mutable_parameters())["causal"].set_bool_param(true);  // a map
  FailEach(Resource::kHeap, [&]() -> Outcome {
    grpc::ClientContext context;
    const auto stream = infer.stub().ModelStreamInfer(&context);
    stream->Write(request);
    stream->WritesDone();
    Outcome outcome;
    inference::ModelStreamInferResponse message;
    while (stream->Read(&message)) {
      if (message.error_message().empty()) {
        outcome.bytes += message.infer_response().raw_output_contents(0);
      } else if (absl::StrContains(message.error_message(),
                                   "memory")) {  // such messages have no code
        outcome = {absl::StatusCode::kResourceExhausted, message.error_message(), ""};
      } else {
        outcome = {absl::StatusCode::kUnknown, message.error_message(), ""};
      }
    }
    const grpc::Status end = stream->Finish();
    return end.ok() ? outcome : OutcomeOf(end, "");
  });
}

struct CheckpointFolder {
  explicit CheckpointFolder(const std::string& model = "gpt2") {
    std::filesystem::copy(ATTEND_TEST_DATA "/models/" + model, folder.path() + "/" + model);
  }
  const TempFolder folder;
};

/// A checkpoint that is unloaded and loaded before each request.
class LoadFailureTest : private CheckpointFolder, public FailureTest {
 protected:
  LoadFailureTest() : FailureTest(OptionsWith(folder.path())) {}

  static ServerOptions OptionsWith(const std::string& models) {
    ServerOptions options = Options();
    options.admin_listen = "127.0.0.1:0";
    options.models.folder.path = models;
    return options;
  }

  void ExpectNoneIsLoading() {
    const auto found = admin_.List();
    for (const v1::ModelState& state : found.ok() ? found->states() : v1::ModelStates().states()) {
      EXPECT_NE(state.phase(), v1::ModelState::LOADING) << state.name();
    }
  }

  Outcome LoadAndAsk() {
    for (const auto& states : {admin_.Unload("gpt2"), admin_.Load("gpt2")}) {
      if (!states.ok()) {
        ExpectNoneIsLoading();
        return {states.status().code(), std::string(states.status().message()), ""};
      }
    }
    v1::AttendRequest request = DemoRequest(SeededTensor(1, Dtype::kF32, {7, 36}));
    request.set_model("gpt2");
    return Attend(request);
  }

  AdminClient admin_{server_};
};

TEST_F(LoadFailureTest, EachFailedAllocationOfALoadEndsItAlone) {
  FailEach(Resource::kHeap, [&] { return LoadAndAsk(); });
}

TEST_F(LoadFailureTest, EachFailedMappingOfALoadEndsItAlone) {
  GemmCache::Get().SetMax(0);
  FailEach(Resource::kMapping, [&] { return LoadAndAsk(); });
}

/// A session from its opening to its end. A step that failed is asked once more: it has left
/// nothing, so that the bits are those of a session without a failure.
class SessionFailureTest : public FailureTest {
 protected:
  Outcome RunSession() {
    const Tensor rows = SeededTensor(1, Dtype::kF32, {90, 512});
    DecodeStream stream(channel_);
    Outcome outcome;
    const auto take = [&](const std::optional<DecodeAnswer>& answer) {
      const bool is_ok = answer.has_value() && answer->code() == absl::StatusCode::kOk;
      if (answer.has_value()) {
        EXPECT_EQ(answer->id, stream.last_id()) << answer->result.message();
      }
      if (answer.has_value() && !is_ok) {
        outcome = {answer->code(), answer->result.message(), ""};
      }
      return is_ok;
    };
    v1::DecodeRequest open = OpenModel("demo", 0);
    open.mutable_open()->set_resume_ttl_ms(1);  // so that one that could not end well is soon gone
    if (stream.TrySend(open) && take(stream.Read())) {
      const std::vector<std::pair<int64_t, int64_t>> steps = {{0, 70}, {70, 1}, {71, 19}};
      for (const auto& [first, count] : steps) {
        std::optional<DecodeAnswer> answer;
        for (int tries = 0; tries < 2 && !take(answer); ++tries) {
          answer = stream.TrySend(RowsStep(rows, first, count)) ? stream.Read() : std::nullopt;
        }
        outcome.bytes += answer.has_value() ? answer->rows : "";
      }
      outcome.code =
          outcome.bytes.size() == rows.size_bytes() ? absl::StatusCode::kOk : outcome.code;
    }
    const grpc::Status end = stream.End();
    return end.ok() ? outcome : OutcomeOf(end, "");
  }

  std::shared_ptr<grpc::Channel> channel_ = server_.NewChannel();
};

TEST_F(SessionFailureTest, EachFailedAllocationOfASessionLeavesNothingBehind) {
  FailEach(Resource::kHeap, [&] { return RunSession(); });
}

TEST_F(SessionFailureTest, EachFailedMappingOfASessionLeavesNothingBehind) {
  GemmCache::Get().SetMax(0);  // each computation generates its kernels, in memory of their own
  FailEach(Resource::kMapping, [&] { return RunSession(); });
}

/// Prompts that begin alike, in a server that keeps what they have in common, and has room for few.
class PrefixFailureTest : private CheckpointFolder, public FailureTest {
 protected:
  PrefixFailureTest() : CheckpointFolder("llama"), FailureTest(CachingOptions(folder.path())) {
    max_kept_bytes_ = kCacheBytes;
    EXPECT_THAT(AdminClient(server_).Load("llama").status(), IsOk());
  }

  static constexpr int64_t kCacheBytes = 1 << 20;
  static ServerOptions CachingOptions(const std::string& models) {
    ServerOptions options = Options();
    options.admin_listen = "127.0.0.1:0";
    options.models.folder.path = models;
    options.prefix_cache_bytes = kCacheBytes;
    return options;
  }

  /// Keeps, takes, divides and evicts. What an earlier call left makes no difference to the bits.
  Outcome AskAll() {
    Outcome outcome;
    for (const int32_t last : {1, 2, 3, 4}) {
      v1::AttendRequest request;
      request.set_model("llama");
      for (int32_t i = 0; i < 520; ++i) {
        request.mutable_token_ids()->add_ids((i * i + (last > 2 ? last : 0)) % 9);
      }
      request.mutable_token_ids()->add_ids(last);
      const Outcome one = Attend(request);
      outcome.code = one.code == absl::StatusCode::kOk ? outcome.code : one.code;
      outcome.text += one.text;
      outcome.bytes += one.bytes;
    }
    return outcome;
  }
};

TEST_F(PrefixFailureTest, EachFailedAllocationOfPromptsThatBeginAlikeLeavesTheirBits) {
  FailEach(Resource::kHeap, [&] { return AskAll(); });
}

TEST_F(FailureTest, EachFailedMappingOfAKernelEndsThatRequestAlone) {
  GemmCache::Get().SetMax(0);
  FailEach(Resource::kMapping, [&] { return Attend(BareRequest()); });
  FailEach(Resource::kMapping, [&] { return Stream(LayerRequest()); });
}

}  // namespace
}  // namespace attention

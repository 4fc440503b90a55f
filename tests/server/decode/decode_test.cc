// Sessions: the bits of the whole sequence at once, however it is cut, whoever else is there.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <thread>

#include "gmock/gmock.h"
#include "tests/server/decode/decode_stream.h"
#include "tests/server/wire_options.h"
#include "tests/server/wire_tensors.h"
#include "tests/support/eventually.h"
#include "tests/support/in_process_server.h"

namespace attention {
namespace {

constexpr size_t kRowBytes = kDemoWidth * sizeof(float);

// The whole sequence at once, causal.
std::string AtOnce(InProcessServer& server, v1::AttendRequest request) {
  request.mutable_options()->set_causal(true);
  AttendClient client(server.NewChannel());
  v1::AttendResponse response;
  const grpc::Status status = client.Attend(request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response.output().data();
}

std::string StepByStep(DecodeStream& stream, const Tensor& rows, int64_t step, int64_t sequence = 0,
                       int64_t first = 0) {
  std::string output;
  const int64_t end = rows.shape()[0];
  for (; first < end; first += step) {
    output += stream.Must(RowsStep(rows, first, std::min(step, end - first)), sequence).rows;
  }
  return output;
}

v1::DecodeRequest QkvStep(const Tensor& query, const Tensor& key_value, int64_t first,
                          int64_t count) {
  v1::DecodeRequest request;
  v1::QueryKeyValue& input = *request.mutable_step()->mutable_query_key_value();
  *input.mutable_query() = RowsStep(query, first, count).step().hidden_states().tensor();
  *input.mutable_key() = RowsStep(key_value, first, count).step().hidden_states().tensor();
  *input.mutable_value() = input.key();
  return request;
}

TEST(DecodeTest, StepsOfALayerAreTheRowsOfTheWholeSequence) {
  InProcessServer server({.threads = 2});
  const Tensor rows = SeededTensor(1, Dtype::kF32, {70, kDemoWidth});
  const std::string expected = AtOnce(server, DemoRequest(rows));
  for (const int64_t step : {1, 7, 64, 70}) {
    DecodeStream stream(server.NewChannel());
    stream.Must(OpenModel("demo"));
    EXPECT_TRUE(StepByStep(stream, rows, step) == expected) << "in steps of " << step;
    EXPECT_TRUE(stream.End().ok());
  }
}

TEST(DecodeTest, StepsWithoutAModelTakeItsKindsOfAttention) {
  InProcessServer server({.threads = 2});
  const Tensor query = SeededTensor(1, Dtype::kF32, {40, 4, 16});
  const Tensor key_value = SeededTensor(2, Dtype::kF32, {40, 2, 16});
  for (const char* const options :
       {"", "window: 9", "rotary {} key_norm {} softcap: 3", "sinks: [1, 0, -1, 2]",
        "alibi_slopes: [1, 0.5, 0.25, 0]", "similarity: GAUSSIAN bandwidth: 30"}) {
    v1::AttendRequest whole = QkvRequest(query, key_value, key_value);
    *whole.mutable_options() = Options(options);
    DecodeStream stream(server.NewChannel());
    v1::DecodeRequest open = OpenHeads(4, 2, 16);
    *open.mutable_open()->mutable_options() = Options(options);
    stream.Must(open);
    std::string output;
    for (int64_t first = 0; first < 40; first += 3) {
      output +=
          stream.Must(QkvStep(query, key_value, first, std::min<int64_t>(3, 40 - first))).rows;
    }
    EXPECT_TRUE(output == AtOnce(server, whole)) << options;
  }
}

// Adds keys [first, first + keys), and asks with queries [0, rows) from position 0 on.
v1::DecodeRequest PlacedStep(const Tensor& query, int64_t first_row, int64_t rows,
                             const Tensor& key_value, int64_t keys) {
  v1::DecodeRequest request = QkvStep(query, key_value, first_row, rows);
  v1::QueryKeyValue& input = *request.mutable_step()->mutable_query_key_value();
  *input.mutable_key() = RowsStep(key_value, 0, keys).step().hidden_states().tensor();
  *input.mutable_value() = input.key();
  input.add_query_offsets(first_row);
  return request;
}

TEST(DecodeTest, PlacedStepsAskWithoutGrowingAndGrowWithoutAsking) {
  InProcessServer server({.threads = 2});
  const Tensor query = SeededTensor(1, Dtype::kF32, {40, 4, 16});
  const Tensor key_value = SeededTensor(2, Dtype::kF32, {40, 2, 16});
  for (const char* const options : {"", "window: 9", "rotary {} key_norm {}"}) {
    v1::AttendRequest whole = QkvRequest(query, key_value, key_value);
    *whole.mutable_options() = Options(options);
    DecodeStream stream(server.NewChannel());
    v1::DecodeRequest open = OpenHeads(4, 2, 16);
    *open.mutable_open()->mutable_options() = Options(options);
    stream.Must(open);
    const DecodeAnswer grown = stream.Must(PlacedStep(query, 0, 0, key_value, 40));
    EXPECT_EQ(grown.result.length(), 40);
    EXPECT_TRUE(grown.rows.empty());
    std::string output;
    for (int64_t first = 0; first < 40; first += 8) {
      const DecodeAnswer asked = stream.Must(PlacedStep(query, first, 8, key_value, 0));
      EXPECT_EQ(asked.result.length(), 40);
      output += asked.rows;
    }
    EXPECT_TRUE(output == AtOnce(server, whole)) << options;
  }
}

TEST(DecodeTest, APlacedRowBeforeAllKeysAttendsToNone) {
  InProcessServer server({.threads = 1});
  DecodeStream stream(server.NewChannel());
  stream.Must(OpenHeads(4, 2, 16));
  const Tensor query = SeededTensor(1, Dtype::kF32, {2, 4, 16});
  const Tensor key_value = SeededTensor(2, Dtype::kF32, {2, 2, 16});
  v1::DecodeRequest step = PlacedStep(query, 0, 2, key_value, 2);
  step.mutable_step()->mutable_query_key_value()->set_query_offsets(0, -2);
  EXPECT_EQ(stream.Must(step).rows, std::string(size_t{2} * 4 * 16 * sizeof(float), '\0'));
}

TEST(DecodeTest, StepsWithoutAModelMayHaveABatchDimension) {
  InProcessServer server({.threads = 2});
  const Tensor query = SeededTensor(1, Dtype::kF32, {9, 4, 16});
  const Tensor key_value = SeededTensor(2, Dtype::kF32, {9, 2, 16});
  const auto run = [&](bool is_padded) {
    DecodeStream stream(server.NewChannel());
    stream.Must(OpenHeads(4, 2, 16));
    std::string rows;
    for (int64_t first = 0; first < 9; first += 3) {
      v1::DecodeRequest request = QkvStep(query, key_value, first, 3);
      v1::QueryKeyValue& input = *request.mutable_step()->mutable_query_key_value();
      for (v1::Tensor* tensor :
           {input.mutable_query(), input.mutable_key(), input.mutable_value()}) {
        const std::vector<int64_t> shape(tensor->shape().begin(), tensor->shape().end());
        tensor->clear_shape();
        if (is_padded) {
          tensor->add_shape(1);
        }
        tensor->mutable_shape()->Add(shape.begin(), shape.end());
      }
      rows += stream.Must(request).rows;
    }
    return rows;
  };
  EXPECT_TRUE(run(true) == run(false));
}

TEST(DecodeTest, AForkGoesItsOwnWay) {
  InProcessServer server({.threads = 2});
  const Tensor prompt = SeededTensor(1, Dtype::kF32, {50, kDemoWidth});
  const Tensor first = SeededTensor(2, Dtype::kF32, {9, kDemoWidth});
  const Tensor second = SeededTensor(3, Dtype::kF32, {9, kDemoWidth});
  const auto whole = [&](const Tensor& rest) {
    v1::AttendRequest request = DemoRequest(prompt);
    v1::Tensor& tensor = *request.mutable_hidden_states()->mutable_tensor();
    tensor.set_shape(0, 59);
    tensor.mutable_data()->append(static_cast<const char*>(rest.data()), rest.size_bytes());
    return AtOnce(server, request).substr(50 * kRowBytes);
  };
  DecodeStream stream(server.NewChannel());
  stream.Must(OpenModel("demo"));
  stream.Must(RowsStep(prompt, 0, 50));
  EXPECT_EQ(stream.Must(ForkTo(7)).result.usage().sequences(), 2);
  EXPECT_TRUE(StepByStep(stream, first, 2, 7) == whole(first));
  EXPECT_TRUE(StepByStep(stream, second, 1, 0) == whole(second));
  EXPECT_EQ(stream.Must(Release(), 7).result.usage().sequences(), 1);
  EXPECT_EQ(stream.Do(RowsStep(first, 0, 1), 7).result.message(),
            "sequence: expected one that `open` or `fork` made, found 7");
}

TEST(DecodeTest, ATruncatedSequenceIsAsItWas) {
  InProcessServer server({.threads = 2});
  const Tensor rows = SeededTensor(1, Dtype::kF32, {80, kDemoWidth});
  DecodeStream stream(server.NewChannel());
  stream.Must(OpenModel("demo"));
  const std::string expected = stream.Must(RowsStep(rows, 0, 80)).rows;
  EXPECT_EQ(stream.Must(TruncateTo(30)).result.length(), 30);
  EXPECT_TRUE(StepByStep(stream, rows, 11, 0, /*first=*/30) == expected.substr(30 * kRowBytes));
  EXPECT_EQ(stream.Do(TruncateTo(81)).result.message(),
            "truncate.length: expected 0 to 80, found 81");
}

TEST(DecodeTest, ActionsNeedNotWaitForAnswers) {
  InProcessServer server({.threads = 2});
  const Tensor rows = SeededTensor(1, Dtype::kF32, {300, kDemoWidth});
  DecodeStream stream(server.NewChannel());
  stream.Must(OpenModel("demo"));
  std::thread sender([&] {
    for (int64_t i = 0; i < 300; ++i) {
      stream.Send(RowsStep(rows, i, 1));
    }
  });
  std::string output;
  for (int64_t i = 0; i < 300; ++i) {
    const std::optional<DecodeAnswer> answer = stream.Read();
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->id, i + 2) << "in the order sent, after the opening";
    EXPECT_EQ(answer->result.length(), i + 1);
    output += answer->rows;
  }
  sender.join();
  EXPECT_TRUE(output == AtOnce(server, DemoRequest(rows)));
}

TEST(DecodeTest, WhatWaitsForAReleasedSequenceFindsItGone) {
  InProcessServer server({.threads = 1});
  const Tensor rows = SeededTensor(1, Dtype::kF32, {2000, kDemoWidth});
  DecodeStream stream(server.NewChannel());
  stream.Must(OpenModel("demo"));
  stream.Send(RowsStep(rows, 0, 2000));
  stream.Send(Release());
  stream.Send(RowsStep(rows, 0, 1));
  EXPECT_EQ(stream.Read()->result.length(), 2000);
  EXPECT_EQ(stream.Read()->code(), absl::StatusCode::kOk);
  EXPECT_EQ(stream.Read()->code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(stream.End().ok());
}

TEST(DecodeTest, SessionsAreBatchedTogetherAndNoneChangesAnother) {
  InProcessServer server({.threads = 2});
  const auto channel = server.NewChannel();
  constexpr int kSessions = 24;
  std::vector<std::thread> sessions;
  std::atomic<int64_t> together = 0;
  for (int i = 0; i < kSessions; ++i) {
    sessions.emplace_back([&, i] {
      const Tensor rows = SeededTensor(i, Dtype::kF32, {30 + i % 5, kDemoWidth});
      const std::string expected = AtOnce(server, DemoRequest(rows));
      DecodeStream stream(channel);
      stream.Must(OpenModel("demo"));
      std::mt19937 random(i);
      std::string output;
      for (int64_t first = 0; first < rows.shape()[0];) {
        const int64_t count = std::min<int64_t>(1 + random() % 4, rows.shape()[0] - first);
        const DecodeAnswer answer = stream.Must(RowsStep(rows, first, count));
        output += answer.rows;
        together += answer.result.summary().batch_requests() > 1 ? 1 : 0;
        first += count;
      }
      EXPECT_TRUE(output == expected) << "session " << i;
    });
  }
  for (std::thread& session : sessions) {
    session.join();
  }
  EXPECT_GT(together, 0);
}

TEST(DecodeTest, NanInOneSessionNeverReachesAnother) {
  InProcessServer server({.threads = 2});
  const Tensor rows = SeededTensor(1, Dtype::kF32, {100, kDemoWidth});
  const std::string expected = AtOnce(server, DemoRequest(rows));
  Tensor poison = SeededTensor(2, Dtype::kF32, {300, kDemoWidth});
  std::fill_n(poison.as<float>(), poison.num_elements(), std::numeric_limits<float>::quiet_NaN());
  for (int round = 0; round < 3; ++round) {
    DecodeStream bad(server.NewChannel());
    bad.Must(OpenModel("demo"));
    bad.Must(RowsStep(poison, 0, 300));
    if (round != 1) {  // its pages are given to the next, or it stays beside it
      EXPECT_TRUE(bad.End().ok());
    }
    DecodeStream good(server.NewChannel());
    good.Must(OpenModel("demo"));
    EXPECT_TRUE(StepByStep(good, rows, 9) == expected);
  }
}

TEST(DecodeTest, KeepsKeysAndValuesInLessMemoryWhenAsked) {
  InProcessServer server({.threads = 2});
  const Tensor rows = SeededTensor(1, Dtype::kF32, {256, kDemoWidth});
  const std::vector<double> exact = [&] {
    AttendClient client(server.NewChannel());
    v1::AttendRequest request = DemoRequest(rows);
    request.mutable_options()->set_causal(true);
    v1::AttendResponse response;
    EXPECT_TRUE(client.Attend(request, &response).ok());
    return ToDoubles(response.output());
  }();
  int64_t last_bytes = std::numeric_limits<int64_t>::max();
  for (const auto& [dtype, tolerance] :
       {std::pair(v1::FP32, 1e-9), std::pair(v1::BF16, 1e-2), std::pair(v1::INT8, 4e-2)}) {
    DecodeStream stream(server.NewChannel());
    v1::DecodeRequest open = OpenModel("demo");
    open.mutable_open()->set_cache_dtype(dtype);
    stream.Must(open);
    const DecodeAnswer answer = stream.Must(RowsStep(rows, 0, 256));
    std::vector<float> values(exact.size());
    ASSERT_EQ(answer.rows.size(), values.size() * sizeof(float));
    std::memcpy(values.data(), answer.rows.data(), answer.rows.size());
    double error = 0, norm = 0;
    for (size_t i = 0; i < exact.size(); ++i) {
      error += (values[i] - exact[i]) * (values[i] - exact[i]);
      norm += exact[i] * exact[i];
    }
    EXPECT_LE(std::sqrt(error / norm), tolerance) << v1::DataType_Name(dtype);
    EXPECT_LT(answer.result.usage().cache_bytes(), 0.7 * last_bytes);
    last_bytes = answer.result.usage().cache_bytes();
  }
}

TEST(DecodeTest, KeysWithoutAnOutputAreOnlyAppended) {
  InProcessServer server({.threads = 1});
  AttendClient client(server.NewChannel());
  const Tensor rows = SeededTensor(1, Dtype::kF32, {90, 2, 16});
  const auto step = [&rows](int64_t first, int64_t count, bool no_output) {
    v1::DecodeRequest request;
    v1::QueryKeyValue& input = *request.mutable_step()->mutable_query_key_value();
    for (v1::Tensor* const tensor :
         {input.mutable_query(), input.mutable_key(), input.mutable_value()}) {
      tensor->set_dtype(v1::FP32);
      if (first == 40) {  // padded, of one sequence
        tensor->add_shape(1);
      }
      for (const int64_t extent : {count, int64_t{2}, int64_t{16}}) {
        tensor->add_shape(extent);
      }
      tensor->set_data(rows.as<float>() + first * 32, count * 32 * sizeof(float));
    }
    request.mutable_step()->set_no_output(no_output);
    return request;
  };
  const auto tokens_of_batches = [&] {  // a batch is counted after its answers are sent
    EXPECT_TRUE(Eventually([&] { return client.Statistics().running_requests() == 0; }));
    return client.Statistics().batch_tokens();
  };
  const auto answers = [&](bool no_output) {
    DecodeStream stream(server.NewChannel());
    v1::DecodeRequest open;
    open.mutable_open()->mutable_heads()->set_num_heads(2);
    open.mutable_open()->mutable_heads()->set_head_dim(16);
    open.mutable_open()->mutable_options()->mutable_rotary()->set_base(100);
    stream.Must(open);
    const int64_t before = tokens_of_batches();
    EXPECT_EQ(stream.Must(step(0, 40, no_output)).result.length(), 40);
    v1::DecodeRequest placed = step(40, 40, no_output);
    placed.mutable_step()->mutable_query_key_value()->add_query_offsets(7);
    EXPECT_EQ(stream.Must(placed).result.length(), 80);
    EXPECT_EQ(tokens_of_batches() - before, no_output ? 0 : 80);
    return stream.Must(step(80, 10, false)).rows;
  };
  const std::string quiet = answers(true);
  EXPECT_EQ(quiet.size(), 10 * 32 * sizeof(float));
  EXPECT_TRUE(quiet == answers(false));
}

TEST(DecodeTest, AnyClientCanReadTheAnswerToALongPrompt) {
  InProcessServer server({.threads = 2});
  const Tensor rows = SeededTensor(1, Dtype::kF32, {3000, kDemoWidth});
  DecodeStream stream(server.NewChannel());  // of 4 MiB messages at most
  stream.Must(OpenModel("demo"));
  const DecodeAnswer answer = stream.Must(RowsStep(rows, 0, 3000));
  EXPECT_LE(answer.largest_message, (1 << 20) + kRowBytes);
  EXPECT_TRUE(answer.rows == AtOnce(server, DemoRequest(rows)));
  v1::DecodeRequest quiet = RowsStep(rows, 0, 2000);
  quiet.mutable_step()->set_no_output(true);
  const DecodeAnswer none = stream.Must(quiet);
  EXPECT_EQ(none.rows, "");
  EXPECT_EQ(none.result.length(), 5000);
  EXPECT_EQ(none.result.usage().tokens(), 5000);
}

}  // namespace
}  // namespace attention

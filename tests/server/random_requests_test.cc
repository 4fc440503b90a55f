// Random requests of several sequences, many at a time, whole and streamed: what each sequence gets
// has the bits of a request with it alone. ATTEND_RANDOM_REQUESTS, a number, asks so many rounds of
// 400, from a new seed each time.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/random/random.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tests/server/dice.h"
#include "tests/server/wire_options.h"
#include "tests/server/wire_tensors.h"
#include "tests/support/in_process_server.h"

namespace attention {
namespace {

/// One sequence of a request.
struct Sequence {
  int64_t rows = 0;
  int64_t keys = 0;
  int64_t offset = 0;   // the position of the first row
  std::string options;  // SequenceOptions
};

/// A request before it is written down, for all its sequences or for one.
struct RandomRequest {
  bool has_model = false;  // rows of `demo`, whose keys are its rows
  bool is_padded = false;
  Dtype dtype = Dtype::kF32;
  int64_t num_heads = 8;  // as `demo`
  int64_t num_kv_heads = 8;
  int64_t width = 64;
  int64_t value_width = 64;
  std::string options;
  std::vector<int64_t> global_tokens;
  bool has_bias = false;
  bool has_mask = false;
  bool has_own_scores = false;  // a bias or mask for each sequence and head
  uint64_t seed = 0;
  std::vector<Sequence> sequences;
};

std::string AnySequenceOptions(Dice& dice) {
  return dice.OneOf<std::string>({"", "causal: false", "causal: true", "window: 7 causal: true",
                                  "window: 3 window_right: 2", "prefix: 5 causal: true",
                                  "window: 2 window_dilation: 1"});
}

RandomRequest AnyRequest(Dice& dice) {
  RandomRequest r;
  r.seed = dice.Below(1 << 30);
  r.has_model = dice.OneIn(3);
  r.is_padded = dice.OneIn(2);
  r.dtype = dice.OneOf({Dtype::kF32, Dtype::kF32, Dtype::kBf16, Dtype::kF16});
  if (!r.has_model) {
    r.num_kv_heads = dice.OneOf<int64_t>({1, 2, 3});
    r.num_heads = r.num_kv_heads * dice.OneOf<int64_t>({1, 2, 4});
    r.width = dice.OneOf<int64_t>({1, 8, 20, 64});
    r.value_width = dice.OneOf<int64_t>({1, 16, 33});
  }
  if (dice.OneIn(6)) {
    r.options = "similarity: LINEAR ";
  } else {
    const bool is_regression = dice.OneIn(5);
    if (is_regression) {
      absl::StrAppend(&r.options,
                      "similarity: ", dice.OneOf<std::string>({"GAUSSIAN", "BOX", "TRIANGULAR"}),
                      " bandwidth: 9 ");
    } else {
      r.has_bias = dice.OneIn(4);
      absl::StrAppend(&r.options, dice.OneOf<std::string>({"", "softcap: 2 ", "scale: 0.7 "}));
    }
    r.has_mask = dice.OneIn(4);
    r.has_own_scores = dice.OneIn(2);
    absl::StrAppend(&r.options,
                    dice.OneOf<std::string>({"", "window: 9 ", "window: 5 window_dilation: 3 ",
                                             "window: 4 window_right: 4 ", "prefix: 3 "}));
    if (dice.OneIn(4)) {
      r.global_tokens = {0, 4};
    }
    absl::StrAppend(&r.options,
                    dice.OneOf<std::string>({"", "", "return_log_sum_exp: true ",
                                             "return_weights: true ", "weights_top_k: 3 "}));
  }
  absl::StrAppend(&r.options, dice.OneOf<std::string>({"", "causal: true ", "causal: false "}));
  const bool has_sequence_options = r.options.find("LINEAR") == std::string::npos && dice.OneIn(3);
  const int64_t count = 1 + dice.Below(5);
  const int64_t longest = dice.OneOf<int64_t>({3, 20, 150});
  for (int64_t i = 0; i < count; ++i) {
    Sequence sequence;
    sequence.rows = dice.Below(longest + 1);
    sequence.keys = r.has_model ? sequence.rows : 5 + dice.Below(longest + 1);
    sequence.offset = sequence.keys - sequence.rows;
    sequence.options = has_sequence_options ? AnySequenceOptions(dice) : "";
    r.sequences.push_back(sequence);
  }
  // Someone must have tokens at the global positions.
  r.sequences.front().rows = std::max<int64_t>(r.sequences.front().rows, 5);
  if (r.has_model) {
    r.sequences.front().keys = r.sequences.front().rows;
  }
  r.sequences.front().offset = r.sequences.front().keys - r.sequences.front().rows;
  return r;
}

/// The request with sequence `index` alone.
RandomRequest Only(const RandomRequest& r, int64_t index) {
  RandomRequest one = r;
  one.sequences = {r.sequences[index]};
  one.is_padded = false;
  std::erase_if(one.global_tokens, [&](int64_t at) { return at >= r.sequences[index].keys; });
  return one;
}

int64_t Longest(const RandomRequest& r, int64_t Sequence::* extent) {
  int64_t longest = 0;
  for (const Sequence& sequence : r.sequences) {
    longest = std::max(longest, sequence.*extent);
  }
  return longest;
}

/// Rows of sequence after sequence, `width` numbers each, from tables that belong to the sequence's
/// number in the whole request; padded rows are NaN, which nobody may read.
v1::Tensor RowsOf(const RandomRequest& r, int64_t first_number, int64_t Sequence::* extent,
                  const Shape& row, uint64_t seed) {
  const int64_t padded = Longest(r, extent);
  const int64_t count = std::ssize(r.sequences);
  int64_t width = 1;
  for (const int64_t size : row) {
    width *= size;
  }
  std::string data;
  int64_t total = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t rows = r.sequences[i].*extent;
    Shape shape = {rows};
    shape.insert(shape.end(), row.begin(), row.end());
    const Tensor values = SeededTensor(r.seed + seed + 7 * (first_number + i), r.dtype, shape);
    data.append(static_cast<const char*>(values.data()), values.size_bytes());
    total += rows;
    if (r.is_padded) {
      data.append((padded - rows) * width * SizeOf(r.dtype), '\xff');
    }
  }
  Shape shape = r.is_padded ? Shape{count, padded} : Shape{total};
  shape.insert(shape.end(), row.begin(), row.end());
  v1::Tensor tensor;
  WriteTensorHeader(r.dtype, shape, tensor);
  tensor.set_data(data);
  return tensor;
}

/// Writes the request down. `first_number` is the number of its first sequence in the whole one.
v1::AttendRequest Write(const RandomRequest& r, int64_t first_number = 0) {
  v1::AttendRequest request;
  if (r.has_model) {
    request.set_model("demo");
    v1::HiddenStates& input = *request.mutable_hidden_states();
    *input.mutable_tensor() = RowsOf(r, first_number, &Sequence::rows, {kDemoWidth}, 1);
    for (const Sequence& sequence : r.sequences) {
      input.add_lengths(sequence.rows);
    }
  } else {
    v1::QueryKeyValue& input = *request.mutable_query_key_value();
    *input.mutable_query() = RowsOf(r, first_number, &Sequence::rows, {r.num_heads, r.width}, 1);
    *input.mutable_key() = RowsOf(r, first_number, &Sequence::keys, {r.num_kv_heads, r.width}, 2);
    *input.mutable_value() =
        RowsOf(r, first_number, &Sequence::keys, {r.num_kv_heads, r.value_width}, 3);
    for (const Sequence& sequence : r.sequences) {
      input.add_lengths(sequence.rows);
      input.add_kv_lengths(sequence.keys);
      input.add_query_offsets(sequence.offset);
    }
  }
  v1::AttentionOptions& options = *request.mutable_options();
  options = Options(r.options);
  options.mutable_global_tokens()->Assign(r.global_tokens.begin(), r.global_tokens.end());
  const auto has_options = [](const Sequence& sequence) { return !sequence.options.empty(); };
  if (std::any_of(r.sequences.begin(), r.sequences.end(), has_options)) {
    for (const Sequence& sequence : r.sequences) {
      EXPECT_TRUE(
          google::protobuf::TextFormat::ParseFromString(sequence.options, options.add_sequences()));
    }
  }
  const Shape scores = {r.has_own_scores ? std::ssize(r.sequences) : 1,
                        r.has_own_scores ? r.num_heads : 1, Longest(r, &Sequence::rows),
                        Longest(r, &Sequence::keys)};
  const int64_t number = r.has_own_scores ? first_number : 0;
  if (r.has_bias) {
    SetScores<float>(
        v1::FP32, scores,
        [&](int64_t b, int64_t h, int64_t i, int64_t j) { return BiasAt(number + b, h, i, j); },
        options.mutable_bias());
  }
  if (r.has_mask) {
    SetScores<uint8_t>(
        v1::BOOL, scores,
        [&](int64_t b, int64_t h, int64_t i, int64_t j) { return MaskAt(number + b, h, i, j); },
        options.mutable_mask());
  }
  return request;
}

/// What a sequence gets, as bytes: rows, weights, log-sum-exp and largest weights by head.
struct Gotten {
  std::string rows;
  std::map<int64_t, std::string> weights;
  std::map<int64_t, std::string> log_sum_exp;
  std::map<int64_t, std::string> top;
  bool operator==(const Gotten&) const = default;
};

/// Cuts `[H, ...]` into heads.
void AddHeads(const v1::Tensor& tensor, std::map<int64_t, std::string>& heads) {
  const int64_t count = tensor.shape(0);
  const size_t bytes = tensor.data().size() / std::max<int64_t>(1, count);
  for (int64_t h = 0; h < count && bytes > 0; ++h) {
    heads[h] += tensor.data().substr(h * bytes, bytes);
  }
}

std::vector<Gotten> Divide(const RandomRequest& r, const v1::AttendResponse& response) {
  std::vector<Gotten> all(r.sequences.size());
  const int64_t padded = Longest(r, &Sequence::rows);
  int64_t total = 0;
  for (const Sequence& sequence : r.sequences) {
    total += r.is_padded ? padded : sequence.rows;
  }
  const std::string& data = response.output().data();
  const size_t row_bytes = data.size() / std::max<int64_t>(1, total);
  size_t at = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const size_t bytes = r.sequences[i].rows * row_bytes;
    all[i].rows = data.substr(at, bytes);
    at += bytes;
    if (r.is_padded) {
      const size_t rest = (padded - r.sequences[i].rows) * row_bytes;
      EXPECT_EQ(data.substr(at, rest), std::string(rest, '\0')) << "the padding of sequence " << i;
      at += rest;
    }
    if (response.weights_size() > 0) {
      AddHeads(response.weights(static_cast<int>(i)), all[i].weights);
    }
    if (response.log_sum_exp_size() > 0) {
      AddHeads(response.log_sum_exp(static_cast<int>(i)), all[i].log_sum_exp);
    }
    if (response.top_weights_size() > 0) {
      AddHeads(response.top_weights(static_cast<int>(i)).weights(), all[i].top);
      AddHeads(response.top_weights(static_cast<int>(i)).keys(), all[i].top);
    }
  }
  return all;
}

std::vector<Gotten> Ask(AttendClient& client, const RandomRequest& r, int64_t first_number = 0) {
  v1::AttendResponse response;
  const v1::AttendRequest request = Write(r, first_number);
  const grpc::Status status = client.Attend(request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message() << "\n" << r.options;
  return status.ok() ? Divide(r, response) : std::vector<Gotten>(r.sequences.size());
}

std::vector<Gotten> AskStreamed(AttendClient& client, const RandomRequest& r) {
  std::vector<Gotten> all(r.sequences.size());
  std::vector<std::map<int64_t, std::string>> keys(r.sequences.size());
  std::vector<v1::AttendStreamResponse> parts;
  const grpc::Status status = client.AttendStream(Write(r), &parts);
  EXPECT_TRUE(status.ok()) << status.error_message() << "\n" << r.options;
  for (const v1::AttendStreamResponse& part : parts) {
    if (part.has_rows()) {
      all[part.rows().sequence()].rows += part.rows().output().data();
    } else if (part.has_weights()) {
      const v1::WeightsBlock& block = part.weights();
      all[block.sequence()].weights[block.head()] += block.weights().data();
    } else if (part.has_log_sum_exp()) {
      const v1::LogSumExpBlock& block = part.log_sum_exp();
      all[block.sequence()].log_sum_exp[block.head()] += block.log_sum_exp().data();
    } else if (part.has_top_weights()) {
      const v1::TopWeightsBlock& block = part.top_weights();
      all[block.sequence()].top[block.head()] += block.top_weights().weights().data();
      keys[block.sequence()][block.head()] += block.top_weights().keys().data();
    }
  }
  for (size_t i = 0; i < all.size(); ++i) {
    for (const auto& [head, data] : keys[i]) {
      all[i].top[head] += data;
    }
  }
  return all;
}

/// Requests of one caller, and what each got.
struct Asked {
  std::vector<RandomRequest> requests;
  std::vector<std::vector<Gotten>> whole;
  std::vector<std::vector<Gotten>> streamed;
};

Asked AskMany(const InProcessServer& server, uint32_t seed, int count) {
  Dice dice(seed);
  AttendClient client(server.NewChannel());
  Asked asked;
  for (int i = 0; i < count; ++i) {
    asked.requests.push_back(AnyRequest(dice));
    asked.whole.push_back(Ask(client, asked.requests.back()));
    asked.streamed.push_back(AskStreamed(client, asked.requests.back()));
  }
  return asked;
}

void CheckAlone(AttendClient& judge, const Asked& asked) {
  for (size_t i = 0; i < asked.requests.size() && !::testing::Test::HasFailure(); ++i) {
    const RandomRequest& r = asked.requests[i];
    for (int64_t n = 0; n < std::ssize(r.sequences); ++n) {
      const Sequence& sequence = r.sequences[n];
      const std::vector<Gotten> alone = Ask(judge, Only(r, n), n);
      const std::string what =
          absl::StrCat("request ", i, ", sequence ", n, " of ", r.sequences.size(), ": ",
                       sequence.rows, " rows, ", sequence.keys, " keys, ",
                       r.is_padded ? "padded, " : "packed, ", std::string(Name(r.dtype)), ", ",
                       r.has_model ? "layer " : "no model ", r.options, sequence.options);
      EXPECT_TRUE(asked.whole[i][n] == alone[0]) << what;
      EXPECT_TRUE(asked.streamed[i][n] == alone[0]) << "streamed " << what;
    }
  }
}

void AskFromManyThreads(uint32_t seed, int count) {
  constexpr int kCallers = 4;
  InProcessServer server({.threads = 2, .max_queue_wait = absl::Minutes(5)});
  std::vector<Asked> asked(kCallers);
  std::vector<std::thread> callers;
  for (int i = 0; i < kCallers; ++i) {
    callers.emplace_back([&, i] { asked[i] = AskMany(server, seed + i, count); });
  }
  for (std::thread& caller : callers) {
    caller.join();
  }
  const v1::ServerStatistics statistics = AttendClient(server.NewChannel()).Statistics();
  EXPECT_GT(statistics.batch_requests(), statistics.batches()) << "nothing was ever batched";
  InProcessServer judging({.threads = 1, .max_queue_wait = absl::Minutes(5)});
  AttendClient judge(judging.NewChannel());
  for (int i = 0; i < kCallers; ++i) {
    SCOPED_TRACE(absl::StrCat("seed ", seed, ", caller ", i));
    CheckAlone(judge, asked[i]);
  }
}

TEST(RandomRequestsTest, EachSequenceHasTheBitsThatItHasAlone) {
  int64_t rounds = 0;
  const char* const told = std::getenv("ATTEND_RANDOM_REQUESTS");
  if (told == nullptr || !absl::SimpleAtoi(told, &rounds)) {
    AskFromManyThreads(1, 40);
    return;
  }
  absl::BitGen seeds;
  for (int64_t i = 0; i < rounds && !HasFailure(); ++i) {
    AskFromManyThreads(absl::Uniform<uint32_t>(seeds), 100);
  }
}

}  // namespace
}  // namespace attention

// What a message can make the server take that is padded where it is computed: sequences of one
// row, narrow heads, sums of linear attention.
#include <string>
#include <vector>

#include "tests/server/cost_server.h"
#include "tests/server/wire_options.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

/// A request, and what the model's width makes of its rows: hidden states, projected rows and
/// answers, or the answers of attention without a model.
struct PaddedRequest {
  std::string name;
  v1::AttendRequest request;
  int64_t width_bytes = 0;
};

constexpr int64_t kOneRows = 4096;

v1::AttendRequest IdsOfOneRow(const std::string& options) {
  v1::AttendRequest request;
  request.set_model("demo");
  for (int64_t i = 0; i < kOneRows; ++i) {
    request.mutable_token_ids()->add_ids(1);
    request.mutable_token_ids()->add_lengths(1);
  }
  *request.mutable_options() = Options(options);
  return request;
}

v1::AttendRequest BareZeros(const Shape& query, const Shape& key, const Shape& value,
                            const std::string& options) {
  const auto zeros = [](const Shape& shape) {
    Tensor tensor(Dtype::kF32, shape);
    std::memset(tensor.data(), 0, tensor.size_bytes());
    return tensor;
  };
  v1::AttendRequest request = QkvRequest(zeros(query), zeros(key), zeros(value));
  *request.mutable_options() = Options(options);
  return request;
}

std::vector<PaddedRequest> PaddedRequests() {
  const std::string linear = "similarity: LINEAR";
  // Rows, query, key, value, context, and an answer on either side.
  constexpr int64_t kDemoBytes = 8 * kOneRows * kDemoWidth * int64_t{sizeof(float)};
  constexpr int64_t kWide = 512;
  constexpr int64_t kHeads = 8192;
  return {
      {"token ids of one row", IdsOfOneRow(""), kDemoBytes},
      {"token ids of one row, linear", IdsOfOneRow(linear), kDemoBytes},
      {"narrow heads", BareZeros({1, 131072, 1}, {1, 131072, 1}, {1, 131072, 1}, "")},
      {"narrow heads, linear", BareZeros({1, 65536, 1}, {1, 65536, 1}, {1, 65536, 1}, linear)},
      {"narrow heads of one row", BareZeros({4096, 1, 8, 1}, {4096, 1, 8, 1}, {4096, 1, 8, 1}, "")},
      {"wide values without keys",
       BareZeros({1, kHeads, 1}, {0, kHeads, 1}, {0, kHeads, kWide}, linear),
       2 * kHeads * kWide * int64_t{sizeof(float)}},
  };
}

class PaddedCostTest : public CostServerTest {};

TEST_F(PaddedCostTest, PaddingTakesLittleMemory) {
  for (const PaddedRequest& padded : PaddedRequests()) {
    for (const char* const method : {"Attend", "AttendStream"}) {
      SCOPED_TRACE(padded.name + ", " + method);
      const Message message = {std::string("/attention.v1.AttentionService/") + method,
                               padded.request.SerializeAsString()};
      const Outcome outcome = CallAtOnce(message);
      const auto sent = static_cast<int64_t>(message.bytes.size());
      EXPECT_LE(outcome.grown_bytes, kFreeBytes + kAtOnce * (20 * sent + padded.width_bytes));
      for (const absl::Status& status : outcome.statuses) {
        EXPECT_THAT(status, IsOk());
      }
    }
  }
}

}  // namespace
}  // namespace attention

// The real server over the checkpoints of tests/data/models, asked by both of its services.
#pragma once

#include <string>

#include "tests/server/models/golden_server.h"
#include "tests/server/open_inference/infer_client.h"
#include "tests/server/open_inference/infer_requests.h"
#include "tests/support/matchers.h"

namespace attention {

class InferTest : public GoldenServerTest {
 protected:
  /// Fails the test unless the request is answered.
  inference::ModelInferResponse Infer(const inference::ModelInferRequest& request) {
    const auto response = infer_.Infer(request);
    EXPECT_THAT(response, IsOk());
    return response.value_or(inference::ModelInferResponse());
  }
  std::string Output(const inference::ModelInferRequest& request) {
    const inference::ModelInferResponse response = Infer(request);
    return response.raw_output_contents().empty() ? "none" : response.raw_output_contents(0);
  }

  InferClient infer_{server_->NewChannel()};
};

/// Rows [first, first + count) of `row_bytes` each.
inline std::string RowsOf(const std::string& bytes, size_t row_bytes, size_t first, size_t count) {
  return bytes.substr(first * row_bytes, count * row_bytes);
}

}  // namespace attention

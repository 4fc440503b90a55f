// The real server over the checkpoints of tests/data/models, and requests made of their cases.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor/safetensors.h"
#include "gmock/gmock.h"
#include "tests/server/wire_tensors.h"
#include "tests/support/differences.h"
#include "tests/support/in_process_server.h"

namespace attention {

inline const std::string kCheckpoints = ATTEND_TEST_DATA "/models";

inline ServerOptions ServerOptionsFor(const std::string& folder) {
  ServerOptions options;
  options.threads = 2;
  options.models.folder.path = folder;
  return options;
}

/// What PyTorch and transformers answer for a checkpoint; ends the program when it is missing.
class GoldenCases {
 public:
  explicit GoldenCases(const std::string& model) {
    absl::StatusOr<NamedTensors> tensors =
        ReadSafetensors(kCheckpoints + "/" + model + "/cases.safetensors");
    if (!tensors.ok()) {
      std::cerr << tensors.status() << std::endl;
      std::abort();
    }
    tensors_ = *std::move(tensors);
  }

  const Tensor& At(const std::string& name) const { return tensors_.at(name); }
  std::vector<int32_t> IntegersAt(const std::string& name) const {
    const Tensor& tensor = At(name);
    return {tensor.as<float>(), tensor.as<float>() + tensor.num_elements()};
  }

 private:
  NamedTensors tensors_;
};

/// Sequences of `length` tokens each.
inline v1::AttendRequest TokenRequest(const std::string& model, const std::vector<int32_t>& ids,
                                      int64_t length) {
  v1::AttendRequest request;
  request.set_model(model);
  request.mutable_token_ids()->mutable_ids()->Assign(ids.begin(), ids.end());
  for (int64_t i = 0; i < std::ssize(ids); i += length) {
    request.mutable_token_ids()->add_lengths(length);
  }
  return request;
}

inline v1::AttendRequest RowsRequest(const std::string& model, const Tensor& rows) {
  v1::AttendRequest request = DemoRequest(rows);
  request.set_model(model);
  return request;
}

inline double LargestDifference(const Tensor& expected, const v1::Tensor& actual) {
  const std::vector<double> values = ToDoubles(expected);
  return LargestDifference(values, ToDoubles(actual));
}

/// Tests that share one server.
class GoldenServerTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    server_ = std::make_unique<InProcessServer>(ServerOptionsFor(kCheckpoints));
  }
  static void TearDownTestSuite() { server_.reset(); }

  v1::AttendResponse Attend(const v1::AttendRequest& request) { return client_.Must(request); }

  static inline std::unique_ptr<InProcessServer> server_;
  AttendClient client_{server_->NewChannel()};
};

}  // namespace attention

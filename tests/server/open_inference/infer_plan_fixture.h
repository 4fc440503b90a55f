// Requests planned without a server: over `demo` and a few checkpoints.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "core/models/load_model.h"
#include "core/models/seeded_model.h"
#include "core/runtime/status_macros.h"
#include "gmock/gmock.h"
#include "server/services/open_inference/infer_plan.h"
#include "tests/proto/wire_bytes.h"
#include "tests/server/open_inference/infer_requests.h"
#include "tests/support/matchers.h"

namespace attention {

class InferPlanTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    models_ = std::make_unique<ModelRepository>();
    EXPECT_THAT(models_->AddSeeded(DemoModelSpec()), IsOk());
    for (const std::string name : {"gpt2", "bert", "torch_transformer", "torch_mha-kdim-vdim"}) {
      auto loaded = LoadModel({name, 3, ATTEND_TEST_DATA "/models/" + name}, WeightsDtype::kF32);
      ASSERT_THAT(loaded, IsOk());
      models_->Publish(std::move(loaded->model));
    }
  }
  static void TearDownTestSuite() { models_.reset(); }

  /// Slices are cut through the tensors.
  absl::StatusOr<InferPlan> Plan(const inference::ModelInferRequest& request) {
    return PlanBytes(request.SerializeAsString());
  }
  absl::StatusOr<InferPlan> PlanBytes(const std::string& bytes) {
    ASSIGN_OR_RETURN(const ReceivedInfer received, DecodeInfer(Cut(bytes, 37)));
    ASSIGN_OR_RETURN(const InferTarget target, FindTarget(*models_, received.message->model_name(),
                                                          received.message->model_version(),
                                                          {"model_name", "model_version"}));
    return PlanInfer(
        received, target,
        {*models_, {.has_admin_right = true}, shared_memory_, {1 << 20, "--max-message-bytes"}});
  }

  void ExpectInvalid(const inference::ModelInferRequest& request, const std::string& text) {
    EXPECT_THAT(Plan(request), StatusIs(absl::StatusCode::kInvalidArgument, text));
  }

  static inline std::unique_ptr<ModelRepository> models_;
  const SharedMemory* shared_memory_ = nullptr;
};

}  // namespace attention

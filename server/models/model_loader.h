// The thread that loads models while others serve.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/models/model_catalog.h"
#include "server/models/task_queue.h"
#include "server/models/verify_model.h"

namespace attention {

struct ModelLoaderOptions {
  ModelFolder folder = {};
  WeightsDtype weights_dtype = WeightsDtype::kF32;
  /// Time between two looks at the folder; zero: it is looked at on request only.
  absl::Duration poll_interval = absl::ZeroDuration();
  LoadFunction load = LoadModel;
};

/// Which model is meant; without a version, what ModelCatalog says.
struct ModelRequest {
  std::string name;
  std::optional<int64_t> version = {};
  /// Asked before the work begins, and now and then during long work; any thread.
  std::function<bool()> is_cancelled;
};

/// One thread of low priority reads, checks, packs and warms up models, one after the other, and
/// frees those that nobody uses any more; so loading takes at most one core, and that only when
/// serving leaves it. Thread-safe. A `done` is called once, by that thread, or by the caller's when
/// it is refused: RESOURCE_EXHAUSTED when too many wait, UNAVAILABLE after Close. CANCELLED tells
/// nobody, as it was asked for.
class ModelLoader {
 public:
  using Done = std::function<void(const absl::Status& status)>;
  using VerifyDone = std::function<void(absl::StatusOr<ModelVerification> result)>;

  /// The repository and the registry outlive it; the models that are published may outlive it too.
  ModelLoader(const ModelLoaderOptions& options, ModelRepository& repository,
              HealthRegistry& health);
  /// Closes, and waits for what is under way.
  ~ModelLoader();

  /// ModelCatalog's Discover. REQUIRES: Start comes later.
  absl::Status Discover() { return catalog_.Discover(); }
  /// Begins; `on_loaded` is called once, when every model of the folder is loaded or has failed,
  /// unless Close came first. Called once.
  void Start(std::function<void()> on_loaded);
  /// Begins nothing more; does not wait.
  void Close();

  /// ModelCatalog's Load, Unload and Refresh.
  void Load(const ModelRequest& request, Done done);
  void Unload(const ModelRequest& request, Done done);
  void Reload(const ModelRequest& request, Done done);
  /// Loads the model's f32 copy for as long as it takes to compare the two. NOT_FOUND when the
  /// model does not serve; errors of ModelCatalog::SourceOf and of loading.
  void Verify(const ModelRequest& request, VerifyDone done);

  std::vector<ModelState> States() const { return catalog_.States(); }

 private:
  void Run(const std::function<void()>& on_loaded);
  void Refresh(Occasion occasion);
  void WarnOfUnknownNames() const;
  absl::StatusOr<ModelVerification> VerifyNow(const ModelRequest& request);

  const ModelLoaderOptions options_;
  ModelRepository& repository_;
  /// Shared with the models, which come back to be destroyed.
  const std::shared_ptr<TaskQueue> queue_;
  ModelCatalog catalog_;
  /// Of the loader's thread.
  absl::Status last_error_;
  std::thread thread_;
};

}  // namespace attention

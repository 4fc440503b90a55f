#include "server/models/model_loader.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/models/model_folder.h"
#include "core/runtime/contain.h"
#include "core/runtime/status_macros.h"
#include "core/runtime/time_after.h"
#include "server/log/log.h"

namespace attention {
namespace {

using std::chrono::steady_clock;

// The name of the loader's work in errors.
constexpr char kWork[] = "the model loader";
constexpr size_t kMaxTasks = 64;
constexpr int kNiceness = 10;
constexpr std::chrono::milliseconds kPauseBeforeRetry{10};

// Lowers the priority of the calling thread, and never raises it. On Linux setpriority's "process"
// is a thread.
void LowerPriority() {
  const auto thread = static_cast<id_t>(gettid());
  const int niceness = std::max(kNiceness, getpriority(PRIO_PROCESS, thread));
  if (setpriority(PRIO_PROCESS, thread, niceness) != 0) {
    Log(LogLevel::kWarning,
        "setpriority failed: models are loaded at the priority of the serving threads");
  }
}

// Frees models on the loader's thread: freeing a gigabyte takes tens of milliseconds, and the last
// owner may be a thread that serves.
std::shared_ptr<const Model> Share(const std::shared_ptr<TaskQueue>& queue,
                                   std::unique_ptr<Model> model) {
  return {model.release(), [queue](const Model* unused) {
            const absl::Status pushed = ContainVoid("freeing a model", [&] {
              queue->PushUrgent([unused](const absl::Status&) { delete unused; });
            });
            if (!pushed.ok()) {
              delete unused;
            }
          }};
}

ServingEnvironment EnvironmentOf(const ModelLoaderOptions& options, ModelRepository& repository,
                                 const std::shared_ptr<TaskQueue>& queue) {
  return {.repository = repository,
          .load = options.load,
          .weights_dtype = options.weights_dtype,
          .yield = [queue] { return !queue->is_closed(); },
          .share = [queue](std::unique_ptr<Model> model) { return Share(queue, std::move(model)); },
          .free_unused = [queue] { queue->RunUrgent(); }};
}

// Returns a task that calls `done` with the result of `work`.
TaskQueue::Task TaskOf(const ModelRequest& request, std::function<absl::Status()> work,
                       ModelLoader::Done done) {
  return [is_cancelled = request.is_cancelled, work = std::move(work),
          done = std::move(done)](const absl::Status& status) {
    if (!status.ok()) {
      done(status);
    } else if (is_cancelled()) {
      done(absl::CancelledError("cancelled before the work began"));
    } else {
      done(Contain(kWork, work));
    }
  };
}

}  // namespace

absl::Status NoModelFolder() {
  return absl::FailedPreconditionError("the server has no folder of models (--models)");
}

ModelLoader::ModelLoader(const ModelLoaderOptions& options, ModelRepository& repository,
                         HealthRegistry& health)
    : options_(options),
      repository_(repository),
      queue_(std::make_shared<TaskQueue>(kMaxTasks)),
      catalog_(options.folder, EnvironmentOf(options, repository, queue_), health) {}

ModelLoader::~ModelLoader() {
  Close();
  if (thread_.joinable()) {
    thread_.join();
  }
}

absl::Status ModelLoader::Discover() {
  RETURN_IF_ERROR(catalog_.Discover());
  WarnOfMissingModels();
  return absl::OkStatus();
}

void ModelLoader::Start(std::function<void()> on_loaded) {
  thread_ = std::thread([this, on_loaded = std::move(on_loaded)] { Run(on_loaded); });
}

void ModelLoader::Close() { queue_->Close(); }

void ModelLoader::Run(const std::function<void()>& on_loaded) {
  RunLogged(kWork, LowerPriority);
  RunLogged(kWork, [this] { Refresh(Occasion::kRequest); });
  while (!queue_->is_closed() && !RunLogged(kWork, on_loaded)) {
    std::this_thread::sleep_for(kPauseBeforeRetry);
  }
  const absl::Duration interval = options_.poll_interval;
  const auto next_poll = [&] {
    return interval > absl::ZeroDuration() ? TimeAfter(interval) : TimePoint::max();
  };
  TimePoint deadline = next_poll();
  while (!queue_->is_closed()) {
    if (const std::optional<TaskQueue::Task> task = queue_->Next(deadline)) {
      RunLogged(kWork, [&task] { (*task)(absl::OkStatus()); });
    }
    if (steady_clock::now() >= deadline) {
      RunLogged(kWork, [this] { Refresh(Occasion::kPoll); });
      deadline = next_poll();
    }
  }
}

void ModelLoader::Refresh(Occasion occasion) {
  const absl::Status status = Contain(kWork, [&] { return catalog_.Refresh(occasion); });
  // An error of the folder that repeats itself is logged once.
  if (!status.ok() && status != last_error_) {
    Log(LogLevel::kError, absl::StrCat("--models: ", std::string(status.message()),
                                       "; models that were loaded before stay in service"));
  }
  last_error_ = status;
}

void ModelLoader::WarnOfMissingModels() const {
  std::set<std::string> known;
  for (const ModelState& state : catalog_.States()) {
    if (state.version != kWholeName ||
        !absl::IsNotFound(state.error)) {  // a missing name has a state, too
      known.insert(state.name);
    }
  }
  if (known.empty()) {
    const bool is_model = ResolveInside(options_.folder.path, "config.json").ok();
    Log(LogLevel::kWarning,
        absl::StrCat("--models: expected folders with models, found none in ", options_.folder.path,
                     is_model ? ", which is a model itself: name the folder above it" : ""));
  }
  const auto warn_of = [&](const char* flag, const std::string& name) {
    if (!known.contains(name) && !options_.folder.reserved_names.contains(name)) {
      Log(LogLevel::kWarning, absl::StrCat(flag, ": expected a name of ", options_.folder.path,
                                           ", found ", name, ", which does not exist yet"));
    }
  };
  for (const auto& [name, policy] : options_.folder.versions.by_name) {
    warn_of("--model-versions", name);
  }
  for (const std::string& name : options_.folder.required_names.value_or(std::set<std::string>())) {
    warn_of("--required-models", name);
  }
}

void ModelLoader::Load(const ModelRequest& request, Done done) {
  const auto work = [this, request] { return catalog_.Load(request.name, request.version); };
  queue_->Push(TaskOf(request, work, std::move(done)));
}

void ModelLoader::Unload(const ModelRequest& request, Done done) {
  const auto work = [this, request] { return catalog_.Unload(request.name, request.version); };
  queue_->Push(TaskOf(request, work, std::move(done)));
}

void ModelLoader::Reload(const ModelRequest& request, Done done) {
  const auto work = [this] { return catalog_.Refresh(Occasion::kRequest); };
  queue_->Push(TaskOf(request, work, std::move(done)));
}

void ModelLoader::Verify(const ModelRequest& request, VerifyDone done) {
  const auto result = std::make_shared<absl::StatusOr<ModelVerification>>();
  const auto work = [this, request, result] {
    *result = VerifyNow(request);
    return result->status();
  };
  queue_->Push(TaskOf(request, work, [result, done = std::move(done)](const absl::Status& status) {
    done(status.ok() ? *std::move(*result) : absl::StatusOr<ModelVerification>(status));
  }));
}

absl::StatusOr<ModelVerification> ModelLoader::VerifyNow(const ModelRequest& request) {
  const std::shared_ptr<const Model> served = repository_.Find(request.name, request.version);
  if (served == nullptr) {
    return absl::NotFoundError(absl::StrCat(
        "model: expected one that serves, found \"", request.name, "\"",
        request.version.has_value() ? absl::StrCat(" version ", *request.version) : ""));
  }
  ASSIGN_OR_RETURN(VersionToLoad copy, catalog_.SourceOf(*served));
  if (served->info().weights_dtype == WeightsDtype::kF32) {
    return ModelVerification{.info = served->info()};
  }
  copy.weights_dtype = WeightsDtype::kF32;
  ASSIGN_OR_RETURN(const ReadyModel exact, LoadVersion(copy, options_.load));
  return CompareModels(*served, *exact.loaded.model, [this, &request] {
    return !request.is_cancelled() && !queue_->is_closed();
  });
}

}  // namespace attention

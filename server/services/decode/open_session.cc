#include "server/services/decode/open_session.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/kernels/attention/attention_plan.h"
#include "core/runtime/status_macros.h"
#include "proto/codec/tensor.h"
#include "server/services/plan/field_error.h"
#include "server/services/plan/find_model.h"
#include "server/services/plan/plan_query_key_value.h"
#include "server/services/plan/plan_request.h"
#include "server/services/plan/plan_run.h"
#include "server/services/plan/row_lengths.h"

namespace attention {
namespace {

static_assert(kMaxHeadWidth == kMaxHeadDim, "the codec knows the widest head of the core");

constexpr int64_t kMaxTimeToLiveMs = 3'600'000;

absl::StatusOr<KeyValueStorage> StorageOf(v1::DataType dtype) {
  switch (dtype) {
    case v1::DATA_TYPE_UNSPECIFIED:
    case v1::FP32:
      return KeyValueStorage::kF32;
    case v1::BF16:
      return KeyValueStorage::kBf16;
    case v1::INT8:
      return KeyValueStorage::kInt8;
    default:
      return Wrong("open.cache_dtype: expected FP32, BF16 or INT8, found ", DtypeText(dtype));
  }
}

absl::Status CheckOptions(const v1::AttentionOptions& options) {
  const std::pair<const char*, bool> fields[] = {
      {"bias", options.has_bias()},
      {"mask", options.has_mask()},
      {"prefix", options.prefix() != 0},
      {"global_tokens", !options.global_tokens().empty()},
      {"sequences", !options.sequences().empty()}};
  for (const auto& [field, is_set] : fields) {
    if (is_set) {
      return Wrong("open.", "options.", field,
                   ": expected none in a session, whose later keys are not known yet, found one");
    }
  }
  if (options.similarity() == v1::LINEAR) {
    return Wrong("open.options.similarity",
                 ": expected DOT_PRODUCT, GAUSSIAN, BOX or TRIANGULAR in a session, found LINEAR");
  }
  return absl::OkStatus();
}

// Returns the heads with their defaults.
absl::StatusOr<v1::AttentionHeads> ReadHeads(const v1::OpenSession& open) {
  v1::AttentionHeads heads = open.heads();
  if (!open.has_heads() || heads.num_heads() < 1 || heads.head_dim() < 1) {
    return Wrong("open.",
                 "heads: expected num_heads and head_dim of 1 or more without a model, found ",
                 heads.num_heads(), " and ", heads.head_dim());
  }
  if (open.has_layer() || open.has_model_version()) {
    return Wrong("open.", open.has_layer() ? "layer" : "model_version",
                 ": expected none without a model, found one");
  }
  const auto set_default = [](int64_t value, int64_t other) { return value != 0 ? value : other; };
  heads.set_num_kv_heads(set_default(heads.num_kv_heads(), heads.num_heads()));
  heads.set_value_head_dim(set_default(heads.value_head_dim(), heads.head_dim()));
  heads.set_dtype(heads.dtype() == v1::DATA_TYPE_UNSPECIFIED ? v1::FP32 : heads.dtype());
  if (heads.num_kv_heads() < 1 || heads.num_heads() % heads.num_kv_heads() != 0) {
    return Wrong("open.", "heads.num_kv_heads: expected a divisor of num_heads ", heads.num_heads(),
                 ", found ", heads.num_kv_heads());
  }
  if (heads.num_heads() > kMaxHeads) {
    return Wrong("open.", "heads.num_heads: expected 1 to ", kMaxHeads, ", found ",
                 heads.num_heads());
  }
  for (const auto& [field, width] : {std::pair("head_dim", heads.head_dim()),
                                     std::pair("value_head_dim", heads.value_head_dim())}) {
    if (width < 1 || width > kMaxHeadDim) {
      return Wrong("open.", "heads.", field, ": expected 1 to ", kMaxHeadDim, ", found ", width);
    }
  }
  if (heads.dtype() != v1::FP32 && heads.dtype() != v1::BF16 && heads.dtype() != v1::FP16) {
    return Wrong("open.", "heads.dtype: expected FP32, BF16 or FP16, found ",
                 DtypeText(heads.dtype()));
  }
  return heads;
}

bool HasLayer(const ModelInfo& info, int64_t layer) {
  return layer >= 0 && layer < std::ssize(info.layers);
}

// Refuses a layer whose keys and values come from other rows than those of a step.
absl::Status CheckLayer(int64_t layer, const ModelInfo& info) {
  if (!info.layers[layer].needs_memory()) {
    return absl::OkStatus();
  }
  return Wrong("open.layer: expected one that computes keys and values from its own rows, found ",
               layer, " of model \"", info.name, "\", which takes them from hidden_states.memory");
}

// Returns a step without tokens, in which everything else is checked.
v1::AttendRequest EmptyStep(const SessionPlan& plan) {
  v1::AttendRequest request = plan.step;
  const auto set = [](v1::Tensor& tensor, v1::DataType dtype,
                      std::initializer_list<int64_t> shape) {
    tensor.set_dtype(dtype);
    tensor.mutable_shape()->Assign(shape.begin(), shape.end());
  };
  if (plan.target.model == nullptr) {
    const v1::AttentionHeads& h = plan.heads;
    v1::QueryKeyValue& input = *request.mutable_query_key_value();
    set(*input.mutable_query(), h.dtype(), {0, h.num_heads(), h.head_dim()});
    set(*input.mutable_key(), h.dtype(), {0, h.num_kv_heads(), h.head_dim()});
    set(*input.mutable_value(), h.dtype(), {0, h.num_kv_heads(), h.value_head_dim()});
    return request;
  }
  const ModelInfo& info = plan.target.model->info();
  const bool is_layer = request.has_layer() && HasLayer(info, request.layer());
  set(*request.mutable_hidden_states()->mutable_tensor(), v1::FP32,
      {0, is_layer ? info.layers[request.layer()].shape.d_model : info.d_model});
  return request;
}

absl::StatusOr<std::vector<KvCache>> InVector(absl::StatusOr<KvCache> cache) {
  RETURN_IF_ERROR(cache.status());
  std::vector<KvCache> caches;
  caches.push_back(*std::move(cache));
  return caches;
}

absl::Status PlanModel(const v1::OpenSession& open, KeyValueStorage storage,
                       const SessionMemory& memory, SessionPlan& plan) {
  const std::shared_ptr<const Model>& model = plan.target.model;
  const bool is_layer = open.has_layer() || !model->info().has_stack;
  if (open.has_heads()) {
    return Wrong("open.", "heads: expected none with a model, found some");
  }
  if (is_layer) {
    plan.target.layer = open.layer();
    plan.step.set_layer(open.layer());
    if (!HasLayer(model->info(), open.layer())) {
      return absl::OkStatus();  // the check of the step names the layers that there are
    }
    RETURN_IF_ERROR(CheckLayer(open.layer(), model->info()));
    plan.target.make_caches = [model, layer = open.layer(), storage, memory = memory.memory] {
      return InVector(model->MakeLayerCache(layer, storage, memory));
    };
  } else {
    plan.target.make_caches = [model, storage, memory] {
      return model->MakeCaches(storage, memory.memory, memory.page_tokens);
    };
  }
  const absl::Status made = plan.target.make_caches().status();
  return absl::IsInvalidArgument(made)  // the error tells why there are no sessions
             ? Wrong(is_layer ? "open.layer: " : "open.model: ", std::string(made.message()))
             : made;
}

void PlanWithoutModel(KeyValueStorage storage, const std::shared_ptr<KvMemory>& memory,
                      SessionPlan& plan) {
  const KvCacheShape shape = {plan.heads.num_kv_heads(), plan.heads.head_dim(),
                              plan.heads.value_head_dim(), storage};
  plan.target.make_caches = [shape, memory] { return InVector(KvCache::Create(shape, memory)); };
}

}  // namespace

absl::StatusOr<SessionPlan> PlanSession(const v1::OpenSession& open, const ModelRepository& models,
                                        const SessionMemory& memory) {
  SessionPlan plan;
  if (open.resume_ttl_ms() < 0 || open.resume_ttl_ms() > kMaxTimeToLiveMs) {
    return Wrong("open.", "resume_ttl_ms: expected 0 to ", kMaxTimeToLiveMs, ", found ",
                 open.resume_ttl_ms());
  }
  plan.time_to_live = absl::Milliseconds(open.resume_ttl_ms());
  ASSIGN_OR_RETURN(const KeyValueStorage storage, StorageOf(open.cache_dtype()));
  RETURN_IF_ERROR(CheckOptions(open.options()));
  *plan.step.mutable_options() = open.options();
  if (open.model().empty()) {
    ASSIGN_OR_RETURN(plan.heads, ReadHeads(open));
    PlanWithoutModel(storage, memory.memory, plan);
  } else {
    std::optional<int64_t> version;
    if (open.has_model_version()) {
      version = open.model_version();
    }
    ASSIGN_OR_RETURN(plan.target.model, FindModel(models, open.model(), version,
                                                  {"open.model", "open.model_version"}));
    RETURN_IF_ERROR(PlanModel(open, storage, memory, plan));
  }
  const bool is_stack = plan.target.model != nullptr && !plan.target.layer.has_value();
  if (!is_stack && !open.options().has_causal()) {
    plan.step.mutable_options()->set_causal(true);
  }
  const Received<v1::AttendRequest> empty = {EmptyStep(plan), nullptr};
  const auto step = PlanStep(empty, {.model = plan.target.model}, {.max_bytes = 0});
  RETURN_IF_ERROR(UnderField("open.", step.status()));
  return plan;
}

}  // namespace attention

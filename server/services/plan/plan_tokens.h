// Plans requests for a model with token ids, or with texts that become token ids.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "core/models/model.h"
#include "proto/attention/v1/attention.pb.h"
#include "server/services/plan/attend_plan.h"
#include "server/services/plan/plan_terms.h"

namespace attention {

/// Plan the ids, or the ids that the texts become. INVALID_ARGUMENT names the field or the
/// sequence, what was expected and what was found; RESOURCE_EXHAUSTED names the limit. After an
/// error `plan` must not be used. REQUIRES: PlanRun was OK.
absl::Status PlanTokenIds(const v1::TokenIds& input, AttendPlan& plan);
absl::Status PlanText(const v1::TextInput& input, const PlanTerms& terms, AttendPlan& plan);

/// Returns whether some of `ids` are padding, which has no position of its own in the model
/// (RoBERTa). The positions of later tokens then depend on how many these are, which caches do not
/// know.
bool HasPadding(const Model& model, std::span<const int32_t> ids);

}  // namespace attention

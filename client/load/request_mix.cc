#include "client/load/request_mix.h"

#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/load/workload.h"
#include "core/runtime/status_macros.h"
#include "proto/codec/encode.h"

namespace attention {

namespace {

absl::Status CheckCanBeCut(const AttendRequest& request) {
  const auto* rows = std::get_if<HiddenStatesInput>(&request.input);
  const auto* tokens = std::get_if<TokenIdsInput>(&request.input);
  const bool is_plain_rows = rows != nullptr && rows->tensor != nullptr &&
                             rows->tensor->shape().size() == 3 && rows->lengths.empty() &&
                             rows->memory == nullptr;
  const bool are_plain_tokens = tokens != nullptr && tokens->type_ids.empty();
  if (!is_plain_rows && !are_plain_tokens) {
    return absl::InvalidArgumentError(
        "a mix of lengths: expected hidden states [B, S, d_model] or token ids without lengths, "
        "memory and types");
  }
  if (request.bias != nullptr || request.mask != nullptr || !request.options.sequences().empty()) {
    return absl::InvalidArgumentError(
        "a mix of lengths: expected no bias, mask or options of single sequences, which are of one "
        "length");
  }
  return absl::OkStatus();
}

/// REQUIRES: CheckCanBeCut is OK.
int64_t NumSequences(const AttendRequest& request) {
  if (const auto* tokens = std::get_if<TokenIdsInput>(&request.input)) {
    return std::ssize(tokens->lengths);
  }
  return std::get<HiddenStatesInput>(request.input).tensor->shape()[0];
}

/// The tensor of a cut request: a copy of the rows, or one of their shape that is never written.
enum class Cut { kCopied, kShapeOnly };

Workload CutTo(int64_t length, Cut how, const AttendRequest& longest) {
  Workload cut;
  cut.request = longest;
  if (auto* tokens = std::get_if<TokenIdsInput>(&cut.request.input)) {
    tokens->ids.resize(NumSequences(longest) * length);
    tokens->lengths.assign(NumSequences(longest), length);
    return cut;
  }
  auto& rows = std::get<HiddenStatesInput>(cut.request.input);
  Tensor tensor(rows.tensor->dtype(), {NumSequences(longest), length, rows.tensor->shape()[2]});
  if (how == Cut::kCopied && tensor.size_bytes() > 0) {
    std::memcpy(tensor.data(), rows.tensor->data(), tensor.size_bytes());
  }
  cut.tensors.push_back(std::make_unique<const Tensor>(std::move(tensor)));
  rows.tensor = cut.tensors.back().get();
  return cut;
}

}  // namespace

RequestMix::RequestMix(Workload workload)
    : base_(std::make_shared<const Workload>(std::move(workload))), lengths_{"", {0}, {1.0}} {}

absl::StatusOr<RequestMix> RequestMix::OfLengths(Workload longest, LengthMix lengths) {
  RETURN_IF_ERROR(CheckCanBeCut(longest.request));
  RequestMix mix(std::move(longest));
  mix.lengths_ = std::move(lengths);
  return mix;
}

Workload RequestMix::Make(size_t kind) const {
  if (lengths_text().empty()) {
    Workload same;
    same.request = base_->request;
    return same;
  }
  return CutTo(lengths_.lengths[kind], Cut::kCopied, base_->request);
}

absl::StatusOr<grpc::ByteBuffer> RequestMix::Encode(size_t kind, const Protocol& protocol) const {
  const auto share = [this](const Tensor& tensor) {
    return SharedSlice(base_, tensor.data(), tensor.size_bytes());
  };
  if (lengths_text().empty()) {
    return protocol.Encode(base_->request, share);
  }
  const Workload cut = CutTo(lengths_.lengths[kind], Cut::kShapeOnly, base_->request);
  // A cut request shares the first rows of the longest request's tensor.
  const auto share_longest = [this](const Tensor& tensor) {
    const auto& rows = std::get<HiddenStatesInput>(base_->request.input);
    return SharedSlice(base_, rows.tensor->data(), tensor.size_bytes());
  };
  return protocol.Encode(cut.request, share_longest);
}

absl::StatusOr<int64_t> RequestMix::CountTokens(size_t kind, const AttendResult& first) const {
  if (lengths_text().empty()) {
    return QueryRows(base_->request, first);
  }
  return NumSequences(base_->request) * lengths_.lengths[kind];
}

std::string RequestMix::Describe() const {
  return absl::StrCat(attention::Describe(base_->request),
                      lengths_text().empty() ? "" : ", lengths " + lengths_text());
}

absl::StatusOr<EncodedLoad> EncodeLoad(const RequestMix& mix, const Protocol& protocol,
                                       const AttendResult& first) {
  EncodedLoad load{&protocol, {}, mix.weights()};
  for (size_t kind = 0; kind < mix.num_kinds(); ++kind) {
    EncodedRequest request;
    ASSIGN_OR_RETURN(request.bytes, mix.Encode(kind, protocol));
    ASSIGN_OR_RETURN(request.tokens, mix.CountTokens(kind, first));
    load.kinds.push_back(std::move(request));
  }
  return load;
}

}  // namespace attention

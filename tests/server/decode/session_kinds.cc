#include "tests/server/decode/session_kinds.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/server/prefix_requests.h"
#include "tests/server/wire_options.h"

namespace attention {
namespace {

constexpr int64_t kQueryHeads = 4;
constexpr int64_t kKeyValueHeads = 2;
constexpr int64_t kHeadWidth = 16;

/// The rows `ids` of a table with `row` numbers each.
v1::Tensor Gather(const Ids& ids, const Shape& row, uint64_t seed) {
  Shape shape{kPromptVocabulary};
  shape.insert(shape.end(), row.begin(), row.end());
  const Tensor table = SeededTensor(seed, Dtype::kF32, shape);
  const size_t row_bytes = table.size_bytes() / kPromptVocabulary;
  shape[0] = std::ssize(ids);
  v1::Tensor gathered;
  WriteTensorHeader(Dtype::kF32, shape, gathered);
  for (const int32_t id : ids) {
    gathered.mutable_data()->append(static_cast<const char*>(table.data()) + id * row_bytes,
                                    row_bytes);
  }
  return gathered;
}

}  // namespace

std::vector<SessionKind> AllSessionKinds() {
  std::vector<SessionKind> kinds;
  for (const v1::DataType dtype : {v1::FP32, v1::BF16, v1::INT8}) {
    const auto add = [&](SessionKind kind) {
      kind.open.mutable_open()->set_cache_dtype(dtype);
      kind.open.mutable_open()->set_resume_ttl_ms(300'000);
      kind.name += " " + v1::DataType_Name(dtype);
      kinds.push_back(std::move(kind));
    };
    for (const char* const model : {"llama", "gemma2", "mistral", "qwen2-window", "gpt_neox"}) {
      add({.name = model, .open = OpenModel(model), .has_logits = true});
    }
    add({.name = "gpt2", .open = OpenModel("gpt2"), .has_logits = true, .limit = 24});
    for (const char* const options : {"", "window: 9", "window: 5 window_dilation: 3"}) {
      SessionKind layer{.name = absl::StrCat("demo ", options),
                        .open = OpenModel("demo"),
                        .input = SessionKind::kRows};
      *layer.open.mutable_open()->mutable_options() = Options(options);
      add(layer);
    }
    for (const char* const options :
         {"", "window: 9", "rotary {} key_norm {} softcap: 3", "sinks: [1, 0, -1, 2]",
          "alibi_slopes: [1, 0.5, 0.25, 0]", "similarity: GAUSSIAN bandwidth: 30"}) {
      SessionKind heads{.name = absl::StrCat("heads ", options),
                        .open = OpenHeads(kQueryHeads, kKeyValueHeads, kHeadWidth),
                        .input = SessionKind::kQueryKeyValue};
      *heads.open.mutable_open()->mutable_options() = Options(options);
      add(heads);
    }
  }
  return kinds;
}

v1::DecodeRequest StepOf(const SessionKind& kind, const Ids& ids, StepOutput output) {
  v1::DecodeRequest request = TokensStep(ids);
  v1::DecodeStep& step = *request.mutable_step();
  if (kind.input == SessionKind::kRows) {
    *step.mutable_hidden_states()->mutable_tensor() = Gather(ids, {kDemoWidth}, 1);
  } else if (kind.input == SessionKind::kQueryKeyValue) {
    v1::QueryKeyValue& input = *step.mutable_query_key_value();
    *input.mutable_query() = Gather(ids, {kQueryHeads, kHeadWidth}, 1);
    *input.mutable_key() = Gather(ids, {kKeyValueHeads, kHeadWidth}, 2);
    *input.mutable_value() = Gather(ids, {kKeyValueHeads, kHeadWidth}, 3);
  }
  switch (output) {
    case StepOutput::kRows:
      break;
    case StepOutput::kTopLogits:
      step.set_top_logits(5);
      break;
    case StepOutput::kLogits:
      step.set_model_output(v1::LOGITS);
      break;
    case StepOutput::kNone:
      step.set_no_output(true);
      break;
  }
  return request;
}

v1::DecodeRequest WrongStep() {
  v1::DecodeRequest request;
  *request.mutable_step()->mutable_hidden_states()->mutable_tensor() =
      Gather({1, 2}, {kDemoWidth + 1}, 1);
  return request;
}

}  // namespace attention

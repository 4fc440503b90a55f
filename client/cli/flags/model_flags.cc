#include "client/cli/flags/model_flags.h"

#include <vector>

#include "client/cli/files/shape_text.h"
#include "client/cli/flags/help_group.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

v1::ModelOutput OutputOf(const ModelFlags& flags) {
  if (!flags.pool.empty()) {
    return flags.pool == "mean" ? v1::MEAN_POOLED : v1::CLS_POOLED;
  }
  if (!flags.logits.empty()) {
    return flags.logits == "all" ? v1::LOGITS : v1::LAST_LOGITS;
  }
  return v1::LAST_HIDDEN_STATES;
}

}  // namespace

void AddModelFlags(CLI::App& command, ModelFlags& flags) {
  HelpGroup group(command, "Which part of the model to run (default: the whole stack)");
  group
      .Value("--layer", flags.layer, "N",
             "Attention of this layer alone, before residual and norm; counts from 0")
      ->check(CLI::NonNegativeNumber.description(""));
  group.Value("--model-version", flags.version, "N", "Default: the highest");
  group.Choice("--pool", flags.pool, "mean|cls", "One row a sequence: the mean, or the first row");
  group
      .Setter<std::vector<std::string>>(
          "--logits",
          [&flags](const std::vector<std::string>& values) {
            flags.logits = values.empty() || values[0].empty() ? "last" : values[0];
          },
          "[last|all]", "Logits of the last row (default) or of all rows, and the likeliest tokens")
      ->expected(0, 1)
      ->check(HelpGroup::OneOf("|last|all"));
  group
      .Value("--weights-layers", flags.weights_layers, "N,N",
             "Also the attention weights of these layers")
      ->check(Accepts(ParseIntegers));
  group
      .Value("--weights-heads", flags.weights_heads, "N,N",
             "Only these heads of --weights-layers; default: all")
      ->check(Accepts(ParseIntegers));
}

absl::Status CheckModelFlags(const ModelFlags& flags) {
  return CheckRules(
      {{flags.layer.has_value() && flags.has_stack_flags(),
        "--pool, --logits, --weights-layers and --weights-heads go with the whole model, not with "
        "--layer"},
       {!flags.pool.empty() && !flags.logits.empty(), "expected only one of --pool and --logits"},
       {!flags.weights_heads.empty() && flags.weights_layers.empty(),
        "--weights-heads goes with --weights-layers"}});
}

absl::Status ChooseRun(const ModelFlags& flags, AttendRequest& request) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> layers, ParseIntegers(flags.weights_layers));
  ASSIGN_OR_RETURN(const std::vector<int64_t> heads, ParseIntegers(flags.weights_heads));
  request.layer = flags.layer;
  request.model_version = flags.version;
  request.model_output = OutputOf(flags);
  request.weights_choice.mutable_layers()->Assign(layers.begin(), layers.end());
  request.weights_choice.mutable_heads()->Assign(heads.begin(), heads.end());
  return absl::OkStatus();
}

}  // namespace attention

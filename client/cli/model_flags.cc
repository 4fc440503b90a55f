#include "client/cli/model_flags.h"

#include <vector>

#include "client/cli/accepts.h"
#include "client/cli/shape_text.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

constexpr char kModelGroup[] = "What of the model to run (default: all of it)";

void AddNumbers(CLI::App& command, const char* name, std::string& target, const char* help) {
  command.add_option(name, target, help)
      ->type_name("N,N")
      ->check(Accepts(ParseIntegers))
      ->group(kModelGroup);
}

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
  command
      .add_option("--layer", flags.layer,
                  "Attention of this layer alone, before residual and norm; counts from 0")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber.description(""))
      ->group(kModelGroup);
  command.add_option("--model-version", flags.version, "Default: the highest")
      ->type_name("N")
      ->group(kModelGroup);
  command.add_option("--pool", flags.pool, "One row a sequence: the mean, or the first row (cls)")
      ->type_name("mean|cls")
      ->check(CLI::IsMember({"mean", "cls"}).description(""))
      ->group(kModelGroup);
  command
      .add_option_function<std::vector<std::string>>(
          "--logits",
          [&flags](const std::vector<std::string>& values) {
            flags.logits = values.empty() || values[0].empty() ? "last" : values[0];
          },
          "Of the last row (default) or of all rows; shows the likeliest next tokens")
      ->type_name("[last|all]")
      ->expected(0, 1)
      ->check(CLI::IsMember({"", "last", "all"}).description(""))
      ->group(kModelGroup);
  AddNumbers(command, "--weights-layers", flags.weights_layers,
             "Also the attention weights of these layers");
  AddNumbers(command, "--weights-heads", flags.weights_heads, "Of these heads; default: all");
}

absl::Status CheckModelFlags(const ModelFlags& flags) {
  if (flags.layer.has_value() && flags.has_stack_flags()) {
    return absl::InvalidArgumentError(
        "--pool, --logits, --weights-layers and --weights-heads go with the whole model, not with "
        "--layer");
  }
  if (!flags.pool.empty() && !flags.logits.empty()) {
    return absl::InvalidArgumentError("expected only one of --pool and --logits");
  }
  if (!flags.weights_heads.empty() && flags.weights_layers.empty()) {
    return absl::InvalidArgumentError("--weights-heads goes with --weights-layers");
  }
  return absl::OkStatus();
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

#include "client/cli/flags/model_flags.h"

#include <string>

#include "absl/strings/ascii.h"
#include "client/cli/files/shape_text.h"

namespace attention {

void AddModelFlags(CLI::App& command, ModelFlags& flags) {
  HelpGroup group(command, "Which part of the model to run (default: the whole stack)");
  group
      .Value("--layer", flags.layer, "N",
             "Run this layer alone, counted from 0, on the rows that are sent (of a text: its "
             "embeddings), without residual and norm. Inside the stack it gets other rows and has "
             "other weights: --weights-layers returns those")
      ->check(AtLeast(0));
  group.Value("--model-version", flags.version, "N", "Default: the highest");
  group
      .Setter<std::string>(
          "--pool",
          [&flags](const std::string& how) {
            flags.output = how == "mean" ? v1::MEAN_POOLED : v1::CLS_POOLED;
          },
          "mean|cls", "One row a sequence: the mean, or the first row")
      ->check(HelpGroup::OneOf("mean|cls"));
  group
      .Setter<std::vector<std::string>>(
          "--logits",
          [&flags](const std::vector<std::string>& values) {
            if (flags.output == v1::MEAN_POOLED || flags.output == v1::CLS_POOLED) {
              throw CLI::ValidationError("expected only one of --pool and --logits");
            }
            flags.output = !values.empty() && values[0] == "all" ? v1::LOGITS : v1::LAST_LOGITS;
          },
          "[last|all]", "Logits of the last row (default) or of all rows, and the likeliest tokens")
      ->expected(0, 1)
      ->check(HelpGroup::OneOf("|last|all"));
  group.Parsed("--weights-layers", ParseIndices, Into(flags.weights_layers), "N,N-N",
               "Also the attention weights that these layers have in the stack");
  group.Parsed("--weights-heads", ParseIndices, Into(flags.weights_heads), "N,N-N",
               "Only these heads of --weights-layers; default: all");
}

CLI::Option* AddCacheDtypeFlag(HelpGroup& group, v1::DataType& cache_dtype) {
  return group
      .Setter<std::string>(
          "--cache-dtype",
          [&cache_dtype](const std::string& name) {
            // Always succeeds: other names are refused below.
            static_cast<void>(v1::DataType_Parse(absl::AsciiStrToUpper(name), &cache_dtype));
          },
          "fp32|bf16|int8", "How the server keeps keys and values; default fp32")
      ->check(HelpGroup::OneOf("fp32|bf16|int8"));
}

absl::Status CheckModelFlags(const ModelFlags& flags) {
  return CheckRules({{flags.layer.has_value() && flags.output != v1::LAST_HIDDEN_STATES,
                      "--pool and --logits need the whole model, without --layer"},
                     {flags.layer.has_value() && !flags.weights_layers.empty(),
                      "--weights-layers needs the whole model, without --layer"},
                     {!flags.weights_heads.empty() && flags.weights_layers.empty(),
                      "--weights-heads needs --weights-layers"}});
}

void ChooseRun(const ModelFlags& flags, AttendRequest& request) {
  request.layer = flags.layer;
  request.model_version = flags.version;
  request.model_output = flags.output;
  request.weights_choice.mutable_layers()->Assign(flags.weights_layers.begin(),
                                                  flags.weights_layers.end());
  request.weights_choice.mutable_heads()->Assign(flags.weights_heads.begin(),
                                                 flags.weights_heads.end());
}

}  // namespace attention

#include <iostream>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/commands.h"
#include "client/cli/files/output_file.h"
#include "client/cli/files/tensor_file.h"
#include "client/cli/flags/help_group.h"
#include "client/cli/flags/request_flags.h"
#include "client/cli/flags/server_flags.h"
#include "client/cli/show/run_report.h"
#include "client/cli/show/save_answer.h"
#include "core/runtime/output_file.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

constexpr char kRunExamples[] =
    R"(Examples:
  attend run --random 2x5x512 --verify
  attend run --tokens "17,4,250;3,9" --causal --verify
  attend run --random 1x2048x512 --causal --stream
  attend run --input rows.npy --lengths 3,5 --output answer.safetensors
  attend run --random 2x5x512 --memory random:2x9x512 --verify
  attend run --tokens "17,4,250,3,9" --causal --window 3 --alibi standard --top-k 2 --verify
  attend run --random 1x64x512 --similarity gaussian --bandwidth 90 --log-sum-exp --verify
  attend run --model gpt2 --text "The cat sat on the mat" --logits --weights-layers 0,11
  attend run --model bert --text "The cat sat" --layer 3 --weights --output cat.safetensors
  attend run --protocol oip --model NAME --random 1x128x768
  attend run --random 2x5x512 --metadata attend-priority=low --metadata x-request-id=7
  attend run --query random:1x16x8x64 --key random:1x16x2x64 --value random:1x16x2x64 --causal

Of the times it prints, wire is what the client measured beyond the server's total: encoding, the
network, decoding.

Exit codes: 0 done (and agreed), 1 failed or disagreed, 2 wrong usage.)";

struct RunFlags {
  ClientOptions server;
  RequestFlags request;
  bool weights = false;
  bool log_sum_exp = false;
  int64_t top_k = 0;
  bool stream = false;
  bool verify = false;
  std::string output;
  bool json = false;
  std::string protocol = "native";

  bool is_native() const { return protocol == "native"; }
  bool wants_scores() const { return weights || log_sum_exp || top_k > 0; }
};

absl::StatusOr<AttendResult> CallServer(AttentionClient& client, const AttendRequest& request,
                                        const RunFlags& flags, std::vector<BlockArrival>& blocks) {
  if (!flags.is_native()) {
    return client.Infer(request);
  }
  if (!flags.stream) {
    return client.Attend(request);
  }
  const absl::Time start = absl::Now();
  StreamSink sink;
  sink.assemble = true;
  sink.on_rows = [&](const RowBlock& block) {
    blocks.push_back({block.sequence, block.first_row, block.rows.shape()[0], absl::Now() - start});
    if (!flags.json) {
      PrintText(ToText(blocks.back()));
    }
    return true;
  };
  return client.AttendStream(request, sink);
}

absl::StatusOr<AnswerCheck> Verify(AttentionClient& client, const AttendRequest& request,
                                   const AttendResult& result) {
  if (std::holds_alternative<QueryKeyValueInput>(request.input)) {
    return CheckAnswer(nullptr, request, result);
  }
  ASSIGN_OR_RETURN(const v1::Model model, client.GetModel(request.model, request.model_version));
  return CheckAnswer(&model, request, result);
}

/// Weights and sums are those of one attention, which a stack of layers is not; chosen layers are
/// those of a stack.
absl::Status CheckScores(const RunFlags& flags, const std::vector<v1::Model>& models) {
  if (flags.request.run.layer.has_value() || !flags.request.query.empty()) {
    return absl::OkStatus();
  }
  for (const v1::Model& model : models) {
    if (model.name() != flags.request.model) {
      continue;
    }
    if (!model.has_stack() && !flags.request.run.weights_layers.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--weights-layers needs a stack of layers, and ", model.name(),
                       " is one layer; --weights gets its weights"));
    }
    if (model.has_stack() && flags.wants_scores()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--weights, --top-k and --log-sum-exp need one --layer of ", model.name(),
                       "; --weights-layers 0,1 gets the weights of layers while all of them run"));
    }
  }
  return absl::OkStatus();
}

/// Sends the request and shows the answer. False if --verify finds a difference.
absl::StatusOr<bool> Run(const RunFlags& flags) {
  if (!flags.output.empty()) {
    RETURN_IF_ERROR(CheckWritable(flags.output));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<AttentionClient> client, Connect(flags.server));
  ASSIGN_OR_RETURN(Workload workload, MakeWorkload(flags.request, *client));
  workload.request.options.set_return_weights(flags.weights);
  workload.request.options.set_return_log_sum_exp(flags.log_sum_exp);
  workload.request.options.set_weights_top_k(flags.top_k);
  // Opens the connection, which would otherwise count as wire time. This call is answered even
  // while the server still loads other models; servers of the other protocol may not have it.
  if (flags.is_native()) {
    ASSIGN_OR_RETURN(const std::vector<v1::Model> models, client->ListModels());
    RETURN_IF_ERROR(CheckScores(flags, models));
  }
  if (!flags.json) {
    PrintText(ToText(workload.request));
  }
  std::vector<BlockArrival> blocks;
  ASSIGN_OR_RETURN(const AttendResult result, CallServer(*client, workload.request, flags, blocks));
  RunReport report{.server = flags.server.connection.server,
                   .request = workload.request,
                   .result = result,
                   .blocks = std::move(blocks)};
  if (flags.verify) {
    ASSIGN_OR_RETURN(report.check, Verify(*client, workload.request, result));
  }
  if (flags.json) {
    std::cout << JsonText(ToJson(report), 2);
  } else {
    ASSIGN_OR_RETURN(const std::string text, ToText(report));
    PrintText(text);
  }
  if (!flags.output.empty()) {
    RETURN_IF_ERROR(SaveAnswer(flags.output, *client, workload.request, result));
    std::cerr << "wrote " << flags.output << "\n";
  }
  return !report.check.has_value() || report.check->agreed();
}

void AddAnswerFlags(CLI::App& command, RunFlags& flags) {
  HelpGroup group(command, "What to get");
  group.Switch("--weights", flags.weights,
               "Also the attention weights: which token attends to which (attend plot draws them)");
  group.Value("--top-k", flags.top_k, "N", "Also the N largest weights of each row")
      ->check(AtLeast(1));
  group.Switch(
      "--log-sum-exp", flags.log_sum_exp,
      "Also the log-sum-exp of each row, by which answers over parts of the keys are merged");
  group.Switch("--stream", flags.stream,
               "Receive blocks of rows as they are computed, and show when each arrives");
  group.Switch("--verify", flags.verify,
               "Recompute the answer in double precision and compare (seeded models, --query)");
  group
      .Value("--output", flags.output, "FILE",
             "Write `output` to FILE.npy; or it and `weights.N`, `log_sum_exp.N`, "
             "`top_weights.N`, `top_keys.N` and `layer_weights.LAYER.N` to FILE.safetensors, "
             "which `attend plot` draws")
      ->check([](const std::string& path) { return std::string(CheckTensorPath(path).message()); });
  group.Switch("--json", flags.json, "Print a JSON object instead of text");
  group
      .Choice("--protocol", flags.protocol, "native|oip",
              "attention.v1, or the Open Inference Protocol v2 (other servers have it, too)")
      ->capture_default_str();
}

}  // namespace

void AddRunCommand(CLI::App& app, int& exit_code) {
  const auto flags = std::make_shared<RunFlags>();
  CLI::App* const command = app.add_subcommand("run", "Send one request and show the answer");
  AddServerFlags(*command, flags->server);
  AddRequestFlags(*command, flags->request);
  AddAnswerFlags(*command, *flags);
  command->footer(absl::StrCat(kShapeLegend, kRunExamples));
  command->callback([flags, &exit_code] {
    RequireUsage(CheckRequestFlags(flags->request));
    const bool has_more_than_output =
        flags->wants_scores() || !flags->request.run.weights_layers.empty();
    RequireUsage(CheckRules(
        {{flags->stream && !flags->is_native(), "--stream needs --protocol native"},
         {absl::EndsWith(flags->output, ".npy") && has_more_than_output,
          "--output: expected FILE.safetensors, since FILE.npy holds one tensor, and --weights, "
          "--top-k, --log-sum-exp or --weights-layers asks for more"}}));
    exit_code = ExitCodeOf(Run(*flags));
  });
}

}  // namespace attention

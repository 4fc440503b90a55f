#include <iostream>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/commands.h"
#include "client/cli/request_flags.h"
#include "client/cli/run_report.h"
#include "client/cli/save_answer.h"
#include "client/cli/server_flags.h"
#include "client/cli/tensor_file.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

constexpr char kRunExamples[] =
    "A TENSOR is FILE.npy, FILE.safetensors[:NAME] or random:2x5x512. Notation of shapes: B "
    "sequences of S tokens;\n"
    "H query heads and Hkv key/value heads of width D; values of width Dv. T counts packed tokens "
    "of all sequences.\n"
    "\n"
    "Examples:\n"
    "  attend run --random 2x5x512 --verify\n"
    "  attend run --tokens \"17,4,250;3,9\" --causal --weights\n"
    "  attend run --random 1x2048x512 --causal --stream\n"
    "  attend run --input rows.npy --lengths 3,5 --output answer.safetensors\n"
    "  attend run --random 2x5x512 --memory random:2x9x512 --verify\n"
    "  attend run --tokens \"17,4,250,3,9\" --causal --window 3 --alibi standard --top-k 2 "
    "--verify\n"
    "  attend run --random 1x64x512 --similarity gaussian --bandwidth 90 --log-sum-exp --verify\n"
    "  attend run --model gpt2 --text \"The cat sat on the mat\" --logits --weights-layers 0,11\n"
    "  attend run --model bert --text \"The cat sat\" --layer 3 --weights --head 2\n"
    "  attend run --protocol oip --model NAME --random 1x128x768\n"
    "  attend run --query random:1x16x8x64 --key random:1x16x2x64 --value random:1x16x2x64 "
    "--causal --dtype bf16\n"
    "\n"
    "Exit codes: 0 done (and agreed), 1 failed or disagreed, 2 wrong usage.";

struct RunFlags {
  ServerFlags server;
  RequestFlags request;
  bool weights = false;
  bool log_sum_exp = false;
  int64_t top_k = 0;
  std::optional<int64_t> head;
  bool all_rows = false;
  bool stream = false;
  bool verify = false;
  std::string output;
  bool json = false;
  std::string protocol = "native";
  // Metadata that the server knows.
  std::string priority, tenant, request_id;

  bool is_native() const { return protocol == "native"; }
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
      std::cout << ToText(blocks.back()) << std::flush;
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

ServerFlags ServerOf(const RunFlags& flags) {
  ServerFlags server = flags.server;
  const std::pair<const char*, const std::string&> known[] = {{"attend-priority", flags.priority},
                                                              {"attend-tenant", flags.tenant},
                                                              {"x-request-id", flags.request_id}};
  for (const auto& [key, value] : known) {
    if (!value.empty()) {
      server.connection.metadata.emplace_back(key, value);
    }
  }
  return server;
}

/// Whether the answer agreed, if that was asked.
absl::StatusOr<bool> Run(const RunFlags& flags) {
  ASSIGN_OR_RETURN(const std::unique_ptr<AttentionClient> client, ConnectTo(ServerOf(flags)));
  ASSIGN_OR_RETURN(Workload workload, MakeWorkload(flags.request, *client));
  workload.request.options.set_return_weights(flags.weights);
  workload.request.options.set_return_log_sum_exp(flags.log_sum_exp);
  workload.request.options.set_weights_top_k(flags.top_k);
  // Opens the connection, which would count as wire time below. (A server that still loads other
  // models is not healthy yet, but answers. A server of the other protocol may not know this call.)
  if (flags.is_native()) {
    RETURN_IF_ERROR(client->ListModels().status());
  }
  if (!flags.json) {
    std::cout << ToText(workload.request) << std::flush;
  }
  std::vector<BlockArrival> blocks;
  ASSIGN_OR_RETURN(const AttendResult result, CallServer(*client, workload.request, flags, blocks));
  RunReport report{.server = flags.server.connection.server,
                   .request = workload.request,
                   .result = result,
                   .blocks = std::move(blocks),
                   .check = std::nullopt,
                   .head = flags.head,
                   .all_rows = flags.all_rows};
  if (flags.verify) {
    ASSIGN_OR_RETURN(report.check, Verify(*client, workload.request, result));
  }
  if (flags.json) {
    std::cout << ToJson(report).dump(2) << "\n";
  } else {
    ASSIGN_OR_RETURN(const std::string text, ToText(report));
    std::cout << text;
  }
  if (!flags.output.empty()) {
    RETURN_IF_ERROR(SaveAnswer(flags.output, *client, workload.request, result));
    std::cerr << "wrote " << flags.output << "\n";
  }
  return !report.check.has_value() || report.check->agreed();
}

absl::Status CheckShown(const RunFlags& flags) {
  if ((flags.head.has_value() || flags.all_rows) && !flags.weights && flags.top_k == 0 &&
      flags.request.run.weights_layers.empty()) {
    return absl::InvalidArgumentError(
        "--head and --all go with --weights, --top-k or --weights-layers");
  }
  if (flags.stream && !flags.is_native()) {
    return absl::InvalidArgumentError("--stream goes with --protocol native");
  }
  return absl::OkStatus();
}

constexpr char kAnswerGroup[] = "What to get";

void AddScoreFlags(CLI::App& command, RunFlags& flags) {
  command
      .add_flag("--weights", flags.weights,
                "Also the attention weights: which token attends to which")
      ->group(kAnswerGroup);
  command.add_option("--top-k", flags.top_k, "Also the N largest weights of each row")
      ->type_name("N")
      ->check(CLI::PositiveNumber.description(""))
      ->group(kAnswerGroup);
  command
      .add_flag("--log-sum-exp", flags.log_sum_exp,
                "Also the logarithm of each row's sum, which merges answers over parts of the keys")
      ->group(kAnswerGroup);
  command
      .add_option("--head", flags.head,
                  "Show this head's weights; default: the mean of all, and head 0 of --top-k")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber.description(""))
      ->group(kAnswerGroup);
  command.add_flag("--all", flags.all_rows, "Show the weights of all rows, not of the first 16")
      ->group(kAnswerGroup);
}

/// What the server does with the request besides answering it.
void AddCallFlags(CLI::App& command, RunFlags& flags) {
  static constexpr char kCallGroup[] = "How to ask";
  command
      .add_option("--protocol", flags.protocol,
                  "The API of this server, or the Open Inference Protocol v2 (also of others)")
      ->type_name("native|oip")
      ->check(CLI::IsMember({"native", "oip"}).description(""))
      ->capture_default_str()
      ->group(kCallGroup);
  command
      .add_option(
          "--priority", flags.priority,
          "Share of a busy server: 100 (where a token grants it), 10 (normal, the default) or "
          "1")
      ->type_name("high|normal|low")
      ->check(CLI::IsMember({"high", "normal", "low"}).description(""))
      ->group(kCallGroup);
  command
      .add_option("--tenant", flags.tenant,
                  "For whom: a busy server shares its work out evenly between tenants")
      ->type_name("NAME")
      ->group(kCallGroup);
  command.add_option("--request-id", flags.request_id, "What the server's log calls the request")
      ->type_name("ID")
      ->group(kCallGroup);
}

void AddFlags(CLI::App& command, RunFlags& flags) {
  AddServerFlags(command, flags.server);
  AddCallFlags(command, flags);
  AddRequestFlags(command, flags.request);
  AddScoreFlags(command, flags);
  command
      .add_flag("--stream", flags.stream,
                "Receive row blocks as they are computed, and show when each arrives")
      ->group(kAnswerGroup);
  command
      .add_flag("--verify", flags.verify,
                "Recompute the answer in double precision and compare (seeded models, --query)")
      ->group(kAnswerGroup);
  command
      .add_option("--output", flags.output,
                  "Write `output` to FILE.npy, or it and `weights.N`, `log_sum_exp.N`, "
                  "`top_weights.N`, `top_keys.N` and `layer_weights.LAYER.N` to FILE.safetensors, "
                  "which `attend plot` draws")
      ->type_name("FILE")
      ->check([](const std::string& path) { return std::string(CheckTensorPath(path).message()); })
      ->group(kAnswerGroup);
  command.add_flag("--json", flags.json, "A JSON object instead of text")->group(kAnswerGroup);
}

}  // namespace

void AddRunCommand(CLI::App& app, int& exit_code) {
  const auto flags = std::make_shared<RunFlags>();
  CLI::App* const command = app.add_subcommand("run", "Send one request and show the answer");
  AddFlags(*command, *flags);
  command->footer(kRunExamples);
  command->callback([flags, &exit_code] {
    RequireUsage(CheckRequestFlags(flags->request));
    RequireUsage(CheckShown(*flags));
    const absl::StatusOr<bool> agreed = Run(*flags);
    exit_code = !agreed.ok() ? Fail(agreed.status()) : *agreed ? 0 : kExitFailed;
  });
}

}  // namespace attention

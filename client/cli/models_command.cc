#include <algorithm>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/commands.h"
#include "client/cli/files/output_file.h"
#include "client/cli/files/shape_text.h"
#include "client/cli/flags/help_group.h"
#include "client/cli/flags/server_flags.h"
#include "client/cli/show/message_json.h"
#include "client/cli/show/model_details.h"
#include "client/cli/show/models_text.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

constexpr char kModelsExamples[] = R"(Examples:
  attend models
  attend models gpt2
  attend models --json | jq '.[].name'
  attend models --states
  attend models --load gpt2:2 --timeout 5m --server 127.0.0.1:8003  # the server's admin listener
  attend models --verify gpt2 --max-relative-l2 0.02 --server 127.0.0.1:8003

Exit codes: 0 done; 1 failed, a model did not load, or an error is above --max-relative-l2;
2 wrong usage.)";

struct ModelsFlags {
  ClientOptions server;
  std::string model;
  bool names = false;
  bool json = false;

  // The action on the server's folder of models; at most one of:
  bool states = false;
  bool reload = false;
  std::string load, unload;                                          // NAME or NAME:VERSION
  std::optional<std::string> verify;                                 // the model; empty: all models
  double max_relative_l2 = std::numeric_limits<double>::infinity();  // of --verify

  int num_actions() const {
    return int{states} + int{reload} + int{verify.has_value()} + int{!load.empty()} +
           int{!unload.empty()};
  }
  bool is_admin() const { return num_actions() > 0; }
};

/// The state of `model`; absent for a model of the server's own, and if the server does not show
/// states.
std::optional<v1::ModelState> StateOf(const v1::Model& model, AttentionClient& client) {
  if (model.has_seed()) {  // generated, not of the folder
    return std::nullopt;
  }
  const auto states = client.ListModelStates();
  for (const v1::ModelState& state : states.ok() ? *states : std::vector<v1::ModelState>()) {
    if (state.name() == model.name() && state.version() == model.version()) {
      return state;
    }
  }
  return std::nullopt;
}

absl::Status PrintModel(AttentionClient& client, const ModelsFlags& flags) {
  ASSIGN_OR_RETURN(const NamedVersion named, ParseNamedVersion(flags.model));
  ASSIGN_OR_RETURN(const v1::Model model, client.GetModel(named.name, named.version));
  if (flags.json) {
    std::cout << JsonText(ToJson(model), 2);
  } else {
    PrintText(ModelDetails(model, StateOf(model, client)));
  }
  return absl::OkStatus();
}

absl::Status PrintModels(AttentionClient& client, const ModelsFlags& flags) {
  ASSIGN_OR_RETURN(const std::vector<v1::Model> models, client.ListModels());
  if (flags.names) {
    std::set<std::string> names;  // each name once, whatever its versions
    for (const v1::Model& model : models) {
      names.insert(model.name());
    }
    for (const std::string& name : names) {
      PrintText(absl::StrCat(name, "\n"));
    }
  } else if (flags.json) {
    std::cout << JsonText(ToJsonArray(models), 2);
  } else {
    PrintText(ModelsTable(models));
    for (const v1::Model& model : models) {
      if (const std::string warning = EmulationWarning(model); !warning.empty()) {
        PrintText(absl::StrFormat("warning: %s: %s\n", model.name(), warning));
      }
    }
  }
  return absl::OkStatus();
}

using States = std::vector<v1::ModelState>;
using Verifications = std::vector<v1::VerifyModelResponse>;

absl::StatusOr<States> ChangeModels(AttentionClient& client, const ModelsFlags& flags) {
  if (flags.reload) {
    return client.ReloadModels();
  }
  if (!flags.load.empty()) {
    ASSIGN_OR_RETURN(const NamedVersion model, ParseNamedVersion(flags.load));
    return client.LoadModel(model.name, model.version);
  }
  if (!flags.unload.empty()) {
    ASSIGN_OR_RETURN(const NamedVersion model, ParseNamedVersion(flags.unload));
    return client.UnloadModel(model.name, model.version);
  }
  return client.ListModelStates();
}

/// The verifications that succeeded, and the first error: of a model that failed to load, or that
/// could not be verified.
struct Verified {
  Verifications verifications;
  absl::Status failure;
};

/// Verifies the model `name`, or without a name all models that are served. A model of the folder
/// that failed to load is a failure, and so is a server that serves none.
absl::StatusOr<Verified> VerifyModels(AttentionClient& client, const std::string& name) {
  Verified verified;
  std::vector<NamedVersion> models;
  if (!name.empty()) {
    ASSIGN_OR_RETURN(NamedVersion model, ParseNamedVersion(name));
    models.push_back(std::move(model));
  } else {
    ASSIGN_OR_RETURN(const States states, client.ListModelStates());
    for (const v1::ModelState& state : states) {
      if (state.serving()) {
        models.push_back({state.name(), state.version()});
      }
      if (state.phase() == v1::ModelState::FAILED) {
        verified.failure.Update(absl::FailedPreconditionError(absl::StrCat(
            "model ", state.name(), ":", state.version(), " failed to load: ", state.error())));
      }
    }
    if (models.empty() && verified.failure.ok()) {
      verified.failure = absl::FailedPreconditionError(
          "--verify: expected at least one model that is served, found none");
    }
  }
  for (const NamedVersion& model : models) {
    absl::StatusOr<v1::VerifyModelResponse> answer = client.VerifyModel(model.name, model.version);
    verified.failure.Update(answer.status());
    if (answer.ok()) {
      verified.verifications.push_back(*std::move(answer));
    }
  }
  return verified;
}

/// Returns an error that names the first difference whose relative L2 is above `limit`, or NaN.
absl::Status CheckDifferences(const Verifications& verifications, double limit) {
  for (const v1::VerifyModelResponse& verified : verifications) {
    for (const v1::VerifyModelResponse::Difference& difference : verified.differences()) {
      if (!(difference.relative_l2() <= limit)) {
        return absl::FailedPreconditionError(absl::StrFormat(
            "%s version %d: %s: expected a relative L2 of at most %g, found %.2e", verified.model(),
            verified.version(), difference.of(), limit, difference.relative_l2()));
      }
    }
  }
  return absl::OkStatus();
}

/// Prints the messages as JSON, or as the text that `to_text` returns.
template <typename Messages>
void Print(const Messages& messages, bool as_json, std::string (*to_text)(const Messages&)) {
  if (as_json) {
    std::cout << JsonText(ToJsonArray(messages), 2);
  } else {
    PrintText(to_text(messages));
  }
}

absl::Status PrintVerified(AttentionClient& client, const ModelsFlags& flags) {
  ASSIGN_OR_RETURN(const Verified verified, VerifyModels(client, *flags.verify));
  Print(verified.verifications, flags.json, VerificationsText);
  RETURN_IF_ERROR(verified.failure);
  return CheckDifferences(verified.verifications, flags.max_relative_l2);
}

int RunModels(const ModelsFlags& flags) {
  const auto client = Connect(flags.server);
  if (!client.ok()) {
    return ExitCodeOf(client.status());
  }
  if (flags.verify.has_value()) {
    return ExitCodeOf(PrintVerified(**client, flags));
  }
  if (!flags.is_admin()) {
    return ExitCodeOf(flags.model.empty() ? PrintModels(**client, flags)
                                          : PrintModel(**client, flags));
  }
  const absl::StatusOr<States> states = ChangeModels(**client, flags);
  if (!states.ok()) {
    return ExitCodeOf(states.status());
  }
  Print(*states, flags.json, StatesText);
  const bool has_failed =
      flags.reload && std::ranges::any_of(*states, [](const v1::ModelState& state) {
        return state.phase() == v1::ModelState::FAILED;
      });
  return has_failed ? kExitFailed : 0;
}

void AddAdminFlags(CLI::App& command, ModelsFlags& flags) {
  HelpGroup group(command, "Manage the models of attend-server --models (one action at a time)");
  const auto named = [accepts = Accepts(ParseNamedVersion)](const std::string& text) {
    return absl::StartsWith(text, "--") ? absl::StrCat("expected a name, found the flag ", text)
                                        : accepts(text);
  };
  group.Switch("--states", flags.states,
               "State of each version: serving, failed and why, and its size");
  group
      .Value("--load", flags.load, "NAME[:VERSION]",
             "Load or reload this model; a named version is served whatever the server's policy")
      ->check(named);
  group
      .Value("--unload", flags.unload, "NAME[:VERSION]",
             "Stop serving this model until it is loaded again")
      ->check(named);
  group.Switch("--reload", flags.reload,
               "Reread the folder now; exit 1 when one of its models fails");
  group
      .Setter<std::string>(
          "--verify", [&flags](const std::string& name) { flags.verify = name; }, "NAME[:VERSION]",
          "Compare answers in the weights' dtype with answers in fp32; without NAME, of all models")
      ->expected(0, 1)
      ->check(named);
  group
      .Value("--max-relative-l2", flags.max_relative_l2, "NUMBER",
             "Exit 1 when the norm of a difference divided by that of the fp32 answer is larger")
      ->check(NumberThat([](double x) { return x > 0 && x < 1; }, "a number above 0 and below 1"))
      ->needs("--verify");
}

}  // namespace

void AddModelsCommand(CLI::App& app, int& exit_code) {
  const auto flags = std::make_shared<ModelsFlags>();
  CLI::App* const command =
      app.add_subcommand("models", "List the server's models, show one, or change what is served");
  HelpGroup group(*command);
  CLI::Option* const model =
      group.Value("model", flags->model, "NAME[:VERSION]", "Show this model, with its layers");
  model->check(Accepts(ParseNamedVersion));
  AddServerFlags(*command, flags->server);
  CLI::Option* const names =
      group.Switch("--names", flags->names, "Print only names, one a line")->excludes(model);
  group
      .Switch("--json", flags->json, "Print JSON instead of a table, with layers, limits and seed")
      ->excludes(names);
  AddAdminFlags(*command, *flags);
  command->footer(kModelsExamples);
  command->callback([flags, &exit_code] {
    RequireUsage(CheckRules(
        {{flags->num_actions() > 1,
          "expected only one of --states, --load, --unload, --reload and --verify"},
         {flags->is_admin() && (flags->names || !flags->model.empty()),
          "a model and --names cannot be combined with --states, --load, --unload, --reload and "
          "--verify"}}));
    exit_code = RunModels(*flags);
  });
}

}  // namespace attention

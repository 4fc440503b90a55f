#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/commands.h"
#include "client/cli/files/shape_text.h"
#include "client/cli/flags/help_group.h"
#include "client/cli/flags/server_flags.h"
#include "client/cli/model_admin.h"
#include "client/cli/show/message_json.h"
#include "client/cli/show/model_details.h"
#include "client/cli/show/text_table.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

constexpr char kModelsExamples[] = R"(Examples:
  attend models
  attend models gpt2
  attend models --json | jq '.[].name'
  attend models --states --server 127.0.0.1:8003   the server's admin listener
  attend models --load gpt2:2 --timeout 5m

Exit codes: 0 done, 1 failed, 2 wrong usage.)";

/// `count`, or "-" for 0, which means that there is no such thing.
std::string CountOrDash(int64_t count) { return count == 0 ? "-" : absl::StrCat(count); }

std::string ToTable(const std::vector<v1::Model>& models) {
  std::vector<std::vector<std::string>> rows = {{"NAME", "VERSION", "TYPE", "LAYERS", "D_MODEL",
                                                 "HEADS", "WEIGHTS", "CAUSAL", "VOCABULARY",
                                                 "POSITIONS"}};
  for (const v1::Model& model : models) {
    rows.push_back({model.name(), absl::StrCat(model.version()), model.model_type(),
                    absl::StrCat(model.num_layers()), absl::StrCat(model.d_model()),
                    HeadsText(model.num_heads(), model.num_kv_heads()),
                    absl::StrCat(model.weights_dtype(), " ", Mebibytes(model.weights_bytes())),
                    model.causal() ? "yes" : "no", CountOrDash(model.vocab_size()),
                    CountOrDash(model.max_positions())});
  }
  return TextTable(rows);
}

struct ModelsFlags {
  ServerFlags server;
  ModelAdminFlags admin;
  std::string model;
  bool names = false;
  bool json = false;
};

/// The state of `model`; absent if the server has no folder of models, or does not show their
/// states.
std::optional<v1::ModelState> StateOf(const v1::Model& model, AttentionClient& client) {
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
  std::cout << (flags.json ? absl::StrCat(ToJson(model).dump(2), "\n")
                           : ModelDetails(model, StateOf(model, client)));
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
      std::cout << name << "\n";
    }
  } else if (flags.json) {
    std::cout << ToJsonArray(models).dump(2) << "\n";
  } else {
    std::cout << ToTable(models);
    for (const v1::Model& model : models) {
      if (const std::string warning = EmulationWarning(model); !warning.empty()) {
        std::cout << absl::StrFormat("warning: %s: %s\n", model.name(), warning);
      }
    }
  }
  return absl::OkStatus();
}

int RunModels(const ModelsFlags& flags) {
  if (flags.admin.is_given()) {
    return RunModelAdmin(flags.server, flags.admin, flags.json);
  }
  const auto client = ConnectTo(flags.server);
  const absl::Status status = !client.ok()          ? client.status()
                              : flags.model.empty() ? PrintModels(**client, flags)
                                                    : PrintModel(**client, flags);
  return ExitCodeOf(status);
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
  group.Switch("--names", flags->names, "Print only names, one a line")->excludes(model);
  group.Switch("--json", flags->json,
               "Print JSON instead of a table, with layers, limits and seed");
  AddModelAdminFlags(*command, flags->admin);
  command->footer(kModelsExamples);
  command->callback([flags, &exit_code] {
    RequireUsage(
        CheckRules({{flags->admin.is_given() && (flags->names || !flags->model.empty()),
                     "a model and --names go with none of --states, --load, --unload, --reload and "
                     "--verify, which name their model themselves"}}));
    exit_code = RunModels(*flags);
  });
}

}  // namespace attention

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands.h"
#include "client/cli/files/output_file.h"
#include "client/cli/files/shape_text.h"
#include "client/cli/flags/help_group.h"
#include "client/cli/flags/model_flags.h"
#include "client/cli/flags/server_flags.h"
#include "client/cli/generate/generation.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

constexpr char kGenerateExamples[] =
    R"(The prompt is a text or --tokens; without either it is all of standard input. Text goes to standard
output as it is made, timing to standard error.

Examples:
  attend generate "The cat sat on"
  attend generate "Once upon a time" --temperature 0.8 --top-p 0.95 --seed 7 --max-tokens 200
  attend generate --model gpt2 --tokens 464,3797 --ids --stop-ids 50256
  attend generate --json --stop "." < prompt.txt

Exit codes: 0 done, 1 failed, 2 wrong usage.)";

struct GenerateFlags {
  ClientOptions server;
  std::optional<std::string> prompt;
  std::vector<int32_t> tokens;  // instead of a prompt, unless empty
  std::string model;
  bool no_special_tokens = false;
  v1::DataType cache_dtype = v1::FP32;
  GenerationOptions options;
  bool ids = false;
  bool json = false;
};

bool CanGenerate(const v1::Model& model) {
  return model.has_logits() && model.causal() && !model.has_encoder();
}

std::string KindOf(const v1::Model& model) {
  return absl::StrCat("one ", model.causal() ? "that is causal" : "that is not causal", ", ",
                      model.has_logits() ? "with" : "without", " logits",
                      model.has_encoder() ? ", with an encoder" : "");
}

/// Returns the model called `name`, or without a name the only one that can generate text.
absl::StatusOr<v1::Model> ChooseModel(const std::string& name, AttentionClient& client) {
  if (!name.empty()) {
    ASSIGN_OR_RETURN(const NamedVersion named, ParseNamedVersion(name));
    ASSIGN_OR_RETURN(v1::Model model, client.GetModel(named.name, named.version));
    return CanGenerate(model)
               ? absl::StatusOr<v1::Model>(std::move(model))
               : absl::FailedPreconditionError(
                     absl::StrCat("--model ", name, ": expected a causal model with logits, found ",
                                  KindOf(model)));
  }
  ASSIGN_OR_RETURN(std::vector<v1::Model> models, client.ListModels());
  std::erase_if(models, [](const v1::Model& model) { return !CanGenerate(model); });
  if (models.size() == 1) {
    return models.front();
  }
  const std::string names =
      absl::StrJoin(models, ", ", [](std::string* text, const v1::Model& model) {
        absl::StrAppend(text, model.name(), ":", model.version());
      });
  return absl::FailedPreconditionError(
      absl::StrCat("--model: expected one causal model with logits on the server, found ",
                   models.empty() ? "none" : names));
}

absl::StatusOr<std::unique_ptr<DecodeStream>> OpenSession(const GenerateFlags& flags,
                                                          const v1::Model& model) {
  v1::OpenSession open;
  open.set_model(model.name());
  open.set_model_version(model.version());
  open.set_cache_dtype(flags.cache_dtype);
  return DecodeStream::Open(
      {.connection = flags.server.connection, .timeout = flags.server.timeout}, open);
}

absl::Status Write(Generation& generation, const decltype(AttendRequest::input)& prompt,
                   const GenerateFlags& flags, bool shows_text) {
  const bool is_terminal = isatty(STDOUT_FILENO) != 0;
  TerminalText terminal;  // which a model must not control
  const auto show = [&](int32_t id, const std::string& text) {
    if (flags.json) {
      return;
    }
    if (shows_text) {
      std::cout << (is_terminal ? terminal.Add(text) : text) << std::flush;
    } else if (id >= 0) {
      std::cout << id << " " << std::flush;
    }
  };
  const absl::StatusOr<Generated> generated = generation.Continue(prompt, show);
  if (!generated.ok()) {
    std::cout << std::flush;
    return generated.status();
  }
  if (flags.json) {
    std::cout << JsonText({{"prompt_tokens", generated->prompt_tokens},
                           {"ids", generated->ids},
                           {"text", generated->text},
                           {"finish", generated->finish},
                           {"first_token_ms", absl::ToDoubleMilliseconds(generated->first_after)},
                           {"ms_per_token", generated->MillisecondsEach()}})
              << std::flush;
    return absl::OkStatus();
  }
  std::cout << terminal.Rest() << std::endl;
  std::cerr << generated->Timing() << std::endl;
  return absl::OkStatus();
}

absl::Status Generate(GenerateFlags flags) {
  ASSIGN_OR_RETURN(const std::unique_ptr<AttentionClient> client, Connect(flags.server));
  ASSIGN_OR_RETURN(const v1::Model model, ChooseModel(flags.model, *client));
  flags.options.max_positions = model.max_positions();
  const bool shows_text = model.has_tokenizer() && !flags.ids;
  if (flags.tokens.empty() && !flags.prompt.has_value()) {
    flags.prompt.emplace(std::istreambuf_iterator<char>(std::cin),
                         std::istreambuf_iterator<char>());
    if (const std::string wrong = Accepts(ParseUtf8)(*flags.prompt); !wrong.empty()) {
      RequireUsage(absl::InvalidArgumentError(absl::StrCat("standard input: ", wrong)));
    }
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<DecodeStream> stream, OpenSession(flags, model));
  Generation generation(*stream, flags.options);
  RETURN_IF_ERROR(flags.tokens.empty()
                      ? Write(generation, TextInput{{*flags.prompt}, flags.no_special_tokens},
                              flags, shows_text)
                      : Write(generation, TokenIdsInput{flags.tokens}, flags, shows_text));
  return stream->Close();
}

void AddPromptFlags(CLI::App& command, GenerateFlags& flags) {
  HelpGroup group(command);
  CLI::Option* const prompt = group.Value("prompt", flags.prompt, "TEXT", "The text to continue");
  prompt->check(Accepts(ParseUtf8));
  AddServerFlags(command, flags.server);
  group
      .Value("--model", flags.model, "NAME",
             "NAME or NAME:VERSION; default: the server's only causal model with logits")
      ->check(Accepts(ParseNamedVersion));
  group.Parsed("--tokens", ParseTokenIds, Into(flags.tokens), "N,N", "Token ids instead of a text")
      ->excludes(prompt);
  group.Switch("--no-special-tokens", flags.no_special_tokens,
               "Leave out the special tokens that the tokenizer puts around a text");
  AddCacheDtypeFlag(group, flags.cache_dtype);
}

void AddChoiceFlags(CLI::App& command, GenerateFlags& flags) {
  HelpGroup group(command, "Which token comes next");
  SamplerOptions& sampler = flags.options.sampler;
  group
      .Default("--temperature", sampler.temperature, "X",
               "0: the most likely token; 1: as the model predicts")
      ->check(Within(0.0, 100.0));
  group.Default("--top-k", sampler.top_k, "N", "Sample from the N most likely tokens")
      ->check(Within(1, 1024));
  group
      .Default("--top-p", sampler.top_p, "X",
               "Of these, the most likely tokens whose probabilities add up to X")
      ->check(Within(1e-6, 1.0));
  group.Default("--seed", sampler.seed, "N", "The same seed gives the same text")
      ->check(AtLeast(0));
}

void AddEndFlags(CLI::App& command, GenerateFlags& flags) {
  HelpGroup group(command, "When to stop");
  group.Default("--max-tokens", flags.options.max_tokens, "N", "After this many tokens")
      ->check(AtLeast(1));
  group.Parsed(
      "--stop-ids", ParseTokenIds,
      [&flags](const std::vector<int32_t>& ids) {
        flags.options.stop_ids.insert(ids.begin(), ids.end());
      },
      "N,N", "Before any of these tokens");
  group.List("--stop", flags.options.stop_texts, "TEXT", "Before this text; may be repeated")
      ->check([](const std::string& text) { return text.empty() ? "expected a text" : ""; });
  HelpGroup output(command);
  output.Switch("--ids", flags.ids, "Print token ids, not the text");
  output.Switch("--json", flags.json, "Print a JSON object: ids, text and timing");
}

}  // namespace

void AddGenerateCommand(CLI::App& app, int& exit_code) {
  const auto flags = std::make_shared<GenerateFlags>();
  CLI::App* const command =
      app.add_subcommand("generate", "Continue a text with a model, token by token");
  AddPromptFlags(*command, *flags);
  AddChoiceFlags(*command, *flags);
  AddEndFlags(*command, *flags);
  command->footer(kGenerateExamples);
  command->callback([flags, &exit_code] { exit_code = ExitCodeOf(Generate(*flags)); });
}

}  // namespace attention

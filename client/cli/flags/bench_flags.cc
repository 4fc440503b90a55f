#include "client/cli/flags/bench_flags.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/files/shape_text.h"
#include "client/cli/flags/help.h"
#include "client/cli/flags/help_group.h"
#include "client/load/length_mix.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

/// The lengths of the sequences of one request, or a mix of lengths.
struct Lengths {
  std::vector<int64_t> of_sequences;
  std::optional<LengthMix> mix;
};

absl::StatusOr<Lengths> ParseLengths(const std::string& text) {
  Lengths lengths;
  if (text.find(':') == std::string::npos) {
    ASSIGN_OR_RETURN(lengths.of_sequences, ParseIntegers(text));
  } else {
    ASSIGN_OR_RETURN(lengths.mix, ParseLengthMix(text));
  }
  return lengths;
}

void AddRequestKindFlags(CLI::App& command, BenchFlags& flags) {
  AddRequestFlags(command, flags.request);
  // Replaced by a flag that also takes a mix of lengths.
  command.remove_option(command.get_option("--lengths"));
  HelpGroup group(command, "Requests");
  group.Parsed(
      "--lengths", ParseLengths,
      [&flags](const Lengths& lengths) {
        flags.mix = lengths.mix;
        flags.request.lengths = lengths.of_sequences;
      },
      "MIX",
      "Draw the length S of each request: uniform:8..512, zipf:1.1:8..512, fixed:N or file:PATH; "
      "or "
      "N,N: a length for each sequence of one request");
  group
      .Choice("--protocol", flags.protocol, "native|oip",
              "attention.v1, or the Open Inference Protocol v2")
      ->capture_default_str();
  group.Switch("--stream", flags.stream, "Stream answers in blocks of rows (AttendStream)");
}

void AddDecodeFlags(CLI::App& command, BenchFlags& flags) {
  HelpGroup group(command, "Decoding");
  CLI::Option* const decode =
      group.Switch("--decode", flags.decode,
                   "Sessions: each sends a prompt and then steps, again and again. Of the flags "
                   "under 'What to send' the kind of input and its widths count; --prefill and "
                   "--step-tokens give the lengths");
  for (const char* const other :
       {"--rate", "--ramp", "--schedule", "--lengths", "--stream", "--protocol"}) {
    decode->excludes(other);
  }
  const auto add = [&](const char* name, int64_t& target, const char* help) {
    group.Default(name, target, "N", help)->check(Within(1, 1000000))->needs(decode);
  };
  add("--prefill", flags.decode_options.prefill, "Tokens of a prompt");
  add("--steps", flags.decode_options.steps, "Steps of a session, after its prompt");
  add("--step-tokens", flags.decode_options.step_tokens, "Tokens of a step");
  AddCacheDtypeFlag(group, flags.decode_options.cache_dtype)->needs(decode);
}

void AddReportFlags(CLI::App& command, BenchFlags& flags) {
  HelpGroup group(command, "Report");
  group
      .Default("--verify-sample", flags.verify_sample, "N",
               "Check the first answer in double precision, and N others bit for bit against the "
               "answer that the same request gets alone")
      ->check(Within(0, 1000));
  group
      .Value("--json", flags.json, "FILE",
             "Write the result as JSON; - is standard output, instead of text")
      ->check(FileName());
  group
      .Value("-f,--csv", flags.csv, "FILE",
             "Write a line of CSV for each level; - is standard output")
      ->check(FileName());
  group
      .Value("--html", flags.html, "FILE", "Write a page of charts, one file; - is standard output")
      ->check(FileName());
  group
      .Value("--records", flags.records, "FILE",
             "Write a line of CSV for each call: when it was due, how it ended, its times and its "
             "batch; - is standard output. They are in memory until the end, 150 bytes each")
      ->check(FileName());
  group.Pairs(
      "--tag",
      [&flags](const std::string& key, const std::string& value) {
        if (!flags.tags.emplace(key, value).second) {
          throw CLI::ValidationError(
              "--tag", absl::StrCat("expected each key once, found \"", key, "\" twice"));
        }
      },
      "Keep this with the result; may be repeated, with other keys");
}

/// Leaves the rarely used groups to --help-expert.
void HideExpertGroups(CLI::App& command) {
  static constexpr const char* kShown[] = {
      "Options",       "OPTIONS",      "Server",  "What to send", "Requests",
      "How much load", "For how long", "Targets", "Decoding",     "Report"};
  command.set_help_all_flag("--help-expert", "Show all flags, also the rarely used ones");
  for (CLI::Option* const option : command.get_options()) {
    const std::string group = option->get_group();
    if (std::none_of(std::begin(kShown), std::end(kShown),
                     [&group](const char* shown) { return absl::StartsWith(group, shown); })) {
      option->group(absl::StrCat(kExpertPrefix, group));
    }
  }
}

/// The lengths that the flags or the schedule of the plan give; absent if there are none.
std::optional<LengthMix> LengthsOf(const BenchFlags& flags, const BenchPlan& plan) {
  if (plan.options.open_loop.has_value()) {
    const ArrivalTrace* const trace = plan.options.open_loop->arrivals.trace.get();
    if (trace != nullptr && !trace->kinds.empty()) {
      return trace->lengths;
    }
  }
  return flags.mix;
}

}  // namespace

void AddBenchFlags(CLI::App& command, BenchFlags& flags) {
  flags.server.connection.retries = false;  // a load tester hides nothing
  AddServerFlags(command, flags.server);
  AddRequestKindFlags(command, flags);
  AddLoadFlags(command, flags.load);
  AddDecodeFlags(command, flags);
  AddReportFlags(command, flags);
  HideExpertGroups(command);
}

absl::Status CheckBenchFlags(const BenchFlags& flags) {
  RETURN_IF_ERROR(CheckRules(
      {{flags.stream && flags.protocol == "oip", "--stream needs --protocol native"},
       {(flags.json == "-") + (flags.csv == "-") + (flags.html == "-") + (flags.records == "-") > 1,
        "only one of --json, --csv, --html and --records goes to stdout"},
       {flags.decode && flags.load.is_open(), "--decode with --search needs --concurrency"},
       {(flags.mix.has_value() || !flags.request.lengths.empty()) && !flags.load.schedule.empty(),
        "--lengths cannot be combined with --schedule, whose lines have lengths"}}));
  RETURN_IF_ERROR(CheckLoadFlags(flags.load));
  RequestFlags request = flags.request;
  if (flags.mix.has_value() && request.has_input() && request.random.empty() &&
      request.random_tokens.empty()) {
    return absl::InvalidArgumentError(
        "--lengths with a mix of lengths needs --shape, --random-tokens, or no input flag");
  }
  if (!request.has_input()) {  // MakeRequestMix chooses random hidden states
    request.random = {1, 1, 1};
  }
  return CheckRequestFlags(request);
}

absl::StatusOr<BenchPlan> PlanOf(const BenchFlags& flags) {
  ASSIGN_OR_RETURN(BenchPlan plan, PlanOf(flags.load, flags.request.seed));
  plan.options.connection = flags.server.connection;
  plan.options.timeout = flags.server.timeout;
  plan.options.num_samples = flags.verify_sample;
  plan.options.keeps_records = !flags.records.empty();
  return plan;
}

std::unique_ptr<const Protocol> ProtocolOf(const BenchFlags& flags) {
  if (flags.protocol == "oip") {
    return std::make_unique<OpenInferenceProtocol>();
  }
  return std::make_unique<NativeProtocol>(flags.stream);
}

absl::StatusOr<RequestMix> MakeRequestMix(const BenchFlags& flags, const BenchPlan& plan,
                                          AttentionClient& client) {
  RequestFlags request = flags.request;
  if (!request.has_input()) {
    ASSIGN_OR_RETURN(const v1::Model model, client.GetModel(request.model, request.run.version));
    request.random = {1, 128, model.d_model()};
  }
  std::optional<LengthMix> lengths = LengthsOf(flags, plan);
  if (!lengths.has_value()) {
    ASSIGN_OR_RETURN(Workload workload, MakeWorkload(request, client));
    return RequestMix(std::move(workload));
  }
  Shape& shape = request.random.empty() ? request.random_tokens : request.random;
  if (shape.size() < 2 || shape.size() > 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("--lengths needs a shape BxSxE or BxS, found ", absl::StrJoin(shape, "x")));
  }
  shape[1] = lengths->lengths.back();
  ASSIGN_OR_RETURN(Workload longest, MakeWorkload(request, client));
  return RequestMix::OfLengths(std::move(longest), *std::move(lengths));
}

absl::StatusOr<DecodePlan> MakeDecodePlan(const BenchFlags& flags, const BenchPlan& plan,
                                          AttentionClient& client) {
  ASSIGN_OR_RETURN(const RequestMix like, MakeRequestMix(flags, plan, client));
  return DecodePlan::Make(like.request(), flags.decode_options, flags.request.seed);
}

}  // namespace attention

#include "client/cli/bench_flags.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/cli/shape_text.h"
#include "client/load/length_mix.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

constexpr char kRequestsGroup[] = "Requests";
constexpr char kReportGroup[] = "Report";
constexpr char kDecodeGroup[] = "Decoding";

std::string CheckLengths(const std::string& text) {
  const absl::Status status = text.find(':') == std::string::npos ? ParseIntegers(text).status()
                                                                  : ParseLengthMix(text).status();
  return std::string(status.message());
}

void AddRequestKindFlags(CLI::App& command, BenchFlags& flags) {
  AddRequestFlags(command, flags.request);
  // Takes more than the one that `run` has.
  command.remove_option(command.get_option("--lengths"));
  command
      .add_option("--lengths", flags.lengths,
                  "Draw requests of many lengths, which replace S of the shape: uniform:8..512, "
                  "zipf:1.1:8..512, fixed:N, file:PATH; or N,N: of each sequence of one request")
      ->type_name("MIX")
      ->check(CheckLengths)
      ->group(kRequestsGroup);
  command
      .add_option("--protocol", flags.protocol,
                  "native (attention.v1), or oip (Open Inference Protocol)")
      ->type_name("NAME")
      ->capture_default_str()
      ->check(CLI::IsMember({"native", "oip"}).description(""))
      ->group("Server");
  command.add_flag("--stream", flags.stream, "Ask for row blocks (AttendStream)")
      ->group(kRequestsGroup);
}

void AddDecodeFlags(CLI::App& command, BenchFlags& flags) {
  CLI::Option* const decode =
      command
          .add_flag("--decode", flags.decode,
                    "Sessions that take in a prompt and make steps, over and over; of what to send "
                    "only the kind and widths matter")
          ->excludes("--rate")
          ->excludes("--ramp")
          ->excludes("--schedule")
          ->excludes("--lengths")
          ->excludes("--stream")
          ->excludes("--protocol")
          ->group(kDecodeGroup);
  const auto add = [&](const char* name, int64_t& target, const char* help) {
    command.add_option(name, target, help)
        ->type_name("N")
        ->capture_default_str()
        ->check(CLI::Range(1, 1000000).description(""))
        ->needs(decode)
        ->group(kDecodeGroup);
  };
  add("--prefill", flags.decode_options.prefill, "Tokens of a prompt");
  add("--steps", flags.decode_options.steps, "Steps of a session, after its prompt");
  add("--step-tokens", flags.decode_options.step_tokens, "Tokens of a step");
  command
      .add_option_function<std::string>(
          "--cache-dtype",
          [&flags](const std::string& name) {
            flags.decode_options.cache_dtype = name == "bf16"   ? v1::BF16
                                               : name == "int8" ? v1::INT8
                                                                : v1::FP32;
          },
          "How the server keeps keys and values: fp32 (default), bf16 or int8")
      ->type_name("DTYPE")
      ->check(CLI::IsMember({"fp32", "bf16", "int8"}).description(""))
      ->needs(decode)
      ->group(kDecodeGroup);
}

void AddReportFlags(CLI::App& command, BenchFlags& flags) {
  command
      .add_option("--verify-sample", flags.verify_sample,
                  "Check the first answer in double precision, and that so many others equal what "
                  "the same request gets alone, bit for bit")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(0, 1000).description(""))
      ->group(kReportGroup);
  const auto add_file = [&](const char* names, std::string& path, const char* help) {
    command.add_option(names, path, help)->type_name("FILE")->group(kReportGroup);
  };
  add_file("--json", flags.json, "Also write the result as JSON; - for stdout, instead of text");
  add_file("-f,--csv", flags.csv, "Also write a line for each level; - as above");
  add_file("--html", flags.html, "Also write a page of charts, one file; - as above");
  command
      .add_option_function<std::vector<std::string>>(
          "--tag",
          [&flags](const std::vector<std::string>& tags) {
            for (const std::string& tag : tags) {
              flags.tags.insert(absl::StrSplit(tag, absl::MaxSplits('=', 1)));
            }
          },
          "Kept with the result; may be repeated")
      ->type_name("KEY=VALUE")
      ->type_size(1)
      ->allow_extra_args(false)
      ->check([](const std::string& text) {
        return text.find('=') == std::string::npos ? "expected KEY=VALUE" : "";
      })
      ->group(kReportGroup);
  command
      .add_option("--merge", flags.merge,
                  "Measure nothing: add up JSON results, of clients that ran at one time or one "
                  "after the other")
      ->type_name("FILE")
      ->check(CLI::ExistingFile.description(""))
      ->group(kReportGroup);
}

/// `text`, BxSxE or BxS, with S replaced.
absl::StatusOr<std::string> WithLength(const std::string& text, int64_t length) {
  ASSIGN_OR_RETURN(Shape shape, ParseShape(text));
  if (shape.size() < 2 || shape.size() > 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("--lengths goes with a shape BxSxE or BxS, found ", text));
  }
  shape[1] = length;
  return absl::StrJoin(shape, "x");
}

absl::StatusOr<RequestMix> MakeMixOfLengths(RequestFlags flags, LengthMix mix,
                                            AttentionClient& client) {
  std::string& shape = flags.random.empty() ? flags.random_tokens : flags.random;
  ASSIGN_OR_RETURN(shape, WithLength(shape, mix.lengths.back()));
  ASSIGN_OR_RETURN(Workload longest, MakeWorkload(flags, client));
  return RequestMix::OfLengths(std::move(longest), std::move(mix));
}

/// Of the flags, or the plan's schedule.
absl::StatusOr<std::optional<LengthMix>> LengthsOf(const BenchFlags& flags, const BenchPlan& plan) {
  if (flags.has_length_mix()) {
    return ParseLengthMix(flags.lengths);
  }
  if (plan.options.open_loop.has_value()) {
    const ArrivalTrace* const trace = plan.options.open_loop->arrivals.trace.get();
    if (trace != nullptr && !trace->kinds.empty()) {
      return trace->lengths;
    }
  }
  return std::nullopt;
}

}  // namespace

void AddBenchFlags(CLI::App& command, BenchFlags& flags) {
  flags.server.connection.retries = false;  // a load tester hides nothing
  AddServerFlags(command, flags.server);
  AddRequestKindFlags(command, flags);
  AddLoadFlags(command, flags.load);
  AddDecodeFlags(command, flags);
  AddReportFlags(command, flags);
}

absl::Status CheckBenchFlags(const BenchFlags& flags) {
  if (flags.stream && flags.protocol == "oip") {
    return absl::InvalidArgumentError("--stream goes with --protocol native");
  }
  if ((flags.json == "-") + (flags.csv == "-") + (flags.html == "-") > 1) {
    return absl::InvalidArgumentError("only one of --json, --csv and --html goes to stdout");
  }
  if (flags.decode && flags.load.is_open()) {
    return absl::InvalidArgumentError("--decode --search goes with --concurrency");
  }
  if (!flags.lengths.empty() && !flags.load.schedule.empty()) {
    return absl::InvalidArgumentError(
        "--lengths goes without --schedule, whose lines have lengths");
  }
  RETURN_IF_ERROR(CheckLoadFlags(flags.load));
  RequestFlags request = flags.request;
  if (flags.has_length_mix()) {
    if (request.has_input() && request.random.empty() && request.random_tokens.empty()) {
      return absl::InvalidArgumentError(
          "--lengths with a mix of lengths goes with --shape or --tokens-shape, or alone");
    }
  } else {
    request.lengths = flags.lengths;
  }
  return request.has_input() ? CheckRequestFlags(request) : absl::OkStatus();
}

absl::StatusOr<BenchPlan> PlanOf(const BenchFlags& flags) {
  ASSIGN_OR_RETURN(BenchPlan plan, PlanOf(flags.load, flags.request.seed));
  plan.options.connection = flags.server.connection;
  plan.options.timeout = *ParseDuration(flags.server.timeout);
  plan.options.num_samples = flags.verify_sample;
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
    request.random = absl::StrCat("1x128x", model.d_model());
  }
  ASSIGN_OR_RETURN(std::optional<LengthMix> lengths, LengthsOf(flags, plan));
  if (lengths.has_value()) {
    return MakeMixOfLengths(std::move(request), *std::move(lengths), client);
  }
  request.lengths = flags.lengths;
  ASSIGN_OR_RETURN(Workload workload, MakeWorkload(request, client));
  return RequestMix(std::move(workload));
}

absl::StatusOr<DecodePlan> MakeDecodePlan(const BenchFlags& flags, const BenchPlan& plan,
                                          AttentionClient& client) {
  ASSIGN_OR_RETURN(const RequestMix like, MakeRequestMix(flags, plan, client));
  return DecodePlan::Make(like.request(), flags.decode_options, flags.request.seed);
}

}  // namespace attention

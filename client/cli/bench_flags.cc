#include "client/cli/bench_flags.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/shape_text.h"
#include "client/load/length_mix.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

constexpr char kGroup[] = "Load";
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
      ->group(kGroup);
  command
      .add_option("--protocol", flags.protocol,
                  "native (attention.v1), or oip (Open Inference Protocol)")
      ->type_name("NAME")
      ->capture_default_str()
      ->check(CLI::IsMember({"native", "oip"}).description(""))
      ->group("Server");
  command.add_flag("--stream", flags.stream, "Ask for row blocks (AttendStream)")->group(kGroup);
}

void AddLoopFlags(CLI::App& command, BenchFlags& flags) {
  command.add_option("-c,--concurrency", flags.concurrency, "Requests under way at any time")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000).description(""))
      ->group(kGroup);
  command.add_option("--connections", flags.connections, "TCP connections they are spread over")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000).description(""))
      ->group(kGroup);
  AddDuration(command, "-z,--duration", flags.duration, "How long to measure")
      ->check([](const std::string& text) {
        return *ParseDuration(text) > absl::ZeroDuration() ? "" : "expected more than 0 seconds";
      })
      ->group(kGroup);
  AddDuration(command, "--warmup", flags.warmup, "Load that comes before and is not counted")
      ->group(kGroup);
}

/// REQUIRES: --concurrency is there.
void AddOpenLoopFlags(CLI::App& command, BenchFlags& flags) {
  CLI::Option* const rate =
      command
          .add_option("--rate", flags.rate,
                      "Requests a second, sent when they are due whatever is under way")
          ->type_name("R")
          ->check(CLI::Range(1e-3, 1e6).description(""))
          ->excludes("--concurrency")
          ->group(kGroup);
  command
      .add_option("--arrivals", flags.arrivals, "constant, or poisson: random, as of many users")
      ->type_name("HOW")
      ->capture_default_str()
      ->check(CLI::IsMember({"constant", "poisson"}).description(""))
      ->needs(rate)
      ->group(kGroup);
  command
      .add_option("--max-in-flight", flags.max_in_flight,
                  "With --rate: what is due while so many are under way is not sent, an error")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000).description(""))
      ->needs(rate)
      ->group(kGroup);
}

void AddDecodeFlags(CLI::App& command, BenchFlags& flags) {
  CLI::Option* const decode =
      command
          .add_flag("--decode", flags.decode,
                    "Sessions that take in a prompt and make steps, over and over; of what to send "
                    "only the kind and widths matter")
          ->excludes("--rate")
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
      ->capture_default_str()
      ->check(CLI::Range(0, 1000).description(""))
      ->group(kGroup);
  command
      .add_option("--json", flags.json,
                  "Also write the result as JSON; - for stdout, instead of text")
      ->type_name("FILE")
      ->group(kGroup);
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

absl::StatusOr<RequestMix> MakeMixOfLengths(RequestFlags flags, const std::string& lengths,
                                            AttentionClient& client) {
  ASSIGN_OR_RETURN(LengthMix mix, ParseLengthMix(lengths));
  std::string& shape = flags.random.empty() ? flags.random_tokens : flags.random;
  ASSIGN_OR_RETURN(shape, WithLength(shape, mix.lengths.back()));
  ASSIGN_OR_RETURN(Workload longest, MakeWorkload(flags, client));
  return RequestMix::OfLengths(std::move(longest), std::move(mix));
}

}  // namespace

void AddBenchFlags(CLI::App& command, BenchFlags& flags) {
  flags.server.connection.retries = false;  // a load tester hides nothing
  AddServerFlags(command, flags.server);
  AddRequestKindFlags(command, flags);
  AddLoopFlags(command, flags);
  AddOpenLoopFlags(command, flags);
  AddDecodeFlags(command, flags);
  AddReportFlags(command, flags);
}

absl::Status CheckBenchFlags(const BenchFlags& flags) {
  if (flags.stream && flags.protocol == "oip") {
    return absl::InvalidArgumentError("--stream goes with --protocol native");
  }
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

LoadOptions LoadOptionsOf(const BenchFlags& flags) {
  LoadOptions options{.connection = flags.server.connection,
                      .concurrency = flags.concurrency,
                      .connections = flags.connections,
                      .warmup = *ParseDuration(flags.warmup),
                      .duration = *ParseDuration(flags.duration),
                      .timeout = *ParseDuration(flags.server.timeout),
                      .num_samples = flags.verify_sample,
                      .seed = flags.request.seed};
  if (flags.rate > 0.0) {
    options.open_loop =
        OpenLoopOptions{.arrivals = {.rate_per_s = flags.rate,
                                     .arrivals = flags.arrivals == "poisson" ? Arrivals::kPoisson
                                                                             : Arrivals::kConstant,
                                     .seed = flags.request.seed},
                        .max_in_flight = flags.max_in_flight};
  }
  return options;
}

std::unique_ptr<const Protocol> ProtocolOf(const BenchFlags& flags) {
  if (flags.protocol == "oip") {
    return std::make_unique<OpenInferenceProtocol>();
  }
  return std::make_unique<NativeProtocol>(flags.stream);
}

absl::StatusOr<RequestMix> MakeRequestMix(const BenchFlags& flags, AttentionClient& client) {
  RequestFlags request = flags.request;
  if (!request.has_input()) {
    ASSIGN_OR_RETURN(const v1::Model model, client.GetModel(request.model, request.run.version));
    request.random = absl::StrCat("1x128x", model.d_model());
  }
  if (flags.has_length_mix()) {
    return MakeMixOfLengths(std::move(request), flags.lengths, client);
  }
  request.lengths = flags.lengths;
  ASSIGN_OR_RETURN(Workload workload, MakeWorkload(request, client));
  return RequestMix(std::move(workload));
}

absl::StatusOr<DecodePlan> MakeDecodePlan(const BenchFlags& flags, AttentionClient& client) {
  ASSIGN_OR_RETURN(const RequestMix like, MakeRequestMix(flags, client));
  return DecodePlan::Make(like.request(), flags.decode_options, flags.request.seed);
}

}  // namespace attention

#include "server/command_line.h"

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ServerOptions Parsed(const std::vector<std::string>& arguments) {
  const auto parsed = ParseCommandLine(arguments);
  EXPECT_THAT(parsed, IsOk());
  EXPECT_THAT(parsed->text, IsEmpty());
  return parsed->options;
}

auto IsRefused(const std::string& flag) {
  return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(flag));
}

TEST(CommandLineTest, HasDefaults) {
  const ServerOptions options = Parsed({});
  EXPECT_THAT(options.listen, ElementsAre("127.0.0.1:8001"));
  EXPECT_THAT(options.random_models, IsEmpty());
  EXPECT_EQ(options.threads, 0);
  EXPECT_EQ(options.max_message_bytes, 268435456);
  EXPECT_EQ(options.max_queue_bytes, 1073741824);
  EXPECT_EQ(options.max_batch_tokens, 4096);
  EXPECT_EQ(options.grace_period, absl::Seconds(30));
}

TEST(CommandLineTest, IsObservedOnTheLoopbackInterfaceUnlessToldOtherwise) {
  const ServerOptions options = Parsed({});
  EXPECT_EQ(options.metrics_listen, "127.0.0.1:8002");
  EXPECT_EQ(options.otlp_endpoint, "");
  EXPECT_EQ(options.log_level, LogLevel::kInfo);
  EXPECT_EQ(options.log_format, LogFormat::kText);
  EXPECT_EQ(Parsed({"--metrics-listen=none"}).metrics_listen, "");
  EXPECT_EQ(Parsed({"--log-format=json"}).log_format, LogFormat::kJson);
  EXPECT_EQ(Parsed({"--log-level=debug"}).log_level, LogLevel::kDebug);
}

TEST(CommandLineTest, WarnsOfMorePrefixesThanCaches) {
  EXPECT_THAT(ParseCommandLine({"--max-cache-bytes=100", "--prefix-cache-bytes=100"})->warnings,
              IsEmpty());
  EXPECT_THAT(
      ParseCommandLine({"--max-cache-bytes=100", "--prefix-cache-bytes=101"})->warnings,
      ElementsAre("--prefix-cache-bytes: expected at most --max-cache-bytes (100), found 101: "
                  "prefixes get at most 100 bytes"));
}

TEST(CommandLineTest, ReadsWhatToDoWithNumaNodes) {
  EXPECT_EQ(Parsed({}).numa, NumaMode::kAuto);
  EXPECT_EQ(Parsed({"--numa=copies"}).numa, NumaMode::kCopies);
  EXPECT_EQ(Parsed({"--numa=off"}).numa, NumaMode::kOff);
  EXPECT_THAT(ParseCommandLine({"--numa=on"}),
              IsRefused("--numa: expected one of auto|copies|off, found on"));
}

TEST(CommandLineTest, TracesAreSampledByAShare) {
  const std::string endpoint = "--otlp-endpoint=http://collector:4318";
  EXPECT_EQ(Parsed({endpoint, "--trace-sample-ratio=0.25"}).trace_sample_ratio, 0.25);
  EXPECT_THAT(ParseCommandLine({endpoint, "--trace-sample-ratio=1.5"}),
              IsRefused("--trace-sample-ratio: expected a share of 0 to 1, found 1.5"));
  EXPECT_THAT(ParseCommandLine({"--trace-sample-ratio=0.5"}),
              IsRefused("--trace-sample-ratio requires --otlp-endpoint"));
}

TEST(CommandLineTest, TakesValuesWithAndWithoutEqualsSign) {
  const ServerOptions options =
      Parsed({"--listen=0.0.0.0:1", "--listen", "unix:/tmp/a", "--threads", "3",
              "--max-queue-requests=7", "--max-message-bytes", "1000"});
  EXPECT_THAT(options.listen, ElementsAre("0.0.0.0:1", "unix:/tmp/a"));
  EXPECT_EQ(options.threads, 3);
  EXPECT_EQ(options.max_queue_requests, 7);
  EXPECT_EQ(options.max_message_bytes, 1000);
}

TEST(CommandLineTest, ServesFurtherModels) {
  const ServerOptions options = Parsed({"--random-model", "a:d_model=768,num_heads=12",
                                        "--random-model=b:d_model=64,num_heads=2,dtype=bf16"});
  ASSERT_EQ(options.random_models.size(), 2);
  EXPECT_EQ(options.random_models[0].name, "a");
  EXPECT_EQ(options.random_models[0].d_model, 768);
  EXPECT_EQ(options.random_models[1].dtype, Dtype::kBf16);
}

TEST(CommandLineTest, ReadsAGracePeriodInSecondsOrAsADuration) {
  EXPECT_EQ(Parsed({"--grace-period=5"}).grace_period, absl::Seconds(5));
  EXPECT_EQ(Parsed({"--grace-period", "1m30s"}).grace_period, absl::Seconds(90));
  EXPECT_EQ(Parsed({"--grace-period=0"}).grace_period, absl::ZeroDuration());
  for (const char* text : {"-1", "soon", "inf", "nan", "25h"}) {
    EXPECT_THAT(ParseCommandLine({std::string("--grace-period=") + text}),
                IsRefused("--grace-period"))
        << text;
  }
}

TEST(CommandLineTest, ServesAFolderOfModels) {
  EXPECT_EQ(Parsed({}).models.folder.path, "");
  EXPECT_EQ(Parsed({"--models=/m"}).models.poll_interval, absl::ZeroDuration());
  EXPECT_EQ(Parsed({"--models=/m"}).models.weights_dtype, WeightsDtype::kF32);
  const ModelLoaderOptions models =
      Parsed({"--models", "/m", "--models-poll=0.5", "--weights-dtype=int8", "--model-versions=all",
              "--model-versions", "a=1,3"})
          .models;
  EXPECT_EQ(models.folder.path, "/m");
  EXPECT_EQ(models.poll_interval, absl::Milliseconds(500));
  EXPECT_EQ(models.weights_dtype, WeightsDtype::kInt8);
  EXPECT_EQ(models.folder.versions.Of("b").kind, VersionPolicy::Kind::kAll);
  EXPECT_THAT(models.folder.versions.Of("a").versions, ElementsAre(1, 3));
}

TEST(CommandLineTest, RefusesModelFlagsThatSayNothing) {
  for (const char* flag : {"--models-poll=10", "--weights-dtype=bf16", "--model-versions=all"}) {
    EXPECT_THAT(ParseCommandLine({flag}), IsRefused("requires --models")) << flag;
  }
  EXPECT_THAT(ParseCommandLine({"--models", ""}),
              IsRefused("--models: expected a text, found an empty one"));
  EXPECT_THAT(ParseCommandLine({"--admin-listen", ""}),
              IsRefused("--admin-listen: expected a text, found an empty one"));
  EXPECT_THAT(ParseCommandLine({"--threads", ""}),
              IsRefused("--threads: expected a whole number of 0 to 4096, found an empty text"));
  EXPECT_THAT(ParseCommandLine({"--models=/m", "--models-poll=-1"}),
              IsRefused("--models-poll: expected 0, or 1 ms to 24 hours"));
  // Else a thread would spin.
  EXPECT_THAT(ParseCommandLine({"--models=/m", "--models-poll=999us"}),
              IsRefused("--models-poll: expected 0, or 1 ms to 24 hours"));
  EXPECT_THAT(ParseCommandLine({"--models=/m", "--models-poll=1ms"}), IsOk());
  EXPECT_THAT(ParseCommandLine({"--models=/m", "--weights-dtype=fp16"}),
              IsRefused("--weights-dtype: expected one of fp32|bf16|int8, found fp16"));
  EXPECT_THAT(ParseCommandLine({"--models=/m", "--model-versions=newest"}),
              IsRefused("--model-versions: expected latest, all, NAME=latest, NAME=all or "
                        "NAME=1,3, found 'newest'"));
}

TEST(CommandLineTest, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT(ParseCommandLine({"--listne=x"}), IsRefused("--listne"));
  EXPECT_THAT(ParseCommandLine({"stray"}), IsRefused("stray"));
  EXPECT_THAT(ParseCommandLine({"--threads=2", "stray"}), IsRefused("stray"));
  EXPECT_THAT(ParseCommandLine({"--listen"}), IsRefused("--listen"));
}

TEST(CommandLineTest, TakesNoOtherFlagForTheValueOfAnEmptyOne) {
  EXPECT_THAT(ParseCommandLine({"--models=/m", "--required-models=", "--tokens=t.json"}),
              IsRefused("--required-models: expected a value after the equals sign, found none"));
  EXPECT_THAT(ParseCommandLine({"--threads=", "5"}),
              IsRefused("--threads: expected a value after the equals sign, found none"));
  EXPECT_THAT(ParseCommandLine({"--config=", "--check-config"}),
              IsRefused("--config: expected a value after the equals sign, found none"));
  EXPECT_EQ(Parsed({"--otlp-endpoint=http://collector/?key="}).otlp_endpoint,
            "http://collector/?key=");
}

TEST(CommandLineTest, DoesOneThingAtATime) {
  EXPECT_THAT(
      ParseCommandLine({"--print-config", "--check-config"}),
      IsRefused("--check-config: expected no other action beside it, found --print-config"));
  EXPECT_THAT(ParseCommandLine({"--make-token=a", "--print-config", "--print-config-schema"}),
              IsRefused("--print-config: expected no other action beside it, found "
                        "--print-config-schema, --make-token"));
}

TEST(CommandLineTest, RefusesAnEmptyFileOfOptionsAndAnEmptyTenant) {
  EXPECT_THAT(ParseCommandLine({"--config", ""}),
              IsRefused("--config: expected a text, found an empty one"));
  EXPECT_THAT(ParseCommandLine({"--make-token", ""}),
              IsRefused("--make-token: expected a text, found an empty one"));
}

TEST(CommandLineTest, RefusesValuesOutOfRange) {
  EXPECT_THAT(ParseCommandLine({"--threads=-1"}), IsRefused("--threads"));
  EXPECT_THAT(ParseCommandLine({"--threads=two"}), IsRefused("--threads"));
  EXPECT_THAT(ParseCommandLine({"--max-message-bytes=0"}), IsRefused("--max-message-bytes"));
  EXPECT_THAT(ParseCommandLine({"--max-message-bytes=2147483648"}),
              IsRefused("--max-message-bytes"));
  EXPECT_THAT(ParseCommandLine({"--max-queue-bytes=0"}), IsRefused("--max-queue-bytes"));
  EXPECT_THAT(ParseCommandLine({"--max-queue-requests=0"}), IsRefused("--max-queue-requests"));
  EXPECT_THAT(ParseCommandLine({"--max-batch-tokens=0"}), IsRefused("--max-batch-tokens"));
  EXPECT_THAT(ParseCommandLine({"--random-model=a:d_model=wide"}), IsRefused("--random-model"));
  EXPECT_THAT(ParseCommandLine({"--models=/m", "--required-models=none", "--required-models=a"}),
              IsRefused("--required-models: expected names or none alone, found both"));
}

TEST(CommandLineTest, HelpFitsAPageOf100Columns) {
  const auto parsed = ParseCommandLine({"--help"});
  ASSERT_THAT(parsed, IsOk());
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(parsed->text, '\n'))) {
    EXPECT_LE(line.size(), 100) << line;
  }
}

TEST(CommandLineTest, HelpTeachesEveryFlag) {
  const auto parsed = ParseCommandLine({"--help"});
  ASSERT_THAT(parsed, IsOk());
  EXPECT_THAT(
      parsed->text,
      AllOf(HasSubstr("--listen"), HasSubstr("--random-model"), HasSubstr("--threads"),
            HasSubstr("--max-message-bytes"), HasSubstr("--max-queue-bytes"),
            HasSubstr("--max-queue-requests"), HasSubstr("--max-batch-tokens"),
            HasSubstr("--grace-period"), HasSubstr("--models "), HasSubstr("--models-poll"),
            HasSubstr("--weights-dtype"), HasSubstr("--model-versions"), HasSubstr("Examples:")));
}

TEST(CommandLineTest, TellsItsVersion) {
  const auto parsed = ParseCommandLine({"--version"});
  ASSERT_THAT(parsed, IsOk());
  EXPECT_THAT(parsed->text, ::testing::MatchesRegex("attend-server [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

}  // namespace
}  // namespace attention

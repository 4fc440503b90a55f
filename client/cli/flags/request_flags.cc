#include "client/cli/flags/request_flags.h"

#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/files/shape_text.h"
#include "client/cli/files/tensor_file.h"
#include "client/cli/flags/help_group.h"
#include "core/runtime/status_macros.h"
#include "core/tensor/seeded.h"

namespace attention {
namespace {

/// Builds a request together with the tensors that it borrows.
class WorkloadBuilder {
 public:
  explicit WorkloadBuilder(const RequestFlags& flags) : flags_(flags) {}

  /// Loads a tensor. The seed depends on `role`, so that random tensors of one request differ.
  absl::StatusOr<const Tensor*> Load(const std::string& source, const char* role) {
    ASSIGN_OR_RETURN(Tensor tensor, LoadTensor(source, SeedOf(flags_.seed, role)));
    return Keep(std::move(tensor));
  }

  const Tensor* Keep(Tensor tensor) {
    if (!flags_.dtype.empty()) {
      const Dtype dtype = flags_.dtype == "fp32"   ? Dtype::kF32
                          : flags_.dtype == "bf16" ? Dtype::kBf16
                                                   : Dtype::kF16;
      tensor = tensor.ConvertedTo(dtype);
    }
    workload_.tensors.push_back(std::make_unique<const Tensor>(std::move(tensor)));
    return workload_.tensors.back().get();
  }

  Workload Finish(decltype(AttendRequest::input) input, const std::string& model) {
    workload_.request.model = model;
    workload_.request.input = std::move(input);
    return std::move(workload_);
  }

 private:
  const RequestFlags& flags_;
  Workload workload_;
};

absl::StatusOr<Workload> MakeHiddenStates(const RequestFlags& flags) {
  WorkloadBuilder builder(flags);
  HiddenStatesInput input{.lengths = flags.lengths, .memory_lengths = flags.memory_lengths};
  if (!flags.random.empty()) {
    input.tensor = builder.Keep(SeededTensor(flags.seed, Dtype::kF32, flags.random));
  } else if (!flags.input.empty()) {
    ASSIGN_OR_RETURN(Tensor tensor, LoadTensor(flags.input, flags.seed));
    input.tensor = builder.Keep(std::move(tensor));
  }
  if (!flags.memory.empty()) {
    ASSIGN_OR_RETURN(input.memory, builder.Load(flags.memory, "memory"));
  }
  if (!flags.memory_values.empty()) {
    ASSIGN_OR_RETURN(input.memory_values, builder.Load(flags.memory_values, "memory_values"));
  }
  return builder.Finish(std::move(input), flags.model);
}

absl::StatusOr<Workload> MakeQueryKeyValue(const RequestFlags& flags) {
  WorkloadBuilder builder(flags);
  QueryKeyValueInput input{.lengths = flags.lengths,
                           .kv_lengths = flags.kv_lengths,
                           .query_offsets = flags.query_offsets};
  ASSIGN_OR_RETURN(input.query, builder.Load(flags.query, "query"));
  ASSIGN_OR_RETURN(input.key, builder.Load(flags.key, "key"));
  ASSIGN_OR_RETURN(input.value, builder.Load(flags.value, "value"));
  return builder.Finish(std::move(input), "");
}

absl::StatusOr<Workload> MakeRandomTokens(const RequestFlags& flags, AttentionClient& client) {
  ASSIGN_OR_RETURN(const v1::Model model, client.GetModel(flags.model, flags.run.version));
  if (model.vocab_size() <= 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model \"", flags.model, "\" takes no token ids; send hidden states with --random BxSx",
        model.d_model()));
  }
  std::mt19937_64 generator(SeedOf(flags.seed, "tokens"));
  TokenIdsInput input;
  for (int64_t i = 0; i < NumElements(flags.random_tokens); ++i) {
    input.ids.push_back(
        static_cast<int32_t>(generator() % static_cast<uint64_t>(model.vocab_size())));
  }
  input.lengths.assign(flags.random_tokens[0], flags.random_tokens[1]);
  return WorkloadBuilder(flags).Finish(std::move(input), flags.model);
}

absl::StatusOr<Workload> MakeTokens(const RequestFlags& flags) {
  const RaggedTokens &tokens = flags.tokens, &types = flags.type_ids;
  if (!types.lengths.empty() && types.lengths != tokens.lengths) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--type-ids: expected as many types as --tokens has ids in each sequence (",
        absl::StrJoin(tokens.lengths, ";"), "), found ", absl::StrJoin(types.lengths, ";")));
  }
  return WorkloadBuilder(flags).Finish(TokenIdsInput{tokens.ids, tokens.lengths, types.ids},
                                       flags.model);
}

absl::StatusOr<Shape> ParseTokensShape(const std::string& text) {
  ASSIGN_OR_RETURN(Shape shape, ParseShape(text));
  if (shape.size() != 2) {
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\": expected BxS, such as 2x16"));
  }
  return shape;
}

void AddInputFlags(CLI::App& command, RequestFlags& flags) {
  HelpGroup group(command, "What to send: one of these (--query with --key and --value)");
  group.Value("--input", flags.input, "TENSOR",
              "Hidden states [B, S, d_model] or packed [T, d_model]");
  group.Parsed("--random,--shape", ParseShape, Into(flags.random), "BxSxE",
               "Random hidden states of this shape, N(0,1)-like, from --seed");
  group.Parsed("--tokens", ParseTokens, Into(flags.tokens), "1,2,3;4,5",
               "Token ids; ';' separates sequences of any lengths");
  group.Parsed("--random-tokens", ParseTokensShape, Into(flags.random_tokens), "BxS",
               "Random token ids: B sequences of S, from --seed");
  group
      .List("--text", flags.texts, "TEXT",
            "A text for the model's own tokenizer; repeat it for more sequences")
      ->check(Accepts(ParseUtf8));
  group.Value("--query", flags.query, "TENSOR",
              "Attention without a model: query [B, Sq, H, D] or packed [T, H, D]");
  group.Value("--key", flags.key, "TENSOR",
              "[B, Sk, Hkv, D] or packed [Tk, Hkv, D]; H is a multiple of Hkv");
  group.Value("--value", flags.value, "TENSOR", "[B, Sk, Hkv, Dv] or packed [Tk, Hkv, Dv]");
}

void AddInputDetailFlags(CLI::App& command, RequestFlags& flags) {
  HelpGroup group(command, "More about what to send");
  group.Value("--memory", flags.memory, "TENSOR",
              "Rows for keys and values, [B, Sm, d_model]; or the input of an encoder");
  group.Value("--memory-values", flags.memory_values, "TENSOR",
              "Rows for values, if the layer's values have another width than its keys");
  group.Switch("--no-special-tokens", flags.no_special_tokens,
               "Leave out the special tokens that a tokenizer puts around a text");
  group.Parsed("--type-ids", ParseTokens, Into(flags.type_ids), "0,0;1,0",
               "Token types, one for each of --tokens");
  const auto add = [&group](const char* name, std::vector<int64_t>& target, const char* help) {
    group.Parsed(name, ParseIntegers, Into(target), "N,N", help);
  };
  add("--lengths", flags.lengths, "Tokens of each sequence; a packed input is cut by them");
  add("--memory-lengths", flags.memory_lengths, "Tokens of each sequence of --memory");
  add("--kv-lengths", flags.kv_lengths, "Tokens of each sequence of --key and --value");
  add("--query-offsets", flags.query_offsets,
      "Position of each sequence's first query row among its keys");
  group.Choice("--dtype", flags.dtype, "fp32|bf16|fp16",
               "Element type on the wire; default: that of the tensors (random: fp32)");
  group.Default("--seed", flags.seed, "N", "Seed of random tensors and tokens")->check(AtLeast(0));
}

absl::StatusOr<Workload> MakeInput(const RequestFlags& flags, AttentionClient& client) {
  if (!flags.tokens.lengths.empty()) {
    return MakeTokens(flags);
  }
  if (!flags.random_tokens.empty()) {
    return MakeRandomTokens(flags, client);
  }
  if (!flags.texts.empty()) {
    return WorkloadBuilder(flags).Finish(TextInput{flags.texts, flags.no_special_tokens},
                                         flags.model);
  }
  return flags.query.empty() ? MakeHiddenStates(flags) : MakeQueryKeyValue(flags);
}

}  // namespace

void AddRequestFlags(CLI::App& command, RequestFlags& flags) {
  AddInputFlags(command, flags);
  AddInputDetailFlags(command, flags);
  HelpGroup(command, "Server")
      .Default("--model", flags.model, "NAME", "A name from `attend models`")
      ->check(Accepts(ParseUtf8))
      ->excludes(command.get_option("--query"));  // which runs no model
  AddModelFlags(command, flags.run);
  AddAttentionFlags(command, flags.attention);
}

absl::Status CheckRequestFlags(const RequestFlags& flags) {
  const int inputs = !flags.input.empty() + !flags.random.empty() + !flags.tokens.lengths.empty() +
                     !flags.random_tokens.empty() + !flags.texts.empty() + !flags.query.empty();
  const bool has_query = !flags.query.empty();
  const bool is_layer = !flags.input.empty() || !flags.random.empty();
  RETURN_IF_ERROR(CheckRules({
      {inputs == 0 && flags.memory.empty(),
       "expected --input, --random, --tokens, --random-tokens, --text or --query; try --random "
       "2x5x512"},
      {inputs > 1,
       "expected only one of --input, --random, --tokens, --random-tokens, --text and --query"},
      {has_query == flags.key.empty() || has_query == flags.value.empty(),
       "--query, --key and --value need each other"},
      {!flags.memory.empty() && !is_layer && inputs > 0, "--memory needs --input or --random"},
      {!flags.memory_values.empty() && flags.memory.empty(), "--memory-values needs --memory"},
      {!flags.type_ids.lengths.empty() && flags.tokens.lengths.empty(),
       "--type-ids needs --tokens"},
      {flags.no_special_tokens && flags.texts.empty(), "--no-special-tokens needs --text"},
      {has_query && !flags.run.empty(),
       "--query runs no model: it cannot be combined with --layer, --pool, --logits, "
       "--model-version and --weights-layers"},
      {!flags.dtype.empty() && !is_layer && !has_query && flags.memory.empty(),
       "--dtype needs --input, --random, --memory or --query"},
      {flags.attention.norm_epsilon.has_value() && flags.attention.query_norm.empty() &&
           flags.attention.key_norm.empty(),
       "--norm-epsilon needs --query-norm or --key-norm"},
      {!flags.memory_lengths.empty() && flags.memory.empty(), "--memory-lengths needs --memory"},
      {!flags.kv_lengths.empty() && !has_query, "--kv-lengths needs --query"},
      {!flags.query_offsets.empty() && !has_query, "--query-offsets needs --query"},
      {!flags.lengths.empty() && !is_layer && !has_query,
       "--lengths needs --input, --random or --query; --tokens and --text set lengths "
       "themselves"},
  }));
  return CheckModelFlags(flags.run);
}

absl::StatusOr<Workload> MakeWorkload(const RequestFlags& flags, AttentionClient& client) {
  ASSIGN_OR_RETURN(Workload workload, MakeInput(flags, client));
  ChooseRun(flags.run, workload.request);
  RETURN_IF_ERROR(AddAttention(flags.attention, flags.seed, client, workload));
  return workload;
}

}  // namespace attention

#include "client/cli/request_flags.h"

#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/accepts.h"
#include "client/cli/attention_options.h"
#include "client/cli/shape_text.h"
#include "client/cli/tensor_file.h"
#include "core/runtime/status_macros.h"
#include "core/tensor/seeded.h"

namespace attention {
namespace {

/// Puts the tensors of a request where they live as long as it.
class WorkloadBuilder {
 public:
  explicit WorkloadBuilder(const RequestFlags& flags) : flags_(flags) {}

  /// Tensors of one request differ even when all are random: each has its `role`'s seed.
  absl::StatusOr<const Tensor*> Load(const std::string& source, const char* role) {
    ASSIGN_OR_RETURN(Tensor tensor,
                     LoadTensor(source, role == nullptr ? flags_.seed : SeedOf(flags_.seed, role)));
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
  HiddenStatesInput input;
  if (!flags.input.empty() || !flags.random.empty()) {
    const std::string source =
        flags.input.empty() ? absl::StrCat("random:", flags.random) : flags.input;
    ASSIGN_OR_RETURN(input.tensor, builder.Load(source, nullptr));
  }
  ASSIGN_OR_RETURN(input.lengths, ParseIntegers(flags.lengths));
  if (!flags.memory.empty()) {
    ASSIGN_OR_RETURN(input.memory, builder.Load(flags.memory, "memory"));
    ASSIGN_OR_RETURN(input.memory_lengths, ParseIntegers(flags.memory_lengths));
  }
  if (!flags.memory_values.empty()) {
    ASSIGN_OR_RETURN(input.memory_values, builder.Load(flags.memory_values, "memory_values"));
  }
  return builder.Finish(std::move(input), flags.model);
}

absl::StatusOr<Workload> MakeQueryKeyValue(const RequestFlags& flags) {
  WorkloadBuilder builder(flags);
  QueryKeyValueInput input;
  ASSIGN_OR_RETURN(input.query, builder.Load(flags.query, "query"));
  ASSIGN_OR_RETURN(input.key, builder.Load(flags.key, "key"));
  ASSIGN_OR_RETURN(input.value, builder.Load(flags.value, "value"));
  ASSIGN_OR_RETURN(input.lengths, ParseIntegers(flags.lengths));
  ASSIGN_OR_RETURN(input.kv_lengths, ParseIntegers(flags.kv_lengths));
  ASSIGN_OR_RETURN(input.query_offsets, ParseIntegers(flags.query_offsets));
  return builder.Finish(std::move(input), "");
}

absl::StatusOr<Workload> MakeRandomTokens(const RequestFlags& flags, AttentionClient& client) {
  ASSIGN_OR_RETURN(const Shape shape, ParseShape(flags.random_tokens));
  ASSIGN_OR_RETURN(const v1::Model model, client.GetModel(flags.model, flags.run.version));
  if (model.vocab_size() <= 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model \"", flags.model, "\" takes no token ids; send hidden states with --random BxSx",
        model.d_model()));
  }
  std::mt19937_64 generator(SeedOf(flags.seed, "tokens"));
  TokenIdsInput input;
  for (int64_t i = 0; i < NumElements(shape); ++i) {
    input.ids.push_back(
        static_cast<int32_t>(generator() % static_cast<uint64_t>(model.vocab_size())));
  }
  input.lengths.assign(shape[0], shape[1]);
  return WorkloadBuilder(flags).Finish(std::move(input), flags.model);
}

absl::StatusOr<Workload> MakeTokens(const RequestFlags& flags) {
  ASSIGN_OR_RETURN(RaggedTokens tokens, ParseTokens(flags.tokens));
  TokenIdsInput input{std::move(tokens.ids), std::move(tokens.lengths), {}};
  if (!flags.type_ids.empty()) {
    ASSIGN_OR_RETURN(RaggedTokens types, ParseTokens(flags.type_ids));
    if (types.lengths != input.lengths) {
      return absl::InvalidArgumentError(
          absl::StrCat("--type-ids: expected one for each id, ", absl::StrJoin(input.lengths, ";"),
                       " of the sequences, found ", absl::StrJoin(types.lengths, ";")));
    }
    input.type_ids = std::move(types.ids);
  }
  return WorkloadBuilder(flags).Finish(std::move(input), flags.model);
}

absl::StatusOr<Shape> ParseTokensShape(const std::string& text) {
  ASSIGN_OR_RETURN(Shape shape, ParseShape(text));
  if (shape.size() != 2) {
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\": expected BxS, such as 2x16"));
  }
  return shape;
}

void AddInputFlags(CLI::App& command, RequestFlags& flags) {
  static constexpr char kGroup[] = "What to send: one of these (--query with --key and --value)";
  const auto add = [&command](const char* name, std::string& target, const char* help) {
    return command.add_option(name, target, help)->type_name("TENSOR")->group(kGroup);
  };
  add("--input", flags.input, "Hidden states [B, S, d_model] or packed [T, d_model]");
  add("--random,--shape", flags.random, "Hidden states of this shape, N(0,1)-like, from --seed")
      ->type_name("BxSxE")
      ->check(Accepts(ParseShape));
  add("--tokens", flags.tokens, "Token ids; sequences of any lengths, separated by ';'")
      ->type_name("1,2,3;4,5")
      ->check(Accepts(ParseTokens));
  add("--random-tokens,--tokens-shape", flags.random_tokens, "B sequences of S token ids")
      ->type_name("BxS")
      ->check(Accepts(ParseTokensShape));
  command
      .add_option("--text", flags.texts,
                  "A text for the model's own tokenizer; repeat it for further sequences")
      ->type_name("TEXT")
      ->expected(1)
      ->take_all()
      ->group(kGroup);
  add("--query", flags.query, "Attention without weights: [B, Sq, H, D] or packed [T, H, D]");
  add("--key", flags.key, "[B, Sk, Hkv, D] or packed [Tk, Hkv, D]; H is a multiple of Hkv");
  add("--value", flags.value, "[B, Sk, Hkv, Dv] or packed [Tk, Hkv, Dv]");
}

void AddInputDetailFlags(CLI::App& command, RequestFlags& flags) {
  static constexpr char kGroup[] = "More about what to send";
  const auto add_tensor = [&command](const char* name, std::string& target, const char* help) {
    command.add_option(name, target, help)->type_name("TENSOR")->group(kGroup);
  };
  add_tensor("--memory", flags.memory,
             "Keys and values come from here, [B, Sm, d_model]; or what enters an encoder");
  add_tensor("--memory-values", flags.memory_values,
             "The values, where a layer's are of another width than its keys");
  command
      .add_flag("--no-special-tokens", flags.no_special_tokens,
                "Leave out what a tokenizer puts around a text")
      ->group(kGroup);
  command.add_option("--type-ids", flags.type_ids, "Token types, one for each of --tokens")
      ->type_name("0,0;1,0")
      ->check(Accepts(ParseTokens))
      ->group(kGroup);
  const auto add = [&command](const char* name, std::string& target, const char* help) {
    command.add_option(name, target, help)
        ->type_name("N,N")
        ->check(Accepts(ParseIntegers))
        ->group(kGroup);
  };
  add("--lengths", flags.lengths, "Tokens of each sequence; a packed input is cut by them");
  add("--memory-lengths", flags.memory_lengths, "The same for --memory");
  add("--kv-lengths", flags.kv_lengths, "The same for --key and --value");
  add("--query-offsets", flags.query_offsets, "Key position of each sequence's first query row");
  command
      .add_option("--dtype", flags.dtype, "On the wire; default: as the tensors are (random: fp32)")
      ->type_name("fp32|bf16|fp16")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}).description(""))
      ->group(kGroup);
  command.add_option("--seed", flags.seed, "Of random tensors and tokens")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber.description(""))
      ->capture_default_str()
      ->group(kGroup);
}

absl::StatusOr<Workload> MakeInput(const RequestFlags& flags, AttentionClient& client) {
  if (!flags.tokens.empty()) {
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
  command.add_option("--model", flags.model, "A name from `attend models`")
      ->type_name("NAME")
      ->capture_default_str()
      ->group("How to attend");
  AddModelFlags(command, flags.run);
  AddAttentionFlags(command, flags.attention);
}

absl::Status CheckRequestFlags(const RequestFlags& flags) {
  const int inputs = !flags.input.empty() + !flags.random.empty() + !flags.tokens.empty() +
                     !flags.random_tokens.empty() + !flags.texts.empty() + !flags.query.empty();
  const bool has_query = !flags.query.empty();
  const bool is_layer = !flags.input.empty() || !flags.random.empty();
  struct Rule {
    bool is_broken;
    const char* text;
  };
  const Rule rules[] = {
      {inputs == 0 && flags.memory.empty(),
       "expected --input, --random, --tokens, --random-tokens, --text or --query; try --random "
       "2x5x512"},
      {inputs > 1,
       "expected only one of --input, --random, --tokens, --random-tokens, --text and --query"},
      {has_query == flags.key.empty() || has_query == flags.value.empty(),
       "--query, --key and --value go together"},
      {!flags.memory.empty() && !is_layer && inputs > 0, "--memory goes with --input or --random"},
      {!flags.memory_values.empty() && flags.memory.empty(), "--memory-values goes with --memory"},
      {!flags.type_ids.empty() && flags.tokens.empty(), "--type-ids goes with --tokens"},
      {flags.no_special_tokens && flags.texts.empty(), "--no-special-tokens goes with --text"},
      {has_query && !flags.run.empty(), "what of a model to run does not go with --query"},
      {!flags.memory_lengths.empty() && flags.memory.empty(),
       "--memory-lengths goes with --memory"},
      {!flags.kv_lengths.empty() && !has_query, "--kv-lengths goes with --query"},
      {!flags.query_offsets.empty() && !has_query, "--query-offsets goes with --query"},
      {!flags.lengths.empty() && !is_layer && !has_query,
       "--lengths goes with --input, --random or --query; tokens say their own lengths"},
  };
  for (const Rule& rule : rules) {
    if (rule.is_broken) {
      return absl::InvalidArgumentError(rule.text);
    }
  }
  return CheckModelFlags(flags.run);
}

absl::StatusOr<Workload> MakeWorkload(const RequestFlags& flags, AttentionClient& client) {
  ASSIGN_OR_RETURN(Workload workload, MakeInput(flags, client));
  RETURN_IF_ERROR(ChooseRun(flags.run, workload.request));
  RETURN_IF_ERROR(AddAttention(flags.attention, flags.seed, client, workload));
  return workload;
}

}  // namespace attention

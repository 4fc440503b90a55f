// Ways to open a session, and steps of sequences that are told by numbers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/server/decode/decode_stream.h"
#include "tests/server/token_ids.h"

namespace attention {

/// The most tokens of a sequence, longer than a page.
inline constexpr int64_t kLongSequence = 700;

/// One way to open a session. A sequence is told by numbers below kPromptVocabulary: token ids, or
/// rows of a table.
struct SessionKind {
  enum Input { kTokens, kRows, kQueryKeyValue };
  std::string name;
  v1::DecodeRequest open;
  Input input = kTokens;
  bool has_logits = false;
  int64_t limit = kLongSequence;  // of the tokens of a sequence
};

/// Models, layers and attention without a model, with every dtype of caches. REQUIRES: the server
/// has the checkpoints of tests/data.
std::vector<SessionKind> AllSessionKinds();

/// What a step is asked for.
enum class StepOutput { kRows, kTopLogits, kLogits, kNone };

v1::DecodeRequest StepOf(const SessionKind& kind, const Ids& ids, StepOutput output);

/// Rows of a width that no session has.
v1::DecodeRequest WrongStep();

}  // namespace attention

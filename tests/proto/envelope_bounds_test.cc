// What is parsed takes at most a small multiple of its bytes: elements are counted before protobuf
// makes anything of them.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <malloc.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "proto/codec/wire.h"
#include "proto/inference/open_inference.pb.h"
#include "tests/proto/wire_bytes.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using ::testing::IsEmpty;

std::string Repeated(const std::string& element, int64_t count) {
  std::string bytes;
  bytes.reserve(element.size() * static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    bytes += element;
  }
  return bytes;
}

/// A field of bytes, of any length.
std::string Long(int field, const std::string& body) {
  std::string bytes;
  wire::AppendVarint(static_cast<uint64_t>(field) << 3 | 2, bytes);
  wire::AppendVarint(body.size(), bytes);
  return bytes + body;
}

template <typename M>
absl::Status StatusOf(const std::string& wire) {
  M message;
  return DecodeEnvelope(Cut(wire), EnvelopeFieldsOf<M>(), message);
}

auto IsOverBound(const std::string& field, int64_t bound, int64_t found) {
  return StatusIs(
      absl::StatusCode::kInvalidArgument,
      absl::StrCat(field, ": expected at most ", bound, " in a message, found ", found));
}

using inference::ModelInferRequest;

TEST(EnvelopeBoundsTest, EmptyInputsAreCountedAndNotMade) {
  const int64_t count = int64_t{4} << 20;  // protobuf would make 600 MB of these 8 MiB
  const std::string wire = Repeated(Bytes({0x2a, 0}), count);
  const auto used_before = mallinfo2().uordblks + mallinfo2().hblkhd;
  ModelInferRequest message;
  const absl::Status status =
      DecodeEnvelope(Cut(wire), EnvelopeFieldsOf<ModelInferRequest>(), message);
  const auto used_after = mallinfo2().uordblks + mallinfo2().hblkhd;
  EXPECT_THAT(status, IsOverBound("inference.ModelInferRequest.inputs", 64, count));
  EXPECT_EQ(message.inputs_size(), 0);
  EXPECT_LT(used_after, used_before + wire.size());
}

TEST(EnvelopeBoundsTest, AsManyAsTheBoundAreRead) {
  EXPECT_THAT(StatusOf<ModelInferRequest>(Repeated(Bytes({0x2a, 0}), 64)), IsOk());
  EXPECT_THAT(StatusOf<ModelInferRequest>(Repeated(Bytes({0x2a, 0}), 65)),
              IsOverBound("inference.ModelInferRequest.inputs", 64, 65));
}

TEST(EnvelopeBoundsTest, RawContentsAreCountedAlthoughTheyStayWhereTheyAre) {
  EXPECT_THAT(StatusOf<ModelInferRequest>(Repeated(Bytes({0x3a, 0}), 1000)),
              IsOverBound("inference.ModelInferRequest.raw_input_contents", 64, 1000));
}

TEST(EnvelopeBoundsTest, ElementsAreCountedAcrossTheMessagesThatHoldThem) {
  // Protobuf merges a message that comes again: each has few texts, together they are too many.
  const std::string texts = Long(6, Repeated(Bytes({0x0a, 0}), 4096));
  EXPECT_THAT(StatusOf<v1::AttendRequest>(Repeated(texts, 2)), IsOk());
  EXPECT_THAT(StatusOf<v1::AttendRequest>(Repeated(texts, 3)),
              IsOverBound("attention.v1.TextInput.texts", 8192, 3 * 4096));
  // Parameters of several inputs.
  const std::string input = Long(5, Repeated(Bytes({0x22, 0}), 10));
  EXPECT_THAT(StatusOf<ModelInferRequest>(Repeated(input, 26)),
              IsOverBound("inference.ModelInferRequest.InferInputTensor.parameters", 256, 260));
}

TEST(EnvelopeBoundsTest, PackedAndUnpackedIntegersAreCountedAlike) {
  const int64_t bound = int64_t{1} << 20;
  const std::string packed = Long(1, std::string(static_cast<size_t>(bound), '\1'));
  const std::string unpacked = Bytes({0x08, 1});
  EXPECT_THAT(StatusOf<v1::AttendRequest>(Long(3, packed)), IsOk());
  EXPECT_THAT(StatusOf<v1::AttendRequest>(Long(3, packed + unpacked)),
              IsOverBound("attention.v1.TokenIds.ids", bound, bound + 1));
}

TEST(EnvelopeBoundsTest, FloatsArePackedOrNotCountedAlikeAndNotMade) {
  const int64_t bound = int64_t{1} << 20;
  const auto slopes = [](int64_t count) {
    return Long(9, std::string(static_cast<size_t>(count) * 4, '\0'));
  };
  const std::string unpacked = Bytes({9 << 3 | 5, 0, 0, 0, 0});
  const std::string name = "attention.v1.AttentionOptions.alibi_slopes";
  EXPECT_THAT(StatusOf<v1::AttendRequest>(Long(5, slopes(bound))), IsOk());
  EXPECT_THAT(StatusOf<v1::AttendRequest>(Long(5, slopes(bound) + unpacked)),
              IsOverBound(name, bound, bound + 1));
  EXPECT_THAT(StatusOf<v1::DecodeRequest>(Long(3, Long(5, slopes(bound) + slopes(bound)))),
              IsOverBound(name, bound, 2 * bound));
  // The weights of a norm: 512 elements of a head at most.
  const auto norm = [](int64_t count) {
    return Long(5, Long(12, Long(1, std::string(static_cast<size_t>(count) * 4, '\0'))));
  };
  EXPECT_THAT(StatusOf<v1::AttendRequest>(norm(512)), IsOk());
  EXPECT_THAT(StatusOf<v1::AttendRequest>(norm(513)),
              IsOverBound("attention.v1.RmsNorm.weight", 512, 513));
}

TEST(EnvelopeBoundsTest, FieldsThatComeAgainHaveABound) {
  const int64_t bound = int64_t{1} << 22;
  const std::string names = Repeated(Bytes({0x0a, 0}), bound);
  EXPECT_THAT(StatusOf<v1::AttendRequest>(names), IsOk());
  const auto is_over_bound = StatusIs(absl::StatusCode::kInvalidArgument,
                                      "expected at most 4194304 fields in a message, found more");
  EXPECT_THAT(StatusOf<v1::AttendRequest>(names + Bytes({0x0a, 0})), is_over_bound);
  // Payloads, elements and unknown fields count alike.
  const std::string payloads = Long(1, Repeated(Bytes({0x1a, 0}), bound));
  const std::string elements = Long(6, Repeated(Bytes({0x0a, 0}), bound));
  EXPECT_THAT(StatusOf<v1::AttendRequest>(elements), is_over_bound);
  EXPECT_THAT(StatusOf<v1::AttendRequest>(Long(2, payloads)), is_over_bound);
  EXPECT_THAT(StatusOf<v1::AttendRequest>(Repeated(Bytes({0xfa, 0x3f, 0}), bound + 1)),
              is_over_bound);
}

TEST(EnvelopeBoundsTest, NestedMessagesThatComeAgainHaveABound) {
  const auto is_over_bound = [](const char* field) {
    return StatusIs(absl::StatusCode::kInvalidArgument,
                    absl::StrCat(field,
                                 ": expected once in a message; the message repeats such fields "
                                 "more than 1024 times"));
  };
  const std::string options = Bytes({0x2a, 0});
  EXPECT_THAT(StatusOf<v1::AttendRequest>(Repeated(options, 1 + 1024)), IsOk());
  EXPECT_THAT(StatusOf<v1::AttendRequest>(Repeated(options, 1 + 1025)),
              is_over_bound("attention.v1.AttendRequest.options"));
  // Also in turn with others, and in messages of any depth, together.
  const std::string both = Bytes({0x12, 0, 0x1a, 0});
  EXPECT_THAT(StatusOf<v1::AttendRequest>(Repeated(both, 1 + 512)), IsOk());
  EXPECT_THAT(StatusOf<v1::AttendRequest>(Repeated(both, 2 + 512)),
              is_over_bound("attention.v1.AttendRequest.hidden_states"));
  const std::string norms = Long(5, Repeated(Bytes({0x62, 0}), 100));  // in options
  EXPECT_THAT(StatusOf<v1::AttendRequest>(Repeated(norms, 10)), IsOk());
  EXPECT_THAT(StatusOf<v1::AttendRequest>(Repeated(norms, 11)),
              is_over_bound("attention.v1.AttentionOptions.query_norm"));
  // Elements of a list have a bound of their own.
  EXPECT_THAT(StatusOf<v1::ListModelsResponse>(Repeated(Bytes({0x0a, 0}), 5000)), IsOk());
}

TEST(EnvelopeBoundsTest, MemoryIsAnnouncedBeforeItIsTaken) {
  const std::string ids = Long(3, Long(1, std::string(1 << 20, '\1')));
  int64_t announced = 0, calls = 0;
  const auto begin = [&](int64_t bytes) {
    announced += bytes;
    return ++calls > 0 ? absl::OkStatus() : absl::UnknownError("");
  };
  v1::AttendRequest message;
  const EnvelopeFields& fields = EnvelopeFieldsOf<v1::AttendRequest>();
  ASSERT_THAT(DecodeEnvelope(Cut(ids), fields, message, begin), IsOk());
  EXPECT_GE(announced, message.token_ids().ids().SpaceUsedExcludingSelfLong() + (1 << 20));
  const auto refuse = [](int64_t) { return absl::ResourceExhaustedError("no room"); };
  EXPECT_THAT(DecodeEnvelope(Cut(ids), fields, message, refuse),
              StatusIs(absl::StatusCode::kResourceExhausted, "no room"));
  // Long work asks, too, when it takes no memory.
  calls = 0;
  const std::string unknown = Repeated(Bytes({0xf8, 0x3f, 1}), 200'000);
  ASSERT_THAT(DecodeEnvelope(Cut(unknown), fields, message, begin), IsOk());
  EXPECT_EQ(calls, 3);
  calls = 0;
  ASSERT_THAT(DecodeEnvelope(Cut(ids.substr(0, 0)), fields, message, begin), IsOk());
  EXPECT_EQ(calls, 0);
}

TEST(EnvelopeBoundsTest, UnknownFieldsAreLeftOut) {
  const std::string unknown = Repeated(Bytes({0xfa, 0x3f, 0}), 1000)  // field 1023, bytes
                              + Bytes({0xf8, 0x3f, 1})                // a number
                              + Bytes({0x08, 1});  // the model's name as a number
  v1::AttendRequest message;
  ASSERT_THAT(DecodeEnvelope(Cut(unknown), EnvelopeFieldsOf<v1::AttendRequest>(), message), IsOk());
  EXPECT_TRUE(v1::AttendRequest::GetReflection()->GetUnknownFields(message).empty());
  EXPECT_THAT(message.SerializeAsString(), IsEmpty());
}

TEST(EnvelopeBoundsTest, ANameHasABound) {
  const std::string longest(1 << 16, 'n');
  EXPECT_THAT(StatusOf<v1::AttendRequest>(Long(1, longest)), IsOk());
  EXPECT_THAT(StatusOf<v1::AttendRequest>(Long(1, longest + "n")),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "attention.v1.AttendRequest.model: expected at most 65536 bytes, found "
                       "65537"));
  // A text to tokenize may be longer.
  EXPECT_THAT(StatusOf<v1::AttendRequest>(Long(6, Long(1, longest + "n"))), IsOk());
}

/// A repeated field below a message, and the messages around it, the outermost first.
struct ListField {
  const FieldDescriptor* field;
  std::vector<const FieldDescriptor*> around;
};

void FindLists(const Descriptor& type, const std::vector<const FieldDescriptor*>& around,
               std::vector<ListField>& lists) {
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.is_repeated()) {
      lists.push_back({&field, around});
    }
    if (field.message_type() != nullptr) {
      std::vector<const FieldDescriptor*> path = around;
      path.push_back(&field);
      FindLists(*field.message_type(), path, lists);
    }
  }
}

/// The bytes of a packed zero of the field; 0 when its elements are not packed.
int64_t PackedBytes(const FieldDescriptor& field) {
  using google::protobuf::internal::WireFormatLite;
  switch (
      WireFormatLite::WireTypeForFieldType(static_cast<WireFormatLite::FieldType>(field.type()))) {
    case WireFormatLite::WIRETYPE_LENGTH_DELIMITED:
      return 0;
    case WireFormatLite::WIRETYPE_FIXED64:
      return 8;
    case WireFormatLite::WIRETYPE_FIXED32:
      return 4;
    default:
      return 1;
  }
}

/// A message with a list of so many zeros or empty elements.
std::string WithList(const ListField& list, int64_t count) {
  const int64_t width = PackedBytes(*list.field);
  std::string wire =
      width > 0 ? Long(list.field->number(), std::string(static_cast<size_t>(count * width), '\0'))
                : Repeated(Long(list.field->number(), ""), count);
  for (auto outer = list.around.rbegin(); outer != list.around.rend(); ++outer) {
    wire = Long((*outer)->number(), wire);
  }
  return wire;
}

/// More elements than any bound: of numbers more bytes than as many of the longest integers as the
/// bound would take.
int64_t TooMany(const ListField& list) {
  const int64_t width = PackedBytes(*list.field);
  return width == 0 ? 100'000
                    : std::max(int64_t{8} << 20, 11 * *MaxElementsOf(*list.field)) / width;
}

// The law of all requests: many megabytes of numbers take no memory before they are refused, and
// other elements the memory of those that are within the bound.
TEST(EnvelopeBoundsTest, ALongListOfAnyFieldIsRefusedBeforeItTakesMemory) {
  constexpr int64_t kMaxAnnounced = int64_t{1} << 20;
  std::set<std::string> unbounded;
  for (const auto& [request, fields] :
       {std::pair(v1::AttendRequest::descriptor(), &EnvelopeFieldsOf<v1::AttendRequest>()),
        std::pair(v1::DecodeRequest::descriptor(), &EnvelopeFieldsOf<v1::DecodeRequest>()),
        std::pair(ModelInferRequest::descriptor(), &EnvelopeFieldsOf<ModelInferRequest>())}) {
    std::vector<ListField> lists;
    FindLists(*request, {}, lists);
    std::set<const FieldDescriptor*> seen;  // one path to each field is enough
    for (const ListField& list : lists) {
      if (!seen.insert(list.field).second) {
        continue;
      }
      const std::optional<int64_t> bound = MaxElementsOf(*list.field);
      if (!bound.has_value()) {
        unbounded.emplace(list.field->full_name());
        continue;
      }
      const int64_t count = TooMany(list);
      int64_t announced = 0;
      const std::unique_ptr<google::protobuf::Message> message(
          google::protobuf::MessageFactory::generated_factory()->GetPrototype(request)->New());
      const absl::Status status =
          DecodeEnvelope(Cut(WithList(list, count)), *fields, *message, [&](int64_t bytes) {
            announced += bytes;
            return absl::OkStatus();
          });
      EXPECT_THAT(status, IsOverBound(std::string(list.field->full_name()), *bound, count));
      EXPECT_LE(announced, kMaxAnnounced) << list.field->full_name();
      EXPECT_EQ(message->ByteSizeLong(), 0u) << list.field->full_name();
      // As many as the bound are read. Empty entries of a map are one.
      const std::string longest = WithList(list, *bound);
      EXPECT_THAT(DecodeEnvelope(Cut(longest), *fields, *message), IsOk());
      if (!IsPayloadField(*list.field) && !list.field->is_map()) {
        EXPECT_EQ(message->ByteSizeLong(), longest.size()) << list.field->full_name();
      }
    }
  }
  // A tensor of floats may fill a message.
  EXPECT_THAT(unbounded, ::testing::ElementsAre("inference.InferTensorContents.fp32_contents"));
}

}  // namespace
}  // namespace attention

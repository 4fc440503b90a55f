// Decoding of messages with tensors: protobuf parses the envelope, and the tensors' bytes stay in
// the transport slices until they are copied to where they are needed.
//
// One walk over the wire replaces each payload by an 8-byte reference to its position and corrects
// the lengths around it; protobuf parses the short message that remains. Field order, repeated and
// merged fields and oneofs therefore have exactly protobuf's meaning.
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/attention/v1/attention.pb.h"
#include "proto/codec/envelope_fields.h"
#include "proto/codec/payload.h"

namespace attention {

/// A received message. `message` is complete except for its payload fields, which hold references:
/// read those through `PayloadOf` only.
template <typename M>
struct Received {
  M message;
  std::shared_ptr<const ReceivedBytes> bytes;

  /// Returns the payload of a tensor. REQUIRES: `tensor` is part of `message`.
  Payload PayloadOf(const v1::Tensor& tensor) const;
};

/// Returns the payload that the value of a payload field refers to.
Payload ResolvePayload(const std::string& reference,
                       const std::shared_ptr<const ReceivedBytes>& bytes);

/// A function that decoding calls before it takes `bytes` more memory, and from time to time with
/// 0; an error ends the decoding. It is not called for messages that take less than 1 MiB. Null:
/// always continue.
using BeginDecoding = std::function<absl::Status(int64_t bytes)>;

/// Decodes a message. INVALID_ARGUMENT when `wire` is not a well-formed message of the type, or has
/// more elements of a field than a request may have (MaxElementsOf), in which case it names the
/// field, the bound and the number; a text that is not UTF-8, or of more than 64 KiB and no element
/// of a list; more than 2^22 fields; or more than 1,024 nested messages that come again. Errors of
/// `begin`. Unknown fields are dropped. The memory is at most a
/// small multiple of the bytes in any case, and elements beyond a bound take none.
absl::Status DecodeEnvelope(const grpc::ByteBuffer& wire, const EnvelopeFields& fields,
                            google::protobuf::Message& message,
                            const BeginDecoding& begin = nullptr);

template <typename M>
Payload Received<M>::PayloadOf(const v1::Tensor& tensor) const {
  return ResolvePayload(tensor.data(), bytes);
}

/// Decodes a generated type. The result keeps the slices of `wire` alive, not `wire` itself.
template <typename M>
absl::StatusOr<Received<M>> Decode(const grpc::ByteBuffer& wire,
                                   const BeginDecoding& begin = nullptr) {
  Received<M> received;
  if (absl::Status status = DecodeEnvelope(wire, EnvelopeFieldsOf<M>(), received.message, begin);
      !status.ok()) {
    return status;
  }
  received.bytes = std::make_shared<const ReceivedBytes>(wire);
  return received;
}

}  // namespace attention

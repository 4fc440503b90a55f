// The protocols of a load: how requests and answers are encoded.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/lib/attend_request.h"
#include "client/lib/attention_client.h"
#include "client/lib/open_inference_codec.h"
#include "client/lib/request_codec.h"

namespace attention {

/// The messages of one answer; only the last message of a stream that is not kept whole.
using LoadAnswer = std::vector<grpc::ByteBuffer>;

/// A protocol. Immutable; thread-safe.
class Protocol {
 public:
  virtual ~Protocol() = default;

  /// Returns the name: "native" or "oip".
  virtual std::string name() const = 0;
  /// Returns the method: "/package.Service/Method".
  virtual std::string method() const = 0;
  virtual bool is_streaming() const { return false; }

  /// Encodes a request. INVALID_ARGUMENT for a request that the protocol cannot express.
  virtual absl::StatusOr<grpc::ByteBuffer> Encode(const AttendRequest& request,
                                                  const SliceOf& slice_of) const = 0;

  /// Reads the summary at the end of an answer, without decoding tensors; an empty one if the
  /// protocol has none. INTERNAL for a malformed answer.
  virtual absl::StatusOr<v1::Summary> ReadSummary(const LoadAnswer& answer) const = 0;

  /// Decodes an answer. REQUIRES: `answer` has all messages.
  virtual absl::StatusOr<AttendResult> Decode(const AttendRequest& request,
                                              const LoadAnswer& answer) const = 0;

  /// Sends one request by a unary call, and waits for the answer.
  virtual absl::StatusOr<AttendResult> Ask(AttentionClient& client,
                                           const AttendRequest& request) const = 0;
};

/// The protocol attention.v1, with Attend or AttendStream.
class NativeProtocol : public Protocol {
 public:
  explicit NativeProtocol(bool is_streaming) : is_streaming_(is_streaming) {}

  std::string name() const override { return "native"; }
  std::string method() const override {
    return is_streaming_ ? kAttendStreamMethod : kAttendMethod;
  }
  bool is_streaming() const override { return is_streaming_; }
  absl::StatusOr<grpc::ByteBuffer> Encode(const AttendRequest& request,
                                          const SliceOf& slice_of) const override {
    return EncodeRequest(request, slice_of);
  }
  absl::StatusOr<v1::Summary> ReadSummary(const LoadAnswer& answer) const override;
  absl::StatusOr<AttendResult> Decode(const AttendRequest& request,
                                      const LoadAnswer& answer) const override;
  absl::StatusOr<AttendResult> Ask(AttentionClient& client,
                                   const AttendRequest& request) const override {
    return client.Attend(request);
  }

 private:
  const bool is_streaming_;
};

/// The Open Inference Protocol, with ModelInfer, of this server or another that implements it.
/// Answers have no summary.
class OpenInferenceProtocol : public Protocol {
 public:
  std::string name() const override { return "oip"; }
  std::string method() const override { return kModelInferMethod; }
  absl::StatusOr<grpc::ByteBuffer> Encode(const AttendRequest& request,
                                          const SliceOf& slice_of) const override {
    return EncodeInferRequest(request, slice_of);
  }
  absl::StatusOr<v1::Summary> ReadSummary(const LoadAnswer& answer) const override;
  absl::StatusOr<AttendResult> Decode(const AttendRequest& request,
                                      const LoadAnswer& answer) const override;
  absl::StatusOr<AttendResult> Ask(AttentionClient& client,
                                   const AttendRequest& request) const override {
    return client.Infer(request);
  }
};

}  // namespace attention

// The kinds of request in a load, and their encoded forms.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/load/length_mix.h"
#include "client/load/protocol.h"
#include "client/load/workload.h"

namespace attention {

/// A request, or several kinds of one that differ in length. Immutable; thread-safe.
class RequestMix {
 public:
  /// A mix of one kind.
  explicit RequestMix(Workload workload);

  /// Makes a mix of the kinds to which the sequences of `longest` are cut, one for each length; the
  /// last length is that of `longest` itself. Hidden states [B, S, E] become [B, length, E], token
  /// ids B sequences. INVALID_ARGUMENT for another input, or one with lengths, memory, types, bias,
  /// mask or options of single sequences.
  static absl::StatusOr<RequestMix> OfLengths(Workload longest, LengthMix lengths);

  size_t num_kinds() const { return lengths_.weights.size(); }
  /// Returns how often each kind comes, relative to the others.
  const std::vector<double>& weights() const { return lengths_.weights; }
  /// Returns the mix of lengths as it was written; empty when there is one kind.
  const std::string& lengths_text() const { return lengths_.text; }
  /// Returns the request that all kinds are cut from.
  const AttendRequest& request() const { return base_->request; }

  /// Returns the request of one kind. A cut request has tensors of its own; others borrow from this
  /// object.
  Workload Make(size_t kind) const;
  /// Encodes one kind. Tensors are not copied: the bytes of all kinds share them and keep them
  /// alive.
  absl::StatusOr<grpc::ByteBuffer> Encode(size_t kind, const Protocol& protocol) const;

  /// Returns the query rows of one kind; for texts, those of their answer `first`. Errors of
  /// QueryRows.
  absl::StatusOr<int64_t> CountTokens(size_t kind, const AttendResult& first) const;

  /// Returns the description of the request, the longest of a mix, and the mix: "hidden states [1,
  /// 512, 512] FP32, lengths uniform:8..512".
  std::string Describe() const;

 private:
  std::shared_ptr<const Workload> base_;
  LengthMix lengths_;
};

struct EncodedRequest {
  grpc::ByteBuffer bytes;  // shared by all calls
  int64_t tokens = 0;      // query rows
};

/// Borrows the protocol.
struct EncodedLoad {
  const Protocol* protocol = nullptr;
  std::vector<EncodedRequest> kinds;
  /// How often each kind comes.
  std::vector<double> weights;
};

/// Encodes each kind of `mix` once, so that sending one costs nothing more. The tokens of texts are
/// those of `first`, an answer to them. Errors of Protocol::Encode and QueryRows.
absl::StatusOr<EncodedLoad> EncodeLoad(const RequestMix& mix, const Protocol& protocol,
                                       const AttendResult& first);

}  // namespace attention

#include "proto/codec/inflate.h"

#include <grpcpp/support/proto_buffer_reader.h>
#include <zlib.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <new>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "core/tensor/tensor.h"
#include "proto/codec/encode.h"

// gRPC gives no other access to the flag "compressed" of a message whose encoding it does not know.
// Weak, since a gRPC may not export it; then such messages are parsed as they are.
[[gnu::weak]] uint32_t grpc_call_test_only_get_message_flags(grpc_call* call);

namespace attention {
namespace {

// gRPC's flag of a message that is still compressed (GRPC_WRITE_INTERNAL_COMPRESS).
constexpr uint32_t kCompressedFlag = 0x80000000u;
// The maximum ratio of inflated to compressed bytes.
constexpr int64_t kMaxRatio = 1032;
constexpr int64_t kMinBlockBytes = int64_t{4} << 10;
constexpr int64_t kMaxBlockBytes = int64_t{1} << 20;
// Parameters of zlib: the largest window, and the flags for gzip and for zlib's own format.
constexpr int kWindowBits = 15;
constexpr int kGzip = 16;

// Gives access to the compression algorithm of a buffer, which only classes derived from its reader
// have.
class EncodingReader : public grpc::ProtoBufferReader {
 public:
  using grpc::ProtoBufferReader::ProtoBufferReader;
  grpc_compression_algorithm algorithm() { return reader()->buffer_in->data.raw.compression; }
};

grpc_compression_algorithm AlgorithmOf(const grpc::ByteBuffer& wire) {
  if (!wire.Valid()) {
    return GRPC_COMPRESS_NONE;
  }
  // The reader takes no const buffer, and does not change it.
  return EncodingReader(const_cast<grpc::ByteBuffer*>(&wire)).algorithm();
}

class Inflater {
 public:
  Inflater(const grpc::ByteBuffer& wire, const InflateLimit& limit)
      : wire_(wire),
        limit_(limit),
        is_gzip_(AlgorithmOf(wire) == GRPC_COMPRESS_GZIP),
        block_bytes_(
            std::clamp(4 * static_cast<int64_t>(wire.Length()), kMinBlockBytes, kMaxBlockBytes)) {
    if (inflateInit2(&stream_, kWindowBits + (is_gzip_ ? kGzip : 0)) != Z_OK) {
      throw std::bad_alloc();
    }
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  absl::StatusOr<grpc::ByteBuffer> Run() {
    std::vector<grpc::Slice> slices;
    if (!wire_.Dump(&slices).ok()) {
      return Malformed();
    }
    for (const grpc::Slice& slice : slices) {
      RETURN_IF_ERROR(Add(slice));
    }
    if (!is_complete_) {
      return Malformed();
    }
    FinishBlock();
    if (num_bytes_ > limit_.max_bytes) {
      return TooLarge();
    }
    return grpc::ByteBuffer(inflated_.data(), inflated_.size());
  }

 private:
  absl::Status Add(const grpc::Slice& slice) {
    stream_.next_in = const_cast<Bytef*>(slice.begin());  // zlib does not write there
    stream_.avail_in = static_cast<uInt>(slice.size());
    // A filled block means that there may be more output.
    while (stream_.avail_in > 0 || (stream_.avail_out == 0 && block_ != nullptr && !is_complete_)) {
      if (is_complete_) {
        return Malformed();  // bytes behind the end
      }
      if (stream_.avail_out == 0) {
        RETURN_IF_ERROR(BeginBlock());
      }
      const int result = inflate(&stream_, Z_NO_FLUSH);
      if (result == Z_MEM_ERROR) {
        throw std::bad_alloc();
      }
      if (result == Z_BUF_ERROR) {
        break;  // the input has ended
      }
      is_complete_ = result == Z_STREAM_END;
      if (result != Z_OK && !is_complete_) {
        return Malformed();
      }
    }
    return absl::OkStatus();
  }

  // One byte beyond the maximum shows that the message is too large.
  absl::Status BeginBlock() {
    FinishBlock();
    if (num_bytes_ > limit_.max_bytes) {
      return TooLarge();
    }
    const int64_t size = std::min(block_bytes_, limit_.max_bytes + 1 - num_bytes_);
    if (limit_.begin_block != nullptr) {
      RETURN_IF_ERROR(limit_.begin_block(size));
    }
    block_ = std::make_shared<AlignedBuffer>(static_cast<size_t>(size));
    stream_.next_out = reinterpret_cast<Bytef*>(block_->data());
    stream_.avail_out = static_cast<uInt>(size);
    return absl::OkStatus();
  }

  void FinishBlock() {
    if (block_ == nullptr) {
      return;
    }
    const size_t size = block_->size_bytes() - stream_.avail_out;
    num_bytes_ += static_cast<int64_t>(size);
    inflated_.push_back(SharedSlice(block_, block_->data(), size));
    block_.reset();
  }

  absl::Status TooLarge() const {
    return absl::ResourceExhaustedError(
        absl::StrCat("expected a message of at most ", limit_.max_bytes, " bytes",
                     limit_.flag.empty() ? "" : absl::StrCat(" (", limit_.flag, ")"), ", found ",
                     wire_.Length(), " bytes of ", Name(), " that inflate to more"));
  }
  absl::Status Malformed() const {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a message in ", Name(), " as its grpc-encoding says, found ",
                     wire_.Length(), " bytes that cannot be inflated"));
  }
  const char* Name() const { return is_gzip_ ? "gzip" : "deflate"; }

  const grpc::ByteBuffer& wire_;
  const InflateLimit& limit_;
  const bool is_gzip_;
  const int64_t block_bytes_;
  z_stream stream_ = {};
  bool is_complete_ = false;
  std::shared_ptr<AlignedBuffer> block_;  // being filled
  int64_t num_bytes_ = 0;                 // in the blocks before it
  std::vector<grpc::Slice> inflated_;
};

}  // namespace

absl::Status CheckEncoding(grpc::ServerContext& context, const grpc::ByteBuffer& wire) {
  if (AlgorithmOf(wire) != GRPC_COMPRESS_NONE || grpc_call_test_only_get_message_flags == nullptr ||
      (grpc_call_test_only_get_message_flags(context.c_call()) & kCompressedFlag) == 0) {
    return absl::OkStatus();
  }
  return absl::UnimplementedError(
      "grpc-encoding: expected gzip or deflate for a compressed message, found another encoding or "
      "none");
}

bool IsCompressed(const grpc::ByteBuffer& wire) {
  return wire.Length() > 0 && AlgorithmOf(wire) != GRPC_COMPRESS_NONE;
}

int64_t MaxInflatedBytes(const grpc::ByteBuffer& wire) {
  return static_cast<int64_t>(wire.Length()) * kMaxRatio;
}

absl::StatusOr<grpc::ByteBuffer> Inflate(const grpc::ByteBuffer& wire, const InflateLimit& limit) {
  return Inflater(wire, limit).Run();
}

}  // namespace attention

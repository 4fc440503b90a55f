// Messages as a sender compresses them.
#pragma once

#include <grpc/compression.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/proto_buffer_reader.h>
#include <zlib.h>

#include <cstdint>
#include <string>

#include "gtest/gtest.h"

namespace attention {

/// Returns `times` copies of `bytes`, compressed for grpc-encoding gzip or deflate, one copy at a
/// time, so that the inflated text is never in memory.
inline std::string Compressed(std::string bytes, grpc_compression_algorithm algorithm,
                              int64_t times = 1) {
  z_stream stream = {};
  constexpr int kWindowBits = 15;
  const int format = algorithm == GRPC_COMPRESS_GZIP ? 16 : 0;
  EXPECT_EQ(deflateInit2(&stream, 1, Z_DEFLATED, kWindowBits + format, 8, Z_DEFAULT_STRATEGY),
            Z_OK);
  std::string compressed;
  std::string block(size_t{64} << 10, '\0');
  for (int64_t i = 0; i < times; ++i) {
    stream.next_in = reinterpret_cast<Bytef*>(bytes.data());
    stream.avail_in = static_cast<uInt>(bytes.size());
    do {
      stream.next_out = reinterpret_cast<Bytef*>(block.data());
      stream.avail_out = static_cast<uInt>(block.size());
      deflate(&stream, i + 1 == times ? Z_FINISH : Z_NO_FLUSH);
      compressed.append(block.data(), block.size() - stream.avail_out);
    } while (stream.avail_out == 0);
  }
  deflateEnd(&stream);
  return compressed;
}

/// Returns the buffer marked as compressed, as gRPC delivers a message that it did not inflate.
inline grpc::ByteBuffer AsCompressed(grpc::ByteBuffer wire, grpc_compression_algorithm algorithm) {
  class Marker : public grpc::ProtoBufferReader {
   public:
    using grpc::ProtoBufferReader::ProtoBufferReader;
    void Mark(grpc_compression_algorithm algorithm) {
      reader()->buffer_in->data.raw.compression = algorithm;
    }
  };
  Marker(&wire).Mark(algorithm);
  return wire;
}

}  // namespace attention

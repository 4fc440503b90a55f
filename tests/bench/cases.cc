#include "tests/bench/cases.h"

#include <numeric>
#include <random>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/attention/kv_cache.h"

namespace attention::bench {
namespace {

const char* StorageName(KeyValueStorage storage) {
  return storage == KeyValueStorage::kF32    ? "f32"
         : storage == KeyValueStorage::kBf16 ? "bf16"
                                             : "int8";
}

const char* DtypeName(Dtype dtype) {
  return dtype == Dtype::kF32 ? "f32" : dtype == Dtype::kBf16 ? "bf16" : "f16";
}

std::string CaseName(const CaseSpec& s) {
  std::string name = absl::StrCat(s.rows > 1              ? "prefill"
                                  : s.storage.has_value() ? "decode"
                                  : s.d_model > 0         ? "layer"
                                                          : "attention",
                                  "/",
                                  s.storage.has_value() ? StorageName(*s.storage)
                                  : s.has_int8_weights  ? "int8"
                                                        : DtypeName(s.dtype),
                                  "/");
  if (s.label.empty()) {
    const bool decodes_layer = s.storage.has_value() && s.d_model > 0;
    absl::StrAppend(&name, "B", s.batch_size, decodes_layer ? "_C" : "_S", s.seq_len);
  } else {
    absl::StrAppend(&name, s.label);
  }
  if (s.d_model > 0) {
    absl::StrAppend(&name, "_E", s.d_model);
  }
  absl::StrAppend(&name, "_H", s.num_heads);
  if (s.num_kv_heads != s.num_heads) {
    absl::StrAppend(&name, "/", s.num_kv_heads);
  }
  if (s.d_model == 0) {
    absl::StrAppend(&name, "_D", s.head_dim);
  }
  if (s.layers > 1) {
    absl::StrAppend(&name, "_L", s.layers);
  }
  if (s.similarity != Similarity::kDotProduct) {
    absl::StrAppend(&name, "/", absl::AsciiStrToLower(std::string(Name(s.similarity))));
    if (s.bandwidth > 0) {
      absl::StrAppend(&name, s.bandwidth);
    }
  }
  if (s.window > 0) {
    absl::StrAppend(&name, "/window", s.window, s.prefix > 0 ? absl::StrCat("_", s.prefix) : "");
  }
  if (s.last_rows > 0) {
    absl::StrAppend(&name, "/rows", s.last_rows);
  } else if (s.rows > 1 && s.rows < s.seq_len) {
    absl::StrAppend(&name, "/rows", s.rows);
  }
  return absl::StrCat(name, s.causal ? "/causal" : "", s.is_rotary ? "/rotary" : "", "/threads",
                      s.threads);
}

CaseSpec Attention(Dtype dtype, int64_t batch, int64_t seq_len, int64_t heads, bool causal) {
  return {.dtype = dtype,
          .batch_size = batch,
          .num_heads = heads,
          .num_kv_heads = heads,
          .seq_len = seq_len,
          .head_dim = 64,
          .causal = causal};
}

CaseSpec Layer(Dtype dtype, int64_t batch, int64_t seq_len, int64_t d_model, bool causal) {
  return {.dtype = dtype,
          .d_model = d_model,
          .batch_size = batch,
          .num_heads = d_model / 64,
          .num_kv_heads = d_model / 64,
          .seq_len = seq_len,
          .head_dim = 64,
          .causal = causal};
}

CaseSpec Decode(KeyValueStorage storage, int64_t heads, int64_t kv_heads, int64_t head_dim) {
  return {.dtype = storage == KeyValueStorage::kBf16 ? Dtype::kBf16 : Dtype::kF32,
          .num_heads = heads,
          .num_kv_heads = kv_heads,
          .seq_len = 16384,
          .head_dim = head_dim,
          .storage = storage};
}

CaseSpec LayerDecode(KeyValueStorage storage, int64_t batch_size) {
  CaseSpec spec = Decode(storage, 8, 8, 64);
  spec.d_model = 512;
  spec.batch_size = batch_size;
  spec.seq_len = 128;
  return spec;
}

/// Lengths drawn uniformly from 16 to 512, and as many tokens in equal lengths.
std::vector<int64_t> RaggedLengths() {
  std::mt19937 generator(1);
  std::vector<int64_t> lengths(32);
  for (int64_t& length : lengths) {
    length = 16 + static_cast<int64_t>(generator() % 497);
  }
  return lengths;
}

std::vector<int64_t> EqualLengths() {
  const std::vector<int64_t> ragged = RaggedLengths();
  const int64_t tokens = std::accumulate(ragged.begin(), ragged.end(), int64_t{0});
  return std::vector<int64_t>(ragged.size(), tokens / std::ssize(ragged));
}

std::vector<CaseSpec> LengthCases(const CaseSpec& spec) {
  CaseSpec ragged = spec;
  ragged.lengths = RaggedLengths();
  ragged.label = "ragged32";
  CaseSpec equal = spec;
  equal.lengths = EqualLengths();
  equal.label = "equal32";
  return {ragged, equal};
}

std::vector<CaseSpec> CasesOf(Dtype dtype) {
  CaseSpec wide = Attention(dtype, 1, 1024, 32, true);
  wide.head_dim = 128;
  CaseSpec grouped = wide;
  grouped.num_kv_heads = 8;
  std::vector<CaseSpec> cases = {Attention(dtype, 1, 128, 12, false),
                                 Attention(dtype, 8, 128, 12, false),
                                 Attention(dtype, 1, 197, 12, false),
                                 Attention(dtype, 1, 512, 12, false),
                                 Attention(dtype, 1, 512, 12, true),
                                 Attention(dtype, 1, 2048, 12, true),
                                 Attention(dtype, 1, 2048, 16, false),
                                 Attention(dtype, 1, 2048, 16, true),
                                 wide,
                                 grouped,
                                 Layer(dtype, 1, 1, 768, false),
                                 Layer(dtype, 1, 4, 768, false),
                                 Layer(dtype, 1, 16, 768, false),
                                 Layer(dtype, 1, 24, 768, false),
                                 Layer(dtype, 1, 128, 768, false),
                                 Layer(dtype, 8, 128, 768, false),
                                 Layer(dtype, 1, 512, 768, false),
                                 Layer(dtype, 1, 512, 768, true),
                                 Layer(dtype, 1, 2048, 1024, false),
                                 Layer(dtype, 1, 2048, 1024, true)};
  for (const CaseSpec& spec :
       {Attention(dtype, 1, 512, 12, false), Layer(dtype, 1, 512, 768, false)}) {
    const std::vector<CaseSpec> pair = LengthCases(spec);
    cases.insert(cases.end(), pair.begin(), pair.end());
  }
  return cases;
}

/// Kernel regression and linear attention. At D 64 the distances of N(0, 1) rows are about 11.
std::vector<CaseSpec> OtherSimilarityCases() {
  struct Kind {
    Similarity similarity;
    double bandwidth;
    bool causal;
  };
  std::vector<CaseSpec> cases;
  for (const Kind& kind :
       {Kind{Similarity::kGaussian, 64, false}, Kind{Similarity::kGaussian, 64, true},
        Kind{Similarity::kBox, 11, false}, Kind{Similarity::kTriangular, 16, false},
        Kind{Similarity::kTriangular, 11, false}, Kind{Similarity::kLinear, 0, false},
        Kind{Similarity::kLinear, 0, true}}) {
    cases.push_back(Attention(Dtype::kF32, 1, 512, 12, kind.causal));
    cases.back().similarity = kind.similarity;
    cases.back().bandwidth = kind.bandwidth;
  }
  return cases;
}

/// More rows of the layer whose scaling is simulated, in a long sequence and in many.
std::vector<CaseSpec> ManyRowsCases() {
  return {Layer(Dtype::kF32, 1, 2048, 768, false), Layer(Dtype::kF32, 32, 128, 768, false),
          Layer(Dtype::kF32, 32, 512, 768, false)};
}

/// Many short sequences, whose lengths are no multiples of 16, and a window, without and with a
/// prefix (attention sinks).
std::vector<CaseSpec> NarrowCases(Dtype dtype) {
  std::vector<CaseSpec> cases;
  for (const int64_t length : {5, 12, 17, 49}) {
    cases.push_back(Attention(dtype, 64, length, 12, false));
  }
  for (const int64_t prefix : {0, 4}) {
    cases.push_back(Attention(dtype, 1, 4096, 4, true));
    cases.back().window = 256;
    cases.back().prefix = prefix;
  }
  return cases;
}

/// Few rows of a sequence whose keys no cache of the server holds.
std::vector<CaseSpec> FewRowsCases() {
  std::vector<CaseSpec> cases;
  for (const Dtype dtype : {Dtype::kF32, Dtype::kBf16, Dtype::kF16}) {
    for (const int64_t rows : {1, 16, 64}) {
      cases.push_back(Attention(dtype, 1, 16384, 12, false));
      cases.back().last_rows = rows;
    }
  }
  return cases;
}

/// Half precision, in which nothing is multiplied: it becomes f32 when it is packed.
std::vector<CaseSpec> F16Cases() {
  return {Attention(Dtype::kF16, 1, 128, 12, false), Attention(Dtype::kF16, 1, 512, 12, false),
          Attention(Dtype::kF16, 64, 17, 12, false)};
}

/// Few rows of a layer whose weights no cache holds.
std::vector<CaseSpec> LargeLayerCases() {
  std::vector<CaseSpec> cases;
  for (const int64_t rows : {1, 2, 4}) {
    cases.push_back(Layer(Dtype::kBf16, 1, rows, 4096, false));
  }
  return cases;
}

/// Layers with 8-bit weights.
std::vector<CaseSpec> Int8LayerCases() {
  std::vector<CaseSpec> cases = {
      Layer(Dtype::kF32, 1, 1, 768, false),   Layer(Dtype::kF32, 1, 16, 768, false),
      Layer(Dtype::kF32, 1, 128, 768, false), Layer(Dtype::kF32, 1, 512, 768, false),
      Layer(Dtype::kF32, 1, 1, 4096, false),  Layer(Dtype::kF32, 1, 2, 4096, false),
      Layer(Dtype::kF32, 1, 4, 4096, false),  Layer(Dtype::kF32, 1, 6, 4096, false)};
  for (CaseSpec& spec : cases) {
    spec.has_int8_weights = true;
  }
  return cases;
}

/// 512 rows against as many cached tokens, and four tokens of which a draft was made.
std::vector<CaseSpec> CachedPrefillCases() {
  std::vector<CaseSpec> cases;
  for (const KeyValueStorage storage :
       {KeyValueStorage::kF32, KeyValueStorage::kBf16, KeyValueStorage::kInt8}) {
    cases.push_back(Decode(storage, 12, 12, 64));
    cases.back().seq_len = cases.back().rows = 512;
    for (const int64_t seq_len : {128, 16384}) {
      cases.push_back(Decode(storage, 32, 8, 128));
      cases.back().seq_len = seq_len;
      cases.back().rows = 4;
    }
  }
  return cases;
}

/// 16k tokens in the cache: groups of four heads, one key/value head for each query head, fewer
/// key/value heads than most processors have threads, groups of 2, 3, 8 and 16 heads, and kernel
/// regression. Then layers of many sequences with short caches.
std::vector<CaseSpec> DecodeCases() {
  std::vector<CaseSpec> cases;
  for (const KeyValueStorage storage :
       {KeyValueStorage::kF32, KeyValueStorage::kBf16, KeyValueStorage::kInt8}) {
    cases.push_back(Decode(storage, 32, 8, 128));
    cases.push_back(Decode(storage, 12, 12, 64));
    cases.push_back(Decode(storage, 8, 2, 128));
    cases.push_back(Decode(storage, 16, 8, 128));
    cases.push_back(Decode(storage, 24, 8, 128));
    cases.push_back(Decode(storage, 64, 8, 128));
    cases.push_back(Decode(storage, 64, 8, 128));
    cases.back().seq_len = 128;
    cases.push_back(Decode(storage, 32, 2, 128));
    cases.push_back(Decode(storage, 12, 12, 64));
    cases.back().similarity = Similarity::kGaussian;
    cases.back().bandwidth = 64;
  }
  for (const KeyValueStorage storage : {KeyValueStorage::kF32, KeyValueStorage::kBf16}) {
    for (const int64_t batch_size : {1, 64, 1000}) {
      cases.push_back(LayerDecode(storage, batch_size));
    }
  }
  for (const bool is_rotary : {false, true}) {
    cases.push_back(LayerDecode(KeyValueStorage::kF32, 64));
    cases.back().layers = 32;
    cases.back().is_rotary = is_rotary;
  }
  return cases;
}

}  // namespace

std::vector<CaseSpec> AllCases(int max_threads) {
  std::vector<CaseSpec> cases;
  for (const std::vector<CaseSpec>& group :
       {CasesOf(Dtype::kF32), CasesOf(Dtype::kBf16), NarrowCases(Dtype::kF32),
        NarrowCases(Dtype::kBf16), FewRowsCases(), F16Cases(), ManyRowsCases(),
        OtherSimilarityCases(), LargeLayerCases(), Int8LayerCases(), CachedPrefillCases(),
        DecodeCases()}) {
    for (const CaseSpec& spec : group) {
      for (int threads = 1; threads <= max_threads; ++threads) {
        cases.push_back(spec);
        cases.back().threads = threads;
        cases.back().name = CaseName(cases.back());
      }
    }
  }
  return cases;
}

double Flop(const CaseSpec& s) {
  if (s.storage.has_value()) {
    const double attention = 4.0 * s.rows * s.seq_len * s.num_heads * s.head_dim;
    return s.layers * s.batch_size * (attention + 8.0 * s.d_model * s.d_model);
  }
  double flop = 0;
  for (const int64_t length : LengthsOf(s)) {
    const bool is_linear = s.similarity == Similarity::kLinear;
    const double keys = is_linear      ? s.head_dim
                        : s.window > 0 ? s.window + s.prefix
                                       : length * (s.causal ? 0.5 : 1.0);
    const int64_t rows = s.last_rows > 0 ? s.last_rows : length;
    flop += 4.0 * rows * keys * s.num_heads * s.head_dim + 8.0 * rows * s.d_model * s.d_model;
  }
  return flop;
}

double BytesRead(const CaseSpec& s) {
  if (!s.storage.has_value() || s.d_model > 0 || s.rows > 1) {
    return 0;
  }
  const KvCacheShape shape{s.num_kv_heads, s.head_dim, s.head_dim, *s.storage};
  return static_cast<double>(KvCache::SizeBytes(shape, s.seq_len));
}

std::vector<int64_t> LengthsOf(const CaseSpec& spec) {
  return spec.lengths.empty() ? std::vector<int64_t>(spec.batch_size, spec.seq_len) : spec.lengths;
}

int64_t TokensOf(const CaseSpec& spec) {
  const std::vector<int64_t> lengths = LengthsOf(spec);
  return std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
}

double BytesTouched(const CaseSpec& s) {
  const auto element_bytes = static_cast<double>(SizeOf(s.dtype));
  const auto columns = static_cast<double>(2 * (s.num_heads + s.num_kv_heads) * s.head_dim);
  const double weights = static_cast<double>(s.d_model) * columns;
  const auto rows =
      static_cast<double>(s.storage.has_value() ? s.batch_size * s.rows : TokensOf(s));
  double bytes =
      weights * (s.has_int8_weights ? 1 : element_bytes) + rows * columns * element_bytes;
  if (s.storage.has_value()) {
    const KvCacheShape shape{s.num_kv_heads, s.head_dim, s.head_dim, *s.storage};
    bytes += static_cast<double>(s.batch_size * KvCache::SizeBytes(shape, s.seq_len));
  }
  return bytes;
}

std::unique_ptr<Case> MakeCase(const CaseSpec& spec) {
  if (spec.storage.has_value()) {
    return spec.d_model > 0 ? MakeLayerDecodeCase(spec) : MakeDecodeCase(spec);
  }
  return spec.d_model > 0 ? MakeLayerCase(spec) : MakeAttentionCase(spec);
}

}  // namespace attention::bench

// A layer on fake NUMA nodes: wherever threads and memory are, its bits are the same.
#include <sys/mman.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "tests/core/layers/test_layer.h"
#include "tests/support/fake_numa.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::ElementsAre;

const MultiHeadAttentionShape kNumaShape = {128, 128, 4, 2, 32, 32};

class NumaLayerTest : public ::testing::TestWithParam<WeightsDtype> {
 protected:
  /// 65 rows, and then a row, through a cache; all on `num_threads`.
  static std::vector<uint8_t> Answer(const TestLayer& layer, int num_threads) {
    Batch batch(layer, layer.layer->dtype(), {66}, /*causal=*/true);
    KvCache cache = *KvCache::Create(*layer.layer->CacheShape(KeyValueStorage::kF32));
    ThreadPool pool(num_threads);
    Workspace workspace(pool);
    for (const auto& [first, rows] : {std::pair<int64_t, int64_t>{0, 65}, {65, 1}}) {
      LayerSequence step = batch.sequences.front();
      step.query_len = rows;
      step.output = SliceRows(step.output, first, rows);
      step.cache = &cache;
      EXPECT_THAT(layer.layer->Run({.hidden_states = SliceRows(View(batch.input), first, rows),
                                    .sequences = {&step, 1}},
                                   workspace),
                  IsOk());
    }
    const auto* bytes = static_cast<const uint8_t*>(batch.output.data());
    return {bytes, bytes + batch.output.num_elements() * SizeOf(batch.output.dtype())};
  }
};

INSTANTIATE_TEST_SUITE_P(All, NumaLayerTest,
                         ::testing::Values(WeightsDtype::kF32, WeightsDtype::kBf16,
                                           WeightsDtype::kInt8),
                         [](const auto& p) { return std::string(Name(p.param)); });

TEST_P(NumaLayerTest, HasTheSameBitsOnEveryNumberOfNodes) {
  const std::vector<uint8_t> expected = Answer(TestLayer(kNumaShape, GetParam()), 1);
  const size_t one_copy = TestLayer(kNumaShape, GetParam()).layer->size_bytes();
  for (const int nodes : {2, 4}) {
    for (const bool copies : {false, true}) {
      std::vector<NumaNode> fake;
      for (int i = 0; i < nodes; ++i) {
        fake.push_back({.id = i, .cpus = {2 * i, 2 * i + 1}});
      }
      const FakeNuma numa(fake, copies);
      const TestLayer layer(kNumaShape, GetParam());
      EXPECT_GT(layer.layer->size_bytes(), (copies ? nodes - 0.1 : 0.99) * one_copy);
      EXPECT_LE(layer.layer->size_bytes(), (copies ? nodes : 1) * one_copy);
      for (const int threads : {1, 2, 3, 8}) {
        EXPECT_EQ(Answer(layer, threads), expected)
            << nodes << " nodes, copies " << copies << ", threads " << threads;
      }
    }
  }
}

// The other copies cannot be read, so that reading them would end the test.
TEST_P(NumaLayerTest, AThreadReadsTheCopyOfItsNode) {
  const std::vector<uint8_t> expected = Answer(TestLayer(kNumaShape, GetParam()), 1);
  const FakeNuma numa({{.id = 0, .cpus = {0}}, {.id = 1, .cpus = {1}}}, /*copies_weights=*/true);
  const TestLayer layer(kNumaShape, GetParam());
  const std::vector<FakeNuma::Bind> copies = [&] {
    std::vector<FakeNuma::Bind> binds = numa.binds();
    binds.erase(binds.begin());  // the trial
    return binds;
  }();
  ASSERT_EQ(copies.size(), 4) << "two of each product: projection and output";
  for (const int node : {0, 1}) {
    const auto protect = [&](int protection) {
      for (const FakeNuma::Bind& copy : copies) {
        if (copy.node_ids.front() != node) {
          ASSERT_EQ(mprotect(copy.data, copy.size_bytes, protection), 0);
        }
      }
    };
    protect(PROT_NONE);
    std::thread([&] {
      PinToNumaNode(node, 2);
      EXPECT_EQ(Answer(layer, 1), expected) << "node " << node;
    }).join();
    protect(PROT_READ | PROT_WRITE);
  }
}

}  // namespace
}  // namespace attention

#include "core/runtime/slab_arena.h"

#include <cstring>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace attention {
namespace {

constexpr size_t kSlotBytes = size_t{5} << 20;  // three to a slab

std::vector<SlabArena::Slot> TakeMany(SlabArena& arena, int count) {
  std::vector<SlabArena::Slot> slots;
  for (int i = 0; i < count; ++i) {
    slots.push_back(arena.Take());
    std::memset(slots.back().memory, i, kSlotBytes);
  }
  return slots;
}

std::set<SlabArena::Slab*> SlabsOf(const std::vector<SlabArena::Slot>& slots) {
  std::set<SlabArena::Slab*> slabs;
  for (const SlabArena::Slot& slot : slots) {
    slabs.insert(slot.slab);
  }
  return slabs;
}

TEST(SlabArenaTest, SlotsDoNotOverlap) {
  SlabArena arena(kSlotBytes);
  const std::vector<SlabArena::Slot> slots = TakeMany(arena, 7);
  for (int i = 0; i < 7; ++i) {
    EXPECT_EQ(static_cast<int>(slots[i].memory[0]), i);
    EXPECT_EQ(static_cast<int>(slots[i].memory[kSlotBytes - 1]), i);
  }
  EXPECT_EQ(SlabsOf(slots).size(), 3);
}

TEST(SlabArenaTest, SlabsInUseAreFilledFirst) {
  SlabArena arena(kSlotBytes);
  std::vector<SlabArena::Slot> slots = TakeMany(arena, 9);
  arena.GiveBack(slots[0]);  // the first slab has room, the second is unused, the third is full
  for (int i = 3; i < 6; ++i) {
    arena.GiveBack(slots[i]);
  }
  EXPECT_EQ(arena.Take().slab, slots[0].slab);
  EXPECT_EQ(arena.Take().slab, slots[3].slab) << "the unused slab was kept";
}

TEST(SlabArenaTest, OneUnusedSlabIsKept) {
  SlabArena arena(kSlotBytes);
  std::vector<SlabArena::Slot> slots = TakeMany(arena, 9);
  EXPECT_EQ(arena.mapped_bytes(), 3 * SlabArena::kSlabBytes);
  for (const SlabArena::Slot& slot : slots) {
    arena.GiveBack(slot);
  }
  EXPECT_EQ(arena.mapped_bytes(), SlabArena::kSlabBytes) << "the other two are given back";
  // Whatever is taken now comes from the slab that is left, and then from a new one.
  slots = TakeMany(arena, 4);
  EXPECT_EQ(SlabsOf({slots.begin(), slots.begin() + 3}).size(), 1);
  EXPECT_EQ(SlabsOf(slots).size(), 2);
}

TEST(SlabArenaTest, ALargeSlotHasASlabOfItsOwn) {
  SlabArena arena(size_t{40} << 20);
  const SlabArena::Slot first = arena.Take();
  const SlabArena::Slot second = arena.Take();
  EXPECT_NE(first.slab, second.slab);
  arena.GiveBack(first);
  arena.GiveBack(second);
  EXPECT_EQ(arena.Take().slab, first.slab) << "the first is kept, the second is given back";
}

}  // namespace
}  // namespace attention

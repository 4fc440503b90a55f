// How the bench's cases would scale to more threads than this machine has.
#pragma once

#include <regex>
#include <vector>

namespace attention::bench {

/// Prints for each case that `filter` matches, and each number of threads, the simulated time, the
/// efficiency, and what the threads did instead of working; for two threads also the measured time,
/// where the machine has them. `seconds`: for each simulation.
void PrintSchedules(const std::regex& filter, const std::vector<int>& threads, double seconds);

}  // namespace attention::bench

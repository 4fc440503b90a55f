// How the bench's cases would scale to more threads than this machine has.
#pragma once

#include <regex>
#include <vector>

namespace attention::bench {

/// Prints for each case that `filter` matches, and each number of threads, the simulated time, the
/// efficiency, and what the threads did instead of working. For as many threads as the machine has,
/// it also prints the simulated time when threads share the bandwidth of memory, as plain reads of
/// the case's bytes by one and by all of them show, and the measured time. `seconds`: for each
/// simulation.
void PrintSchedules(const std::regex& filter, const std::vector<int>& threads, double seconds);

}  // namespace attention::bench

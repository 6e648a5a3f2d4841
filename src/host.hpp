// What Linux tells of the processors that this process runs on.
#pragma once

#include <string>
#include <vector>

namespace mla_bench {

// The CPUs that this process may run on; empty where the system does not say.
std::vector<int> allowed_cpus();

// "performance", "powersave", ...; empty where the system does not say (most virtual machines).
std::string frequency_governor();

}  // namespace mla_bench

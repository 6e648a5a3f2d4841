// Whether a time can be believed: from the evidence beside it, all of it recorded, none of it
// measured here. A pure function, so every rule is tested without a GPU.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "result.hpp"

namespace mla_bench {

// Why the result's time cannot be trusted, a line each; none where it can. Looks at
//   the proof that a cold run was cold,
//   the referee: period - duration against the same gap of the empty kernel, and whether every
//   kernel of a launch is in the graph that is timed,
//   the environment: throttling, clocks that fell inside a round or between rounds, other
//   processes,
//   the roofline: nothing is faster than light.
std::vector<std::string> doubts(const Result& result);

// Those of them that a process with --times-only does not look for: the cold proof's and the
// referee's.
std::vector<std::string> doubts_beside_times(const Result& result);

// Why nobody looked for kernels that a timed launch runs outside its graph; nothing where somebody
// did, or where there is no graph (a CPU) or no time.
std::optional<std::string> why_not_searched(const Result& result);

// Whether nobody could tell of throttling and other processes around any round of a GPU's time.
bool is_unwatched(const Result& result);

}  // namespace mla_bench

// Whether a time can be believed: from the evidence beside it, all of it recorded, none of it
// measured here. A pure function, so every rule is tested without a GPU.
#pragma once

#include <string>
#include <vector>

#include "result.hpp"

namespace mla_bench {

// Why the result's time cannot be trusted, a line each; none where it can. Looks at
//   the proof that a cold run was cold,
//   the referee: period - duration against the same gap of the empty kernel,
//   the environment: throttling, clocks that fell inside a round or between rounds, other
//   processes, the roofline: nothing is faster than light.
std::vector<std::string> doubts(const Result& result);

}  // namespace mla_bench

// What the JSON reports of gate and selftest have in common; in gate_report.cpp.
#pragma once

#include "gate.hpp"
#include "json_access.hpp"

namespace mla_bench {

Json to_json(const JudgedCell& cell);

// A list of lines about no cell alone.
Json notes_of(const GateResult& result);

}  // namespace mla_bench

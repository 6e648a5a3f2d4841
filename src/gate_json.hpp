// A judged cell as the JSON reports of gate and selftest hold it; in gate_report.cpp.
#pragma once

#include "gate.hpp"
#include "json_access.hpp"

namespace mla_bench {

Json to_json(const JudgedCell& cell);

}  // namespace mla_bench

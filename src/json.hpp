// Values to JSON and back, one spelling for documents and for the messages between processes. Keys
// carry their units, numbers are numbers, and nothing is non-finite.
#pragma once

#include "calibration.hpp"
#include "environment.hpp"
#include "executor.hpp"
#include "json_access.hpp"
#include "result.hpp"

namespace mla_bench {

Json to_json(const Problem& problem);
Json to_json(const InputSource& inputs);
Json to_json(const Cell& cell);
Json to_json(const Check& check);
Json to_json(const KernelFacts& kernel);
Json to_json(const Anchors& anchors);
Json to_json(const Round& round);
Json to_json(const Result& result);
Json to_json(const Referee& referee);
Json to_json(const Device& device);
Json to_json(const GpuState& state);
Json to_json(const GpuSetup& setup);
Json to_json(const Calibration& calibration);

// Each throws UsageError that names the key where one is missing, of the wrong type or not finite.
Cell cell_from_json(const Json& json);
Anchors anchors_from_json(const Json& json);
Round round_from_json(const Json& json);
Result result_from_json(const Json& json);
Referee referee_from_json(const Json& json);
GpuState state_from_json(const Json& json);
Device device_from_json(const Json& json);
GpuSetup setup_from_json(const Json& json);
Calibration calibration_from_json(const Json& json);

}  // namespace mla_bench

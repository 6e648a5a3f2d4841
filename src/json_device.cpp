// Devices, how they are set up and what they can do: their part of json.hpp.
#include "json.hpp"

namespace mla_bench {
namespace {

Json to_json(const ThrottleReasons& reasons) {
  return {{"software_power_cap", reasons.software_power_cap},
          {"hardware_slowdown", reasons.hardware_slowdown},
          {"software_thermal", reasons.software_thermal},
          {"hardware_thermal", reasons.hardware_thermal},
          {"power_brake", reasons.power_brake}};
}

}  // namespace

Json to_json(const GpuState& state) {
  Json json = Json::object();
  put(json, "sm_clock_mhz", state.sm_clock_mhz);
  put(json, "memory_clock_mhz", state.memory_clock_mhz);
  put(json, "power_w", state.power_w);
  put(json, "temperature_c", state.temperature_c);
  json["throttle"] = to_json(state.throttle);
  put(json, "other_processes", state.other_processes);
  return json;
}

GpuState state_from_json(const Json& json) {
  const Json& throttle = member(json, "throttle");
  return {.sm_clock_mhz = get_optional<int>(json, "sm_clock_mhz"),
          .memory_clock_mhz = get_optional<int>(json, "memory_clock_mhz"),
          .power_w = get_optional<double>(json, "power_w"),
          .temperature_c = get_optional<int>(json, "temperature_c"),
          .throttle = {.software_power_cap = get<bool>(throttle, "software_power_cap"),
                       .hardware_slowdown = get<bool>(throttle, "hardware_slowdown"),
                       .software_thermal = get<bool>(throttle, "software_thermal"),
                       .hardware_thermal = get<bool>(throttle, "hardware_thermal"),
                       .power_brake = get<bool>(throttle, "power_brake")},
          .other_processes = get_optional<int>(json, "other_processes")};
}

Json to_json(const Device& device) {
  return {{"backend", name_of(device.backend)},
          {"ordinal", device.ordinal},
          {"name", device.name},
          {"uuid", device.uuid},
          {"sm", device.sm},
          {"multiprocessors", device.multiprocessors},
          {"clock_mhz", device.clock_mhz},
          {"threads", device.threads},
          {"shared_memory_per_block_bytes", device.shared_memory_per_block},
          {"shared_memory_per_sm_bytes", device.shared_memory_per_sm},
          {"last_level_cache_bytes", device.last_level_cache},
          {"memory_bytes", device.memory},
          {"free_memory_bytes", device.free_memory}};
}

Json to_json(const GpuSetup& setup) {
  Json json{{"driver", setup.driver}};
  put(json, "max_sm_clock_mhz", setup.max_sm_clock_mhz);
  put(json, "max_memory_clock_mhz", setup.max_memory_clock_mhz);
  put(json, "power_limit_w", setup.power_limit_w);
  put(json, "ecc", setup.ecc);
  put(json, "mig", setup.mig);
  put(json, "persistence", setup.persistence);
  return json;
}

Json to_json(const Calibration& calibration) {
  Json json{{"measured_at", calibration.measured_at},
            {"tick_ns", calibration.tick_ns},
            {"empty_launch_ns", calibration.empty_launch_ns},
            {"replay_intercept_ns", calibration.replay_intercept_ns},
            {"enqueue_ns", calibration.enqueue_ns},
            {"launch_and_wait_ns", calibration.launch_and_wait_ns},
            {"memory_bytes_per_s", calibration.memory_bytes_per_s},
            {"cache_bytes_per_s", calibration.cache_bytes_per_s}};
  put(json, "fma_flop_per_s", calibration.fma_flop_per_s);
  put(json, "tf32_flop_per_s", calibration.tf32_flop_per_s);
  put(json, "bf16_flop_per_s", calibration.bf16_flop_per_s);
  put(json, "fp16_flop_per_s", calibration.fp16_flop_per_s);
  return json;
}

Device device_from_json(const Json& json) {
  return {.backend = get_named<Backend>(json, "backend", kBackends),
          .ordinal = get<int>(json, "ordinal"),
          .name = get<std::string>(json, "name"),
          .uuid = get<std::string>(json, "uuid"),
          .sm = get<int>(json, "sm"),
          .multiprocessors = get<int>(json, "multiprocessors"),
          .clock_mhz = get<int>(json, "clock_mhz"),
          .threads = get<int>(json, "threads"),
          .shared_memory_per_block = get<std::int64_t>(json, "shared_memory_per_block_bytes"),
          .shared_memory_per_sm = get<std::int64_t>(json, "shared_memory_per_sm_bytes"),
          .last_level_cache = get<std::int64_t>(json, "last_level_cache_bytes"),
          .memory = get<std::int64_t>(json, "memory_bytes"),
          .free_memory = get<std::int64_t>(json, "free_memory_bytes")};
}

GpuSetup setup_from_json(const Json& json) {
  return {.driver = get<std::string>(json, "driver"),
          .max_sm_clock_mhz = get_optional<int>(json, "max_sm_clock_mhz"),
          .max_memory_clock_mhz = get_optional<int>(json, "max_memory_clock_mhz"),
          .power_limit_w = get_optional<double>(json, "power_limit_w"),
          .ecc = get_optional<bool>(json, "ecc"),
          .mig = get_optional<bool>(json, "mig"),
          .persistence = get_optional<bool>(json, "persistence")};
}

Calibration calibration_from_json(const Json& json) {
  return {.measured_at = get<std::string>(json, "measured_at"),
          .tick_ns = get<double>(json, "tick_ns"),
          .empty_launch_ns = get<double>(json, "empty_launch_ns"),
          .replay_intercept_ns = get<double>(json, "replay_intercept_ns"),
          .enqueue_ns = get<double>(json, "enqueue_ns"),
          .launch_and_wait_ns = get<double>(json, "launch_and_wait_ns"),
          .memory_bytes_per_s = get<double>(json, "memory_bytes_per_s"),
          .cache_bytes_per_s = get<double>(json, "cache_bytes_per_s"),
          .fma_flop_per_s = get_optional<double>(json, "fma_flop_per_s"),
          .tf32_flop_per_s = get_optional<double>(json, "tf32_flop_per_s"),
          .bf16_flop_per_s = get_optional<double>(json, "bf16_flop_per_s"),
          .fp16_flop_per_s = get_optional<double>(json, "fp16_flop_per_s")};
}

}  // namespace mla_bench

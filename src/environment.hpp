// What surrounds a measurement on a GPU, as the driver's management library tells it: clocks, the
// reasons that hold them down, power, temperature, and who else is there.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mla_bench {

// How the GPU is set up; does not change during a run. A fact that the library does not tell is
// unset.
struct GpuSetup {
  std::string driver;  // "580.159.04"
  std::optional<int> max_sm_clock_mhz;
  std::optional<int> max_memory_clock_mhz;
  std::optional<double> power_limit_w;
  std::optional<bool> ecc;
  std::optional<bool> mig;
  std::optional<bool> persistence;
};

// Why clocks are held below what was asked (NVML's clocks event reasons).
struct ThrottleReasons {
  bool software_power_cap = false;
  bool hardware_slowdown = false;
  bool software_thermal = false;
  bool hardware_thermal = false;
  bool power_brake = false;

  // The GPU protects itself. The power cap alone is not counted: large products run into it on
  // every card, and where it lowers the clock the samples show it.
  bool protects() const;
  // "thermal slowdown by hardware, power brake"; empty where there is none.
  std::string in_words() const;

  friend bool operator==(const ThrottleReasons&, const ThrottleReasons&) = default;
};

// At one moment.
struct GpuState {
  std::optional<int> sm_clock_mhz;
  std::optional<int> memory_clock_mhz;
  std::optional<double> power_w;
  std::optional<int> temperature_c;
  ThrottleReasons throttle;
  // Processes with a context on the GPU other than ours; unset where it cannot be told.
  std::optional<int> other_processes;
};

// Where such facts come from. Two implementations: NVML, and a script of states in tests.
class Environment {
 public:
  virtual ~Environment() = default;
  // Nothing where the source does not know the GPU.
  virtual std::optional<GpuSetup> setup(const std::string& uuid) = 0;
  virtual std::optional<GpuState> state(const std::string& uuid) = 0;
};

// NVML, loaded at run time; null where it is not there or does not start.
std::unique_ptr<Environment> load_nvml();

}  // namespace mla_bench

// How far two processes of one program lie apart on a device, as selftest found it: kept by UUID
// beside the device's ceilings, for the gate.
#pragma once

#include <map>
#include <span>
#include <string>

namespace mla_bench {

// Of one cell: the standard deviation of the logarithm of two processes' ratio.
struct CellNoise {
  std::string cell;    // its export name
  std::string device;  // uuid
  double deviation = 0;
};

// Adds to what is kept of the cells' devices; newer noise takes the place of older. False where
// there is no folder to write to.
bool keep_noise(std::span<const CellNoise> noise, const std::string& now);

// The deviations of all devices by the cells' export names, which hold the UUID; of the last 30
// days at `now` (ISO 8601, UTC).
std::map<std::string, double> kept_noise(const std::string& now);

}  // namespace mla_bench

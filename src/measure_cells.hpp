// The heart of a run: every cell of a plan opened, measured in turns, checked again and witnessed
// in worker processes, until all are known well enough.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "document.hpp"
#include "options.hpp"
#include "plan.hpp"
#include "worker_process.hpp"

namespace mla_bench {

// Whom to tell how it goes.
struct Observer {
  std::function<void(const std::string&)> progress;  // one line, about to be replaced
  std::function<void()> cells_done;                  // results of a group, judged for good
};

// The results before anything was measured: skipped cells with their reason, and the others as
// failed.
std::vector<Result> unmeasured(const Plan& plan);

// Measures the cells that are not skipped, those of several GPUs at the same time where the plan
// has them so: a worker process for each, their rounds started together. `results` are in plan
// order and are filled in place, so that whoever is told of progress can write them. `devices` are
// those of the document. Returns the signal that ended the run early, or 0.
int measure_cells(const Plan& plan, const RunOptions& options,
                  const std::vector<DocumentDevice>& devices, WorkerProcess& worker,
                  const Observer& observer, std::vector<Result>& results);

// Launches each cell that is not skipped once for an outside profiler.
int profile_cells(const Plan& plan, WorkerProcess& worker, std::vector<Result>& results);

}  // namespace mla_bench

// Stands in for kernel_recorder_cupti.cpp where the toolkit has no CUPTI header.
#include "kernel_recorder.hpp"

namespace mla_bench {

LoadedRecorder load_kernel_recorder() {
  return {.recorder = nullptr, .missing = "this build has no CUPTI"};
}

}  // namespace mla_bench

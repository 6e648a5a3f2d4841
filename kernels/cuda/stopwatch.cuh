// Times launches against each other while a variant is made ready, to choose among them. What the
// tool reports is measured elsewhere, with more care.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "mla_bench/cuda_check.hpp"
#include "mla_bench/cuda_stream.hpp"
#include "mla_bench/variant.hpp"

namespace mla_bench::cuda {

class Stopwatch {
 public:
  Stopwatch() {
    for (OwnedEvent* event : {&begin_, &end_}) {
      cudaEvent_t created = nullptr;
      MLA_BENCH_CHECK(cudaEventCreate(&created));
      event->reset(created);
    }
  }

  cudaStream_t stream() const { return stream_; }

  // Period of `launch` in a graph of many, in ns: the least of a few replays, since a disturbance
  // only adds. A replay's fixed cost is in it, the same for every launch of about that length.
  // One whose first run takes far more than `best_ns` is not timed any further: the result is then
  // that run's time.
  double period_ns(const Launch& launch, double best_ns) const {
    launch(stream());  // loads its kernels
    const double once = elapsed_ns([&] { launch(stream()); });
    if (once > kFarMore * best_ns + kHostNs) {
      return once;
    }
    const int launches = static_cast<int>(std::clamp(kReplayNs / once, 1.0, kMostLaunches));
    const OwnedGraphExec graph = graph_of(launch, launches);
    const auto replay = [&] { MLA_BENCH_CHECK(cudaGraphLaunch(graph.get(), stream())); };
    replay();
    // Of long launches fewer: a disturbance is a smaller part of them.
    const int replays =
        static_cast<int>(std::clamp(kTotalNs / (launches * once), 1.0, kMostReplays));
    double least = std::numeric_limits<double>::infinity();
    for (int i = 0; i < replays; ++i) {
      least = std::min(least, elapsed_ns(replay) / launches);
    }
    return least;
  }

 private:
  // For clean-up, where a failure must only not be blamed on the next call.
  static void ignore(cudaError_t code) noexcept {
    if (code != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
    }
  }

  struct Destroyer {
    void operator()(cudaEvent_t event) const noexcept { ignore(cudaEventDestroy(event)); }
    void operator()(cudaGraph_t graph) const noexcept { ignore(cudaGraphDestroy(graph)); }
    void operator()(cudaGraphExec_t graph) const noexcept { ignore(cudaGraphExecDestroy(graph)); }
  };
  using OwnedEvent = std::unique_ptr<CUevent_st, Destroyer>;
  using OwnedGraph = std::unique_ptr<CUgraph_st, Destroyer>;
  using OwnedGraphExec = std::unique_ptr<CUgraphExec_st, Destroyer>;

  // Long enough that a replay's fixed cost and the tick of the events are a few percent of it.
  static constexpr double kReplayNs = 100e3;
  static constexpr double kMostLaunches = 32;
  static constexpr double kTotalNs = 500e3;
  static constexpr double kMostReplays = 5;
  // A first run is timed from the host, launch by launch: only a wide margin rules one out.
  static constexpr double kFarMore = 2;
  static constexpr double kHostNs = 50e3;

  template <typename Work>
  double elapsed_ns(const Work& work) const {
    MLA_BENCH_CHECK(cudaEventRecord(begin_.get(), stream()));
    work();
    MLA_BENCH_CHECK(cudaEventRecord(end_.get(), stream()));
    MLA_BENCH_CHECK(cudaEventSynchronize(end_.get()));
    float milliseconds = 0;
    MLA_BENCH_CHECK(cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get()));
    constexpr double kNsPerMs = 1e6;
    return static_cast<double>(milliseconds) * kNsPerMs;
  }

  OwnedGraphExec graph_of(const Launch& launch, int launches) const {
    MLA_BENCH_CHECK(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeThreadLocal));
    cudaGraph_t captured = nullptr;
    try {
      for (int i = 0; i < launches; ++i) {
        launch(stream());
      }
    } catch (...) {
      ignore(cudaStreamEndCapture(stream(), &captured));
      const OwnedGraph dropped(captured);
      throw;
    }
    MLA_BENCH_CHECK(cudaStreamEndCapture(stream(), &captured));
    const OwnedGraph graph(captured);
    cudaGraphExec_t executable = nullptr;
    MLA_BENCH_CHECK(cudaGraphInstantiate(&executable, graph.get(), 0));
    return OwnedGraphExec(executable);
  }

  cudaStream_t stream_ = process_stream();
  OwnedEvent begin_;
  OwnedEvent end_;
};

}  // namespace mla_bench::cuda

#include "worker.hpp"

#include <unistd.h>

#include <csignal>
#include <exception>
#include <string>

#include "channel.hpp"
#include "errors.hpp"
#include "json.hpp"
#include "session.hpp"

namespace mla_bench {
namespace {

Json devices_reply(const DeviceList& devices) {
  Json list = Json::array();
  for (const Device& device : devices.devices) {
    list.push_back(to_json(device));
  }
  return {{"devices", list},
          {"no_cuda", devices.no_cuda},
          {"cuda_runtime", devices.cuda_runtime},
          {"cuda_driver", devices.cuda_driver},
          {"cuda_architectures", devices.cuda_architectures}};
}

Json answer(Session& session, const DeviceList& devices, const Json& request) {
  const std::string what = request.at("do");
  if (what == "devices") {
    return devices_reply(devices);
  }
  if (what == "open") {
    std::optional<std::string> save;
    if (request.contains("save")) {
      save = request.at("save").get<std::string>();
    }
    const Effort usual;
    const Effort effort{
        .warmup_s = get<double>(request, "warmup_s"),
        .samples = get_optional<int>(request, "samples").value_or(usual.samples),
        .times_only = get_optional<bool>(request, "times_only").value_or(usual.times_only),
        .measure_plants =
            get_optional<bool>(request, "measure_plants").value_or(usual.measure_plants)};
    return to_json(session.open(cell_from_json(request.at("cell")), effort, save));
  }
  if (what == "measure") {
    return to_json(session.measure(request.at("id")));
  }
  if (what == "close") {
    return to_json(session.close(request.at("id")));
  }
  if (what == "anchors") {
    const std::optional<Anchors> anchors = session.anchors();
    return anchors ? to_json(*anchors) : Json(nullptr);
  }
  if (what == "witness") {
    return to_json(session.witness(request.at("id")));
  }
  if (what == "profile") {
    return to_json(session.profile(cell_from_json(request.at("cell"))));
  }
  if (what == "setup") {
    const std::optional<GpuSetup> setup = session.setup(device_from_json(request.at("device")));
    return setup ? to_json(*setup) : Json(nullptr);
  }
  if (what == "calibrate") {
    return to_json(session.calibrate(device_from_json(request.at("device"))));
  }
  throw std::invalid_argument("unknown request '" + what + "'");
}

}  // namespace

int serve(int channel_descriptor) {
  // The caller decides when a run ends; a Ctrl-C on the terminal reaches this process too.
  signal(SIGINT, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
  // What a library prints must not land in a document on stdout.
  dup2(STDERR_FILENO, STDOUT_FILENO);

  Channel channel(channel_descriptor);
  const DeviceList devices = find_devices();
  Session session(devices, load_nvml());
  while (true) {
    const Channel::Received request = channel.receive(std::nullopt);
    if (request.outcome != Channel::Outcome::kLine) {
      return 0;
    }
    Json reply;
    bool broken = false;
    try {
      reply["ok"] = answer(session, devices, parse_json(request.line, "a request"));
    } catch (const UsageError& error) {
      reply = {{"error", error.what()}, {"kind", "usage"}};
    } catch (const std::exception& error) {
      reply = {{"error", error.what()}, {"kind", "failed"}};
      broken = true;
    }
    if (!channel.send(reply.dump(-1, ' ', false, Json::error_handler_t::replace)) || broken) {
      // After a device error destructors of CUDA objects may hang or abort: leave without them.
      _exit(0);
    }
  }
}

}  // namespace mla_bench

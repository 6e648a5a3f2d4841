// From the command line to an exit code. The only place that turns errors into messages.
#include <csignal>
#include <exception>
#include <span>
#include <variant>

#include "commands.hpp"
#include "console.hpp"
#include "errors.hpp"
#include "interrupt.hpp"
#include "options.hpp"
#include "worker.hpp"
#include "worker_process.hpp"

namespace {

using namespace mla_bench;

template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
// clang before 17 does not deduce this by itself.
template <typename... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

int dispatch(std::span<const char* const> argv) {
  return std::visit(
      Overloaded{[&](const RunOptions& options) {
                   note_interrupts();
                   return run_command(options, argv);
                 },
                 [](const CompareOptions& options) { return compare_command(options); },
                 [](const ExportOptions& options) { return export_command(options); },
                 [&](const GateOptions& options) {
                   note_interrupts();
                   return gate_command(options, argv);
                 },
                 [](const SelftestOptions& options) {
                   note_interrupts();
                   return selftest_command(options);
                 },
                 [](const ListOptions& options) { return list_command(options); },
                 [](const HelpOptions& options) {
                   print_result(options.text);
                   return static_cast<int>(ExitCode::kFine);
                 },
                 [](const WorkerOptions& options) { return serve(options.channel); }},
      parse_options(argv));
}

int fail(const std::exception& error, ExitCode code) {
  print_note(error.what());
  return static_cast<int>(code);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    open_standard_streams();
    signal(SIGXFSZ, SIG_IGN);  // a write beyond `ulimit -f` fails, as on a full disk
    return dispatch({argv, static_cast<std::size_t>(argc)});
  } catch (const Interrupted&) {  // before there was anything to write down
    return kSignalBase + interrupted();
  } catch (const NoDeviceError& error) {
    return fail(error, ExitCode::kNothingRan);
  } catch (const UsageError& error) {
    return fail(error, ExitCode::kUsage);
  } catch (const std::exception& error) {
    return fail(error, ExitCode::kIncorrect);
  }
}

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <new>
#include <optional>

#include "apps/common/app.hpp"
#include "apps/common/before_main.hpp"
#include "apps/common/outcomes.hpp"
#include "apps/common/subcommand.hpp"
#include "backends/registry.hpp"
#include "comm/communicators.hpp"
#include "engine/base/atomic_file.hpp"
#include "engine/base/environment.hpp"
#include "engine/base/file_error.hpp"
#include "engine/base/printable.hpp"
#include "engine/base/ranks.hpp"

namespace keelson::app {
namespace {

#ifndef __SANITIZE_ADDRESS__  // the address sanitizer is not ready so early
[[gnu::section(".preinit_array"), gnu::used]] void (*const first_of_all)(int, char**, char**) = before_main;
#endif

using comm::Outcome;

/// Runs `work` and returns how it ended.
template <class Work>
Outcome attempt(Work&& work) {
  try {
    return {static_cast<int>(work()), ""};
  } catch (const InputError& error) {
    return {static_cast<int>(ExitCode::bad_input), error.what()};
  } catch (const OutOfMemory& error) {  // found before the work begins: a smaller batch may fit
    return {static_cast<int>(ExitCode::bad_input), error.what()};
  } catch (const std::filesystem::filesystem_error& error) {
    return {static_cast<int>(exit_code_of(error)), describe(error)};
  } catch (const std::bad_alloc&) {
    return {static_cast<int>(ExitCode::failure), out_of_memory()};
  } catch (const std::exception& error) {
    return {static_cast<int>(ExitCode::failure), error.what()};
  } catch (...) {
    return {static_cast<int>(ExitCode::failure), "an exception of unknown type"};
  }
}

/// Output that was printed may still not reach a file on a full disk.
void require_output() {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;
  if (!flushed || std::ferror(stdout) != 0)
    fail("cannot write the output: {}", errno != 0 ? std::strerror(errno) : "an earlier write failed");
}

void say(std::FILE* stream, const std::string& text) {
  std::fputs(text.c_str(), stream);
  std::fflush(stream);
}

/// Ranks may be started with different command lines (`mpirun a : b`), or each in a folder with a --config of its own.
void compare_command_lines(const CommandLine::Request& request, Communicator& world, const AppInfo& info) {
  compare_values(world, {{"the program", info.name + " " KEELSON_VERSION}, {"the subcommand", request.subcommand}},
                 "programs");
  compare_values(world, dashed(request.options->common_values()), "options");
}

/// Refuses an output file that is an input of the same command, or a file that outputs never replace, before the work
/// begins.
void protect_inputs(const CommandLine::Request& request, Communicator& world) {
  for (const auto& file : request.options->inputs()) protect_input(file);
  on_first_rank(&world, [&] {
    for (const auto& [option, file] : request.options->outputs()) try {
        if (!file.empty()) const AtomicFile probe(file, Target::output);  // makes no file
      } catch (const InputError& error) {
        refuse("{} {}", option, error.what());
      }
  });
}

/// Compares the variables that change results, or that change how ranks exchange values. Launchers do not pass all
/// variables on to all nodes.
void compare_environments(Communicator& world) {
  std::map<std::string, std::string> values;
  for (const char* name : {"KEELSON_ALLREDUCE", "KEELSON_BACKEND", "KEELSON_COLLECTIVES", "KEELSON_NODE_RANKS",
                           "KEELSON_TUNE", "NCCL_ALGO", "NCCL_PROTO", "NVIDIA_TF32_OVERRIDE"})
    values[name] = printable(environment(name));
  compare_values(world, values, "environment variables",
                 "set them alike on all ranks; mpirun passes them on with -x NAME, srun by itself");
}

/// The part that needs all ranks: from the placement to the end of the subcommand.
ExitCode run_subcommand(CommandLine::Request& request, Communicator& world, const AppInfo& info,
                        const std::vector<std::string>& arguments) {
  compare_command_lines(request, world, info);
  compare_environments(world);
  protect_inputs(request, world);
  const auto placement = comm::decide_placement(comm::placement_facts(world));
  comm::bind(placement);
  const backends::Runtime runtime(placement.threads, world.local_rank());
  const bool gpu = backends::devices().front() == "cuda" && backends::device_available();
  const std::string machine = comm::describe(placement, world, gpu ? comm::Computes::on_gpu : comm::Computes::on_cores);
  if (world.rank() == 0) say(stderr, fmt::format("{} {}: {}\n", info.name, KEELSON_VERSION, machine));
  Launch launch{world, placement, info.name, arguments, machine, gpu};
  return request.run(launch);
}

}  // namespace

int run_app(int argc, char** argv, const AppInfo& info, const std::function<void(CommandLine&)>& define) {
  before_main(argc, argv, environ);
  std::signal(SIGXFSZ, SIG_IGN);  // a limit of file sizes then is an error like a full disk
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  // Objects that communicate with other ranks are destroyed only after all ranks have ended.
  std::optional<comm::MpiSession> mpi;
  std::unique_ptr<Communicator> world;
  std::vector<std::string> hosts;  // hosts and rank numbers are those at the beginning of the job
  int my_rank = 0;
  Outcome start = attempt([&] {
    const double grace = seconds_from_environment("KEELSON_GRACE", 2);
    mpi.emplace(grace);
    world = comm::make_world();
    hosts = world->allgather(world->host());
    my_rank = world->rank();
    return ExitCode::done;
  });
  if (start.exit_code != 0) {
    say(stderr, fmt::format("{}: error: {}\n", info.name, start.message));
    if (mpi) mpi->abort(start.exit_code);
    return start.exit_code;
  }

  CommandLine command_line(info);
  CommandLine::Request request;
  Outcome mine = attempt([&] {
    define(command_line);
    request = command_line.parse(arguments);
    auto code = ExitCode::done;
    if (request.run)
      code = run_subcommand(request, *world, info, arguments);
    else if (world->rank() == 0)
      say(stdout, request.text);
    if (code == ExitCode::done) require_output();  // another code says more: 75 means that the run can be continued
    return code;
  });

  const auto outcomes = mpi->conclude(mine);
  if (!outcomes) {  // the other ranks are at work and wait for this rank
    say(stderr, describe_outcomes(info.name, {{my_rank, world->host(), mine}}, static_cast<int>(hosts.size())).text);
    mpi->abort(mine.exit_code);
  }
  std::vector<RankOutcome> all;
  for (const Outcome& o : *outcomes) all.push_back({o.rank, hosts[static_cast<std::size_t>(o.rank)], o});
  const Summary summary = describe_outcomes(info.name, all, static_cast<int>(all.size()));
  if (my_rank == outcomes->front().rank) say(stderr, summary.text);
  world.reset();
  return summary.exit_code;
}

}  // namespace keelson::app

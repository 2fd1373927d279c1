#include "tests/mpi/small_app.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <iostream>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

#include "apps/common/app.hpp"
#include "apps/common/restart.hpp"
#include "apps/common/spares.hpp"
#include "apps/common/subcommand.hpp"
#include "engine/base/interrupt.hpp"

namespace keelson::testing {
namespace {

using app::Launch;

void sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

/// Throws on one rank, or on all of them (-1), while the others wait for each other.
void define_fail(app::CommandLine& line) {
  struct Options {
    int rank = -1;
    std::string kind = "input";
    bool differently = false;
  };
  auto o = std::make_shared<Options>();
  app::Subcommand& subcommand = line.subcommand("fail", "Throws", [o](Launch& launch) {
    Communicator& world = launch.world;
    if (o->rank < 0 || o->rank == world.rank()) {
      const std::string own = o->differently ? fmt::format(" of rank {}", world.rank()) : "";
      std::vector<double> sent(
          100);  // made on this rank alone; gone when the exception passes, though its sum is under way
      const auto sum = world.make_allreduce(sent.data(), sent.size(), "a sum");
      if (o->kind == "active") sum->start();
      if (o->kind == "input" || o->kind == "active") refuse("bad input{}", own);
      if (o->kind == "error") fail("broken disk{}", own);
      if (o->kind == "memory") throw std::bad_alloc();
      throw std::logic_error("a bug" + own);
    }
    world.barrier();
    return ExitCode::done;
  });
  subcommand.option("--rank", o->rank, "The rank that throws; -1: all");
  subcommand.option("--kind", o->kind, "What it throws").one_of({"input", "active", "error", "memory", "logic"});
  subcommand.flag("--differently", o->differently, "Name the rank in the message");
}

void define_late(app::CommandLine& line) {
  struct Options {
    std::vector<int> ranks{0};
    double seconds = 0;
  };
  auto o = std::make_shared<Options>();
  app::Subcommand& subcommand =
      line.subcommand("late", "Sleeps on some ranks while the others wait", [o](Launch& launch) {
        std::vector<double> data(10, 1.0);
        const auto sum = launch.world.make_allreduce(data.data(), data.size(), "gradient bucket 7");
        if (std::find(o->ranks.begin(), o->ranks.end(), launch.world.rank()) != o->ranks.end()) sleep(o->seconds);
        sum->start();
        sum->wait();
        return data[0] == launch.world.size() ? ExitCode::done : ExitCode::failure;
      });
  subcommand.option("--ranks", o->ranks, "The late ranks");
  subcommand.option("--seconds", o->seconds, "How late it is", "SECONDS");
}

void define_loop(app::CommandLine& line) {
  struct Options {
    std::string ready;
    double stay = 0;
  };
  auto o = std::make_shared<Options>();
  app::Subcommand& subcommand = line.subcommand("loop", "Runs until a signal comes", [o](Launch& launch) {
    Interrupt::install();
    std::int64_t signal = 0;
    launch.world.barrier();
    if (launch.world.rank() == 0) std::ofstream(o->ready) << "ready\n";
    for (int i = 0; i < 2000 && signal == 0; ++i) {
      sleep(0.01);
      signal = Interrupt::signal_number();
      launch.world.allreduce(&signal, 1, Reduction::max);
    }
    if (launch.world.rank() == 0)
      std::cout << Interrupt::signal_name(static_cast<int>(signal)) << std::endl;
    else
      sleep(o->stay);
    return signal != 0 ? ExitCode::interrupted : ExitCode::failure;
  });
  subcommand.option_without_default("--ready", o->ready, "Written when the signals are taken over", "FILE").required();
  subcommand.option("--stay", o->stay, "How long all ranks but rank 0 sleep after the signal", "SECONDS");
}

/// Rank 0 takes the lock of a folder and dies when all ranks have done their work.
void define_lock(app::CommandLine& line) {
  auto folder = std::make_shared<std::string>();
  app::Subcommand& subcommand =
      line.subcommand("lock", "Loses the rank that holds a folder's lock", [folder](Launch& launch) {
        return app::with_spares(launch, 1, [folder](Launch& trainer) {
          Communicator& ranks = trainer.world;
          if (ranks.rank() == 0) trainer.restart->take_lock({*folder});
          trainer.restart->begun(ranks);
          ranks.barrier();
          if (ranks.rank() == 0) std::raise(SIGKILL);
          return ExitCode::done;
        });
      });
  subcommand.option_without_default("--folder", *folder, "The folder", "DIR").required();
}

/// Prints what it was given and where it runs.
void define_show(app::CommandLine& line) {
  struct Options {
    int batch = 4;
    double learning_rate = 0.002;
    bool augment = false, shuffle = true;
    std::vector<std::string> data;
  };
  auto o = std::make_shared<Options>();
  app::Subcommand& subcommand = line.subcommand("show", "Prints its options", [o](Launch& launch) {
    const nlohmann::json mine = {{"threads", launch.placement.threads}, {"cpus", launch.placement.cpus}};
    const auto placements = launch.world.allgather(mine.dump());
    if (launch.world.rank() != 0) return ExitCode::done;
    nlohmann::json all = {{"batch", o->batch},         {"learning-rate", o->learning_rate},
                          {"augment", o->augment},     {"shuffle", o->shuffle},
                          {"data", o->data},           {"arguments", launch.arguments},
                          {"machine", launch.machine}, {"ranks", nlohmann::json::array()}};
    for (const auto& placement : placements) all["ranks"].push_back(nlohmann::json::parse(placement));
    std::cout << all.dump() << std::endl;
    return ExitCode::done;
  });
  subcommand.option("--batch", o->batch, "Samples per step", "SAMPLES").positive();
  subcommand.option("--learning-rate", o->learning_rate, "Step size");
  subcommand.flag("--augment", o->augment, "Turn the cubes");
  subcommand.flag("--shuffle", o->shuffle, "Keep the order of the files");
  subcommand.option_without_default("--data", o->data, "Folders", "DIR");
}

}  // namespace

int small_app(int argc, char** argv) {
  return app::run_app(argc, argv, {"small-app", "Fails in many ways."}, [](app::CommandLine& line) {
    define_fail(line);
    define_late(line);
    define_lock(line);
    define_loop(line);
    define_show(line);
  });
}

}  // namespace keelson::testing

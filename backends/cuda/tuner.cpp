#include "backends/cuda/tuner.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <limits>

#include "backends/cuda/captured_graph.hpp"
#include "backends/cuda/instance.hpp"
#include "engine/base/verbose.hpp"

namespace keelson::cuda {

namespace {

bool switched_off() {
  const char* value = std::getenv("KEELSON_TUNE");
  const std::string wish = value ? value : "";
  if (wish != "" && wish != "on" && wish != "off")
    refuse("KEELSON_TUNE={}: 'on' (measure algorithms, the default) or 'off' is expected", wish);
  return wish == "off";
}

std::string file_name(std::string name) {
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '_') c = '-';
  return name + ".json";
}

std::filesystem::path cache_file(const std::string& gpu, const std::string& libraries) {
  const auto folder = cache_folder();
  return folder.empty() ? folder : folder / file_name(gpu + "-" + libraries);
}

/// A candidate that runs, as a graph of so many runs that launching costs nothing: a step is launched as one, too.
struct Trial {
  std::size_t candidate;
  GraphExec graph;
  int runs;
  double milliseconds = std::numeric_limits<double>::max();  ///< of one run: the least of the rounds' medians
};

constexpr int rounds = 3, replays = 5;
constexpr double milliseconds_of_replay = 0.5;
constexpr int most_runs = 20;

}  // namespace

Tuner::Tuner(const std::string& gpu, const std::string& libraries)
    : begin_(make_timer()), end_(make_timer()), cache_(cache_file(gpu, libraries)), off_(switched_off()) {}

std::size_t Tuner::choose(const std::string& key, const std::vector<std::string>& candidates,
                          const std::function<bool(std::size_t)>& run) {
  KEELSON_EXPECT(!candidates.empty());
  const std::scoped_lock lock(mutex_);
  if (off_) {
    for (std::size_t i = 0; i < candidates.size(); ++i)
      if (run(i)) return i;
    fail("{}: none of the {} algorithms that the library offers runs on {}", key, candidates.size(), this_gpu());
  }
  const auto place = [&](const std::string& name) { return std::find(candidates.begin(), candidates.end(), name); };
  const auto chosen = cache_.choose(
      key, [&](const std::string& name) { return place(name) != candidates.end(); },
      [&] { return candidates[fastest(key, candidates, run)]; });
  return static_cast<std::size_t>(place(chosen) - candidates.begin());
}

std::size_t Tuner::fastest(const std::string& key, const std::vector<std::string>& candidates,
                           const std::function<bool(std::size_t)>& run) {
  std::vector<Trial> trials;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (!run(i)) continue;  // this time it may load code and set things up
    const double once = time([&] { run(i); });
    const int runs = std::clamp(static_cast<int>(milliseconds_of_replay / std::max(once, 1e-4)), 1, most_runs);
    try {
      auto graph = record(current_stream(), [&] {
        for (int r = 0; r < runs; ++r) run(i);
      });
      trials.push_back({i, std::move(graph), runs});
    } catch (const Error&) {
      continue;  // nor could a step that uses it be recorded
    }
  }
  if (trials.empty())
    fail("{}: none of the {} algorithms that the library offers runs on {}", key, candidates.size(), this_gpu());
  // In turns, so that a clock that rises or falls meets all of them.
  for (int round = 0; round < rounds; ++round)
    for (auto& t : trials) {
      double times[replays];
      for (double& ms : times)
        ms = time([&] { check(cudaGraphLaunch(t.graph.get(), current_stream()), "cudaGraphLaunch"); });
      std::sort(times, times + replays);
      t.milliseconds = std::min(t.milliseconds, times[replays / 2] / t.runs);
    }
  const auto best = std::min_element(trials.begin(), trials.end(),
                                     [](const Trial& a, const Trial& b) { return a.milliseconds < b.milliseconds; });
  if (verbose())
    fmt::print(stderr, "keelson: {}: {} of {} algorithms run, {} is the fastest: {:.4f} ms, the first one's {:.4f}\n",
               key, trials.size(), candidates.size(), candidates[best->candidate], best->milliseconds,
               trials.front().milliseconds);
  return best->candidate;
}

double Tuner::time(const std::function<void()>& work) {
  check(cudaEventRecord(begin_.get(), current_stream()), "cudaEventRecord");
  work();
  check(cudaEventRecord(end_.get(), current_stream()), "cudaEventRecord");
  check(cudaEventSynchronize(end_.get()), "trying an algorithm");
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get()), "cudaEventElapsedTime");
  return static_cast<double>(milliseconds);
}

}  // namespace keelson::cuda

#include "search/run/virtual_clock.hpp"

#include <algorithm>
#include <queue>
#include <utility>

#include "engine/base/error.hpp"

namespace keelson::search {
namespace {

/// Ends in the order of time; of equal times in the order of the workers.
struct Later {
  bool operator()(const VirtualTraining& a, const VirtualTraining& b) const {
    return std::pair(a.end, a.worker) > std::pair(b.end, b.worker);
  }
};

}  // namespace

VirtualSearch search_virtually(const Settings& settings, const Method& method, int workers, const Budget& budget,
                               const std::function<Result(const Individual&, int rung)>& result_of) {
  VirtualSearch search;
  Population& population = search.population;
  const auto append = [&](std::string line) {
    population.apply(line);
    search.lines.push_back(std::move(line));
  };
  append(settings.to_json());
  append(start_line(workers, 0));
  std::priority_queue<VirtualTraining, std::vector<VirtualTraining>, Later> running;
  std::vector<int> free;
  double now = 0, trained = 0;
  const auto employ = [&] {
    for (std::size_t f = 0; f < free.size();) {
      const int worker = free[f];
      const Job job = next_job(population, method, worker, budget, now);
      if (job.kind != Job::Kind::train) {
        ++f;
        continue;
      }
      append(job.line);
      const auto id = claimed(population, job, worker);
      KEELSON_EXPECT(id.has_value());
      const Result result = result_of(population.all()[static_cast<std::size_t>(*id)], job.rung);
      running.push({*id, job.rung, worker, now, now + result.seconds, result});
      free.erase(free.begin() + static_cast<std::ptrdiff_t>(f));
    }
  };
  for (int w = 0; w < workers; ++w) free.push_back(w);
  for (employ(); !running.empty(); employ()) {
    now = running.top().end;
    for (; !running.empty() && running.top().end == now; running.pop()) {
      const VirtualTraining ended = running.top();
      trained += ended.end - ended.begin;
      append(result_line(ended.id, ended.result, now));
      search.trainings.push_back(ended);
      free.push_back(ended.worker);
    }
  }
  search.seconds = now;
  search.busy = now > 0 ? trained / (now * workers) : 0;
  return search;
}

}  // namespace keelson::search

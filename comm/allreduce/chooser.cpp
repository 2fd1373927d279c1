#include "comm/allreduce/chooser.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <memory>
#include <optional>

#include "comm/mpi/calls.hpp"
#include "comm/mpi/progress.hpp"
#include "comm/mpi/support.hpp"
#include "engine/base/backoff.hpp"
#include "engine/base/environment.hpp"
#include "engine/base/error.hpp"
#include "engine/base/huge_pages.hpp"
#include "engine/base/parse_number.hpp"
#include "engine/base/verbose.hpp"
#include "engine/tune/slowest_rank_timer.hpp"

namespace keelson::comm::detail {
namespace {

constexpr std::size_t mebi = std::size_t{1} << 20;
constexpr std::size_t least_bucket = mebi, most_bucket = 16 * mebi;
constexpr std::size_t longest_choice = 256;

/// Raise this number if the algorithms or their timing change. Choices of other versions are then ignored.
constexpr int algorithms_version = 2;

constexpr double seconds_per_algorithm = 0.01;
constexpr int rounds = 5;  ///< the quickest round counts: other work disturbs some rounds

/// The first line of the MPI library's own name, "Open MPI v5.0.7".
std::string mpi_library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string all(text.data(), static_cast<std::size_t>(length));
  return all.substr(0, all.find_first_of(",\n"));
}

std::string wire_name(Wire wire) { return wire == Wire::fp32 ? "fp32" : wire == Wire::bf16 ? "bf16" : "fp16"; }

/// Zeros in memory like that of gradients: the size of the pages decides the speed of long sums.
class SummedArray {
 public:
  explicit SummedArray(std::size_t bytes)
      : count_(bytes / sizeof(float)), floats_(make_huge_page_array<float>(count_)) {
    std::fill_n(floats_.get(), count_, 0.0f);
  }
  CollectiveDesc allreduce(Wire wire) const {
    return {CollectiveDesc::Kind::allreduce,
            floats_.get(),
            floats_.get(),
            count_,
            CollectiveDesc::Element::f32,
            0,
            "array",
            wire};
  }

 private:
  std::size_t count_;
  HugePageArray<float> floats_;
};

void wait_for(MPI_Request request) {
  Backoff backoff;
  for (int done = 0; !done;) {
    check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test", "timing of algorithms");
    if (done) return;
    ActiveCollectives::advance();
    backoff();
  }
}

void run(CollectiveWork& work) {
  work.start();
  Backoff backoff;
  for (auto progress = work.advance(); progress != CollectiveWork::Progress::done; progress = work.advance()) {
    if (progress == CollectiveWork::Progress::some) backoff = {};
    ActiveCollectives::advance();
    backoff();
  }
}

SlowestRankTimer::Group group_of(MPI_Comm comm) {
  return {[comm] {
            MPI_Request request = MPI_REQUEST_NULL;
            check(MPI_Ibarrier(comm, &request), "MPI_Ibarrier", "timing of algorithms");
            wait_for(request);
          },
          [comm](double* values, std::size_t count) {
            MPI_Request request = MPI_REQUEST_NULL;
            check(MPI_Iallreduce(MPI_IN_PLACE, values, static_cast<int>(count), MPI_DOUBLE, MPI_MAX, comm, &request),
                  "MPI_Iallreduce", "timing of algorithms");
            wait_for(request);
          }};
}

TuningRanks tuning_ranks_of(MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  return {rank, [comm](const std::string& choice) {
            std::array<char, longest_choice> text{};
            std::copy_n(choice.data(), std::min(choice.size(), longest_choice - 1), text.data());
            MPI_Request request = MPI_REQUEST_NULL;
            check(MPI_Ibcast(text.data(), static_cast<int>(text.size()), MPI_CHAR, 0, comm, &request), "MPI_Ibcast",
                  "choice of an algorithm");
            wait_for(request);
            return std::string(text.data());
          }};
}

/// The candidates for an array, with their own array to sum.
class Trial {
 public:
  Trial(Allreduces& allreduces, std::size_t bytes, Wire wire, SumOrder order)
      : allreduces_(allreduces), data_(bytes), desc_(data_.allreduce(wire)) {
    desc_.order = order;
    algorithms_ = allreduce_candidates(allreduces.facts(wire, order), bytes);
    works_.resize(algorithms_.size());
  }
  const std::vector<AllreduceAlgorithm>& algorithms() const { return algorithms_; }
  const CollectiveDesc& desc() const { return desc_; }
  void run(std::size_t i) {
    if (!works_[i]) works_[i] = allreduces_.make(algorithms_[i], desc_);
    detail::run(*works_[i]);
  }

 private:
  Allreduces& allreduces_;
  SummedArray data_;
  CollectiveDesc desc_;
  std::vector<AllreduceAlgorithm> algorithms_;
  std::vector<std::unique_ptr<CollectiveWork>> works_;
};

}  // namespace

AllreduceChooser::AllreduceChooser(Allreduces& allreduces)
    : allreduces_(allreduces),
      requested_(environment("KEELSON_ALLREDUCE")),
      autotuner_(fmt::format("allreduce-v{}-{}", algorithms_version, mpi_library()),
                 std::make_unique<SlowestRankTimer>(group_of(allreduces.comm()), rounds, seconds_per_algorithm),
                 tuning_ranks_of(allreduces.comm())) {
  if (requested_ == "auto") requested_.clear();
  if (!requested_.empty()) AllreduceAlgorithm::parse(requested_);
}

std::string AllreduceChooser::group_key(Wire wire, SumOrder order) const {
  const auto facts = allreduces_.facts(wire);
  return fmt::format("allreduce, {} ranks, {} nodes, {}{}", facts.ranks, facts.nodes, wire_name(wire),
                     order == SumOrder::tree ? " in a tree" : "");
}

AllreduceAlgorithm AllreduceChooser::choose(std::size_t bytes, Wire wire, SumOrder order) {
  if (!requested_.empty()) return AllreduceAlgorithm::parse(requested_);
  const std::size_t size = std::bit_ceil(std::max<std::size_t>(bytes, sizeof(float)));
  const auto found = known_.find({size, wire, order});
  if (found != known_.end()) return found->second;
  const auto algorithms = allreduce_candidates(allreduces_.facts(wire, order), size);
  std::vector<std::string> names;
  for (const auto& a : algorithms) names.push_back(a.to_string());
  std::optional<Trial> trial;
  const auto run_candidate = [&](std::size_t i) {
    trial->run(i);
    return true;
  };
  const auto chosen =
      autotuner_.choose(fmt::format("{}, {} bytes", group_key(wire, order), size), "", names,
                        {run_candidate, [&](const auto&) { trial.emplace(allreduces_, size, wire, order); }});
  return known_[{size, wire, order}] = algorithms.at(chosen.value());
}

std::size_t AllreduceChooser::choose_bucket_bytes(Wire wire) {
  constexpr std::size_t rule_of_thumb = 8 * mebi;
  if (!requested_.empty()) return rule_of_thumb;
  const auto usable = [](const std::string& choice) {
    return parse_number<std::size_t>(choice).value_or(0) >= least_bucket;
  };
  for (std::size_t bytes = least_bucket; bytes <= most_bucket; bytes *= 2) choose(bytes, wire);
  const std::string choice =
      autotuner_.choose_value(fmt::format("{}, bytes of a bucket", group_key(wire, SumOrder::any)),
                              std::to_string(rule_of_thumb), usable, [&] { return fastest_bucket(wire); });
  return *parse_number<std::size_t>(choice);
}

std::string AllreduceChooser::fastest_bucket(Wire wire) {
  constexpr double nearly = 0.9;
  std::map<std::size_t, double> speed;
  double best = 0;
  SlowestRankTimer timer(group_of(allreduces_.comm()), 1, seconds_per_algorithm);
  for (std::size_t bytes = least_bucket; bytes <= most_bucket; bytes *= 2) {
    const SummedArray data(bytes);
    const auto work = allreduces_.make(choose(bytes, wire), data.allreduce(wire));
    const auto seconds = timer.time(1, [&](std::size_t) {
      run(*work);
      return true;
    });
    speed[bytes] = static_cast<double>(bytes) / seconds[0];
    best = std::max(best, speed[bytes]);
  }
  const auto chosen =
      std::find_if(speed.begin(), speed.end(), [&](const auto& s) { return s.second >= nearly * best; });
  int rank = 0;
  MPI_Comm_rank(allreduces_.comm(), &rank);
  if (verbose() && rank == 0)
    fmt::print(stderr, "keelson: gradient buckets of {} MiB: {:.2f} GB/s, the best size {:.2f} GB/s\n",
               chosen->first / mebi, chosen->second * 1e-9, best * 1e-9);
  return std::to_string(chosen->first);
}

std::vector<AllreduceTime> AllreduceChooser::measure(std::size_t bytes, Wire wire, SumOrder order) {
  Trial trial(allreduces_, bytes, wire, order);
  std::vector<AllreduceTime> all;
  for (const AllreduceAlgorithm& algorithm : trial.algorithms()) all.push_back({algorithm.to_string(), 0, false});
  const std::size_t blocking = all.size();
  std::optional<MpiCalls> calls;
  if (wire == Wire::fp32) {
    all.push_back({"MPI_Allreduce", 0, true});
    calls.emplace(allreduces_.comm(), trial.desc(), 0, piece);
  }
  const auto seconds = autotuner_.timer().time(all.size(), [&](std::size_t i) {
    if (i == blocking)
      calls->run_blocking();
    else
      trial.run(i);
    return true;
  });
  for (std::size_t i = 0; i < all.size(); ++i) all[i].seconds = seconds[i];
  return all;
}

}  // namespace keelson::comm::detail

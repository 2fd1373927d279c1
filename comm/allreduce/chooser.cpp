#include "comm/allreduce/chooser.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <limits>
#include <memory>

#include "comm/mpi/calls.hpp"
#include "comm/mpi/progress.hpp"
#include "comm/mpi/support.hpp"
#include "engine/base/backoff.hpp"
#include "engine/base/environment.hpp"
#include "engine/base/error.hpp"
#include "engine/base/huge_pages.hpp"
#include "engine/base/parse_number.hpp"
#include "engine/base/verbose.hpp"

namespace keelson::comm::detail {
namespace {

constexpr std::size_t mebi = std::size_t{1} << 20;
constexpr std::size_t least_bucket = mebi, most_bucket = 16 * mebi;
constexpr std::size_t longest_choice = 256;

/// Choices of another version are forgotten: raise this when the algorithms, or the way of timing them, change.
constexpr int algorithms_version = 2;

constexpr double seconds_per_algorithm = 0.01;
constexpr int rounds = 5;  ///< of which the quickest one counts: other work of the machine comes and goes
constexpr int least_runs = 3, most_runs = 101;
/// What takes so many times as long as another one is not looked at further: after its first run, and after two rounds.
constexpr double hopeless = 4, beaten = 1.25;
/// But what is done in so many seconds is looked at twice: a core that has slept is slow at first.
constexpr double quick = 1e-3;

/// The first line of the library's own name, "Open MPI v5.0.7".
std::string mpi_library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string all(text.data(), static_cast<std::size_t>(length));
  return all.substr(0, all.find_first_of(",\n"));
}

std::string wire_name(Wire wire) { return wire == Wire::fp32 ? "fp32" : wire == Wire::bf16 ? "bf16" : "fp16"; }

/// Zeros, in memory like that of gradients: the size of its pages decides the speed of long sums.
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

/// Seconds of each run, of the slowest rank.
std::vector<double> time_runs(MPI_Comm comm, int runs, const std::function<void()>& work) {
  std::vector<double> seconds(static_cast<std::size_t>(runs));
  for (double& s : seconds) {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ibarrier(comm, &request), "MPI_Ibarrier", "timing of algorithms");
    wait_for(request);
    const double start = MPI_Wtime();
    work();
    s = MPI_Wtime() - start;
  }
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Iallreduce(MPI_IN_PLACE, seconds.data(), runs, MPI_DOUBLE, MPI_MAX, comm, &request), "MPI_Iallreduce");
  wait_for(request);
  return seconds;
}

/// The median; or of the first run alone, where that is so much slower than `best`.
double time(MPI_Comm comm, double best, const std::function<void()>& work) {
  time_runs(comm, 1, work);  // first use: connections, pages
  const double first = time_runs(comm, 1, work)[0];
  if (first > quick && first > hopeless * best) return first;
  const int runs = std::clamp(static_cast<int>(seconds_per_algorithm / std::max(first, 1e-9)), least_runs, most_runs);
  auto seconds = time_runs(comm, runs, work);
  std::nth_element(seconds.begin(), seconds.begin() + runs / 2, seconds.end());
  return seconds[static_cast<std::size_t>(runs / 2)];
}

}  // namespace

AllreduceChooser::AllreduceChooser(Allreduces& allreduces)
    : allreduces_(allreduces), requested_(environment("KEELSON_ALLREDUCE")), off_(tuning_is_off()) {
  if (requested_ == "auto") requested_.clear();
  if (!requested_.empty()) AllreduceAlgorithm::parse(requested_);
  MPI_Comm_rank(allreduces_.comm(), &rank_);
  if (rank_ == 0) cache_ = ChoiceCache(choice_file(fmt::format("allreduce-v{}-{}", algorithms_version, mpi_library())));
}

std::string AllreduceChooser::group_key(Wire wire, SumOrder order) const {
  const auto facts = allreduces_.facts(wire);
  return fmt::format("{} ranks, {} nodes, {}{}", facts.ranks, facts.nodes, wire_name(wire),
                     order == SumOrder::tree ? " in a tree" : "");
}

AllreduceAlgorithm AllreduceChooser::choose(std::size_t bytes, Wire wire, SumOrder order) {
  if (!requested_.empty()) return AllreduceAlgorithm::parse(requested_);
  const auto facts = allreduces_.facts(wire, order);
  if (off_) return allreduce_candidates(facts, bytes).front();
  const std::size_t size = std::bit_ceil(std::max<std::size_t>(bytes, sizeof(float)));
  const auto found = known_.find({size, wire, order});
  if (found != known_.end()) return found->second;
  const auto usable = [&](const std::string& choice) {
    try {
      return is_supported(AllreduceAlgorithm::parse(choice), facts);
    } catch (const InputError&) {
      return false;  // of a later version
    }
  };
  const std::string choice = agree(fmt::format("{}, {} bytes", group_key(wire, order), size), usable,
                                   [&] { return fastest_algorithm(size, wire, order); });
  return known_[{size, wire, order}] = AllreduceAlgorithm::parse(choice);
}

std::size_t AllreduceChooser::choose_bucket_bytes(Wire wire) {
  constexpr std::size_t rule_of_thumb = 8 * mebi;
  if (off_ || !requested_.empty()) return rule_of_thumb;
  const auto usable = [](const std::string& choice) {
    return parse_number<std::size_t>(choice).value_or(0) >= least_bucket;
  };
  for (std::size_t bytes = least_bucket; bytes <= most_bucket; bytes *= 2) choose(bytes, wire);
  const std::string choice = agree(fmt::format("{}, bytes of a bucket", group_key(wire, SumOrder::any)), usable,
                                   [&] { return fastest_bucket(wire); });
  return *parse_number<std::size_t>(choice);
}

/// The first rank looks into the file. If the choice is not there, it calls upon all to measure.
std::string AllreduceChooser::agree(const std::string& key, const std::function<bool(const std::string&)>& usable,
                                    const std::function<std::string()>& measure) {
  const auto share = [this](const std::string& choice) {
    std::array<char, longest_choice> text{};
    std::copy_n(choice.data(), std::min(choice.size(), longest_choice - 1), text.data());
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ibcast(text.data(), static_cast<int>(text.size()), MPI_CHAR, 0, allreduces_.comm(), &request),
          "MPI_Ibcast", "choice of an algorithm");
    wait_for(request);
    return std::string(text.data());
  };
  if (rank_ != 0) {
    const std::string choice = share({});
    return choice.empty() ? measure() : choice;
  }
  bool measured = false;
  const std::string choice = cache_.choose(key, usable, [&] {
    measured = true;
    share({});
    return measure();
  });
  return measured ? choice : share(choice);
}

std::string AllreduceChooser::fastest_algorithm(std::size_t bytes, Wire wire, SumOrder order) {
  auto all = measure(bytes, wire, order);
  std::erase_if(all, [](const AllreduceTime& t) { return t.blocking; });
  const auto best =
      std::min_element(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  if (verbose() && rank_ == 0) {
    std::string text =
        fmt::format("allreduce of {} bytes over {} ranks: {}", bytes, allreduces_.facts(wire).ranks, best->algorithm);
    for (const AllreduceTime& t : all) text += fmt::format(", {} {:.1f} us", t.algorithm, t.seconds * 1e6);
    fmt::print(stderr, "keelson: {}\n", text);
  }
  return best->algorithm;
}

std::string AllreduceChooser::fastest_bucket(Wire wire) {
  constexpr double nearly = 0.9;
  std::map<std::size_t, double> speed;
  double best = 0;
  for (std::size_t bytes = least_bucket; bytes <= most_bucket; bytes *= 2) {
    const AllreduceAlgorithm algorithm = choose(bytes, wire);
    const SummedArray data(bytes);
    const auto work = allreduces_.make(algorithm, data.allreduce(wire));
    const double seconds = time(allreduces_.comm(), std::numeric_limits<double>::max(), [&] { run(*work); });
    speed[bytes] = static_cast<double>(bytes) / seconds;
    best = std::max(best, speed[bytes]);
  }
  const auto chosen =
      std::find_if(speed.begin(), speed.end(), [&](const auto& s) { return s.second >= nearly * best; });
  if (verbose() && rank_ == 0)
    fmt::print(stderr, "keelson: gradient buckets of {} MiB: {:.2f} GB/s, the best size {:.2f} GB/s\n",
               chosen->first / mebi, chosen->second * 1e-9, best * 1e-9);
  return std::to_string(chosen->first);
}

std::vector<AllreduceTime> AllreduceChooser::measure(std::size_t bytes, Wire wire, SumOrder order) {
  const SummedArray data(bytes);
  CollectiveDesc desc = data.allreduce(wire);
  desc.order = order;
  std::vector<AllreduceTime> all;
  std::vector<std::function<void()>> runs;
  for (const AllreduceAlgorithm& algorithm : allreduce_candidates(allreduces_.facts(wire, order), bytes)) {
    all.push_back({algorithm.to_string(), std::numeric_limits<double>::max(), false});
    runs.emplace_back([work = std::shared_ptr(allreduces_.make(algorithm, desc))] { run(*work); });
  }
  if (wire == Wire::fp32) {
    all.push_back({"MPI_Allreduce", std::numeric_limits<double>::max(), true});
    runs.emplace_back(
        [calls = std::make_shared<MpiCalls>(allreduces_.comm(), desc, 0, piece)] { calls->run_blocking(); });
  }
  double best = std::numeric_limits<double>::max();
  for (int round = 0; round < rounds; ++round)
    for (std::size_t i = 0; i < all.size(); ++i) {
      const bool first_rounds = round == 0 || (round == 1 && all[i].seconds <= quick);
      if (!first_rounds && all[i].seconds > (round == 1 ? hopeless : beaten) * best) continue;
      all[i].seconds = std::min(all[i].seconds, time(allreduces_.comm(), best, runs[i]));
      best = std::min(best, all[i].seconds);
    }
  return all;
}

}  // namespace keelson::comm::detail

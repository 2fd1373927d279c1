#include "engine/base/ranks.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <new>
#include <set>

#include "engine/base/error.hpp"
#include "engine/base/file_error.hpp"
#include "engine/base/fnv1a.hpp"

namespace keelson {

std::string name_ranks(const std::vector<int>& ranks, const std::vector<std::string>& names) {
  constexpr std::size_t most = 8;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  const std::size_t shown = std::min(ranks.size(), most);
  for (std::size_t i = 0; i < shown; ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", names.at(static_cast<std::size_t>(ranks[i])));
  if (shown < ranks.size()) text += fmt::format(" and {} more", ranks.size() - shown);
  return text;
}

namespace {

/// The result of `work`, in the form that ranks send.
struct Outcome {
  enum Kind : std::int64_t { good, refused, no_memory, failed };
  Kind kind = good;
  std::string message;
};

Outcome outcome_of(const std::function<void()>& work) {
  try {
    work();
    return {};
  } catch (const RanksLost&) {
    throw;  // the other ranks cannot be informed
  } catch (const InputError& error) {
    return {Outcome::refused, error.what()};
  } catch (const OutOfMemory& error) {
    return {Outcome::no_memory, error.what()};
  } catch (const std::bad_alloc&) {
    return {Outcome::failed, "out of memory"};
  } catch (const std::filesystem::filesystem_error& error) {
    return {exit_code_of(error) == ExitCode::bad_input ? Outcome::refused : Outcome::failed, describe(error)};
  } catch (const std::exception& error) {
    return {Outcome::failed, error.what()};
  }
}

/// Throws on all ranks the exception of rank `root`, if any.
void share(Communicator& communicator, Outcome outcome, int root) {
  std::int64_t header[2] = {outcome.kind, static_cast<std::int64_t>(outcome.message.size())};
  communicator.broadcast(header, sizeof header, root);
  if (header[0] == Outcome::good) return;
  outcome.message.resize(static_cast<std::size_t>(header[1]));
  communicator.broadcast(outcome.message.data(), outcome.message.size(), root);
  if (header[0] == Outcome::refused) throw InputError(outcome.message);
  if (header[0] == Outcome::no_memory) throw OutOfMemory(outcome.message);
  throw Error(outcome.message);
}

}  // namespace

void on_first_rank(Communicator* communicator, const std::function<void()>& work) {
  if (!communicator || communicator->size() == 1) return work();
  share(*communicator, communicator->rank() == 0 ? outcome_of(work) : Outcome{}, 0);
}

void on_each_rank(Communicator* communicator, const std::function<void()>& work) {
  if (!communicator || communicator->size() == 1) return work();
  auto outcome = outcome_of(work);
  std::int64_t first = outcome.kind == Outcome::good ? communicator->size() : communicator->rank();
  communicator->allreduce(&first, 1, Reduction::min);
  if (first == communicator->size()) return;
  if (first == communicator->rank())
    outcome.message = fmt::format("rank {}: {}", communicator->name(), outcome.message);
  share(*communicator, std::move(outcome), static_cast<int>(first));
}

bool all_have(Communicator& communicator, std::uint64_t hash) {
  // All hashes are equal if and only if the largest is the smallest; ~ reverses the order.
  std::int64_t range[2] = {static_cast<std::int64_t>(hash), ~static_cast<std::int64_t>(hash)};
  communicator.allreduce(range, 2, Reduction::max);
  return range[0] == ~range[1];
}

namespace {

using Values = std::map<std::string, std::string>;

/// "name\0value\0..."
std::string pack(const Values& values) {
  std::string text;
  for (const auto& [name, value] : values) {
    text += name + '\0';
    text += value + '\0';
  }
  return text;
}

Values unpack(const std::string& text) {
  Values values;
  for (std::size_t at = 0; at < text.size();) {
    const auto name_end = text.find('\0', at), value_end = text.find('\0', name_end + 1);
    values[text.substr(at, name_end - at)] = text.substr(name_end + 1, value_end - name_end - 1);
    at = value_end + 1;
  }
  return values;
}

std::string value_in(const Values& values, const std::string& name) {
  const auto found = values.find(name);
  return found == values.end() || found->second.empty() ? "not given" : found->second;
}

/// "--lr is 0.002 on rank 1 (node2), 0.001 on rank 0 (node1)"; empty: all ranks have the same.
std::string difference(const std::string& name, const std::vector<Values>& of_rank,
                       const std::vector<std::string>& names) {
  std::map<std::string, std::vector<int>> others;  // value -> ranks
  const auto first = value_in(of_rank[0], name);
  for (std::size_t r = 1; r < of_rank.size(); ++r)
    if (const auto value = value_in(of_rank[r], name); value != first) others[value].push_back(static_cast<int>(r));
  if (others.empty()) return "";
  std::string text = name + " is ";
  for (const auto& [value, ranks] : others) text += fmt::format("{} on {}, ", value, name_ranks(ranks, names));
  return text + fmt::format("{} on {}", first, name_ranks({0}, names));
}

}  // namespace

void compare_values(Communicator& communicator, const Values& values, std::string_view what, std::string_view advice) {
  if (communicator.size() == 1) return;
  const auto mine = pack(values);
  if (all_have(communicator, fnv1a(mine.data(), mine.size()))) return;

  std::vector<Values> of_rank;
  std::set<std::string> names;
  for (const auto& text : communicator.allgather(mine)) {
    of_rank.push_back(unpack(text));
    for (const auto& [name, value] : of_rank.back()) names.insert(name);
  }
  const auto ranks = communicator.allgather(communicator.name());
  constexpr std::size_t most = 4;
  std::vector<std::string> differences;
  std::size_t more = 0;
  for (const auto& name : names)
    if (auto text = difference(name, of_rank, ranks); text.empty())
      continue;
    else if (differences.size() < most)
      differences.push_back(std::move(text));
    else
      ++more;
  refuse("the ranks have different {}: {}{}; {}", what, fmt::join(differences, "; "),
         more > 0 ? fmt::format("; and {} more differ", more) : "", advice);
}

void compare_hash(Communicator& communicator, std::uint64_t hash, std::string_view what, std::string_view advice) {
  if (communicator.size() == 1 || all_have(communicator, hash)) return;

  const auto told = communicator.allgather(fmt::format("{:016x}{}", hash, communicator.name()));
  std::vector<std::string> ranks;
  std::vector<int> different;
  for (std::size_t r = 0; r < told.size(); ++r) {
    ranks.push_back(told[r].substr(16));
    if (told[r].compare(0, 16, told[0], 0, 16) != 0) different.push_back(static_cast<int>(r));
  }
  refuse("the ranks have different {}: {} {} from {}; {}", what, name_ranks(different, ranks),
         different.size() == 1 ? "differs" : "differ", name_ranks({0}, ranks), advice);
}

}  // namespace keelson

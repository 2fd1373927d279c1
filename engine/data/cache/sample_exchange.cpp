#include <algorithm>
#include <cstring>

#include "engine/base/error.hpp"
#include "engine/data/cache/detail/sample_exchange.hpp"

namespace keelson::detail {

namespace {

constexpr std::byte good{0}, unreadable{1};

}  // namespace

SampleExchange::Memory SampleExchange::take_memory() {
  if (free_.empty()) return std::make_unique_for_overwrite<std::byte[]>(message_bytes());
  Memory memory = std::move(free_.back());
  free_.pop_back();
  return memory;
}

std::unique_ptr<SampleExchange::Message> SampleExchange::send(const BatchSample& s, int to) {
  auto m = std::make_unique<Message>();
  m->sample = s;
  m->peer = to;
  const std::byte* data = cache_.find(s.sample);
  m->ready = data != nullptr;
  if (!data) {
    m->memory = take_memory();
    data = m->memory.get();
  }
  m->call = peers_.make_send(data, message_bytes(), to, fmt::format("sample {} to rank {}", s.sample, to));
  return m;
}

std::unique_ptr<SampleExchange::Message> SampleExchange::receive(const BatchSample& s, std::size_t position) {
  auto m = std::make_unique<Message>();
  m->sample = s;
  m->position = position;
  m->peer = s.holder;
  m->memory = take_memory();
  m->call = peers_.make_receive(m->memory.get(), message_bytes(), s.holder,
                                fmt::format("sample {} from rank {}", s.sample, s.holder));
  m->call->start();
  m->started = true;
  return m;
}

void SampleExchange::begin(const std::vector<std::vector<BatchSample>>& shares) {
  KEELSON_EXPECT(sends_.empty() && receives_.empty());
  const int me = peers_.rank();
  for (int rank = 0; rank < static_cast<int>(shares.size()); ++rank) {
    const auto& share = shares[static_cast<std::size_t>(rank)];
    for (std::size_t i = 0; i < share.size(); ++i) {
      if (share[i].holder < 0 || share[i].holder == rank) continue;
      if (rank == me)
        receives_.push_back(receive(share[i], i));
      else if (share[i].holder == me)
        sends_.push_back(send(share[i], rank));
    }
  }
}

void SampleExchange::read(std::size_t i) {
  Message& m = *sends_[i];
  std::byte* const to = m.memory.get();
  try {
    const std::byte* stored = cache_.read(m.sample.sample, to);
    if (stored != to) std::memcpy(to, stored, message_bytes() - 1);
    to[message_bytes() - 1] = good;
  } catch (...) {
    to[message_bytes() - 1] = unreadable;
    m.ready = true;
    throw;
  }
  m.ready = true;
}

void SampleExchange::advance(std::vector<bool>& blocked, const std::function<void(std::size_t position)>& arrived) {
  for (auto& m : sends_) {
    auto is_blocked = blocked[static_cast<std::size_t>(m->peer)];
    if (m->started || is_blocked) continue;
    if (!m->ready) {
      is_blocked = true;
      continue;
    }
    m->call->start();
    m->started = true;
    ++sent_;
  }
  for (auto& m : receives_) {
    if (m->done || !m->call->test()) continue;
    m->done = true;
    ++received_;
    arrived(m->position);
  }
}

bool SampleExchange::receives(std::size_t position) const {
  return std::ranges::any_of(receives_, [&](const auto& m) { return m->position == position; });
}

bool SampleExchange::all_started() const {
  return std::ranges::all_of(sends_, [](const auto& m) { return m->started; });
}

bool SampleExchange::wait_for_one(const std::function<void(std::size_t position)>& arrived) {
  const auto m = std::ranges::find_if(receives_, [](const auto& r) { return !r->done; });
  if (m == receives_.end()) return false;
  (*m)->call->wait();
  (*m)->done = true;
  ++received_;
  arrived((*m)->position);
  return true;
}

void SampleExchange::end() {
  for (auto* messages : {&sends_, &receives_}) {
    for (auto& m : *messages) m->call->wait();
    for (auto& m : *messages)
      if (m->memory) free_.push_back(std::move(m->memory));
    messages->clear();
  }
}

const std::byte* SampleExchange::received(std::size_t position) const {
  const auto m = std::ranges::find_if(receives_, [&](const auto& r) { return r->position == position; });
  KEELSON_EXPECT(m != receives_.end());
  const std::byte* const data = (*m)->memory.get();
  if (data[message_bytes() - 1] != good)
    fail("sample {} of the data set could not be read by rank {} of those that share the samples, which says why",
         (*m)->sample.sample, (*m)->peer);
  return data;
}

}  // namespace keelson::detail

/// Measures the time that a simulation waits for an inference: in its own process, and in a worker process that reads
/// the field from a Redis database on the same machine and writes the answer there. scripts/insitu-redis.sh starts all
/// processes.
///
/// usage: keelson-insitu-redis worker|simulate SOCKET CELLS [STEPS]
#include <fmt/format.h>
#include <hiredis/hiredis.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "keelson/insitu.h"

namespace {

struct Free {
  void operator()(redisReply* r) const { freeReplyObject(r); }
  void operator()(redisContext* c) const { redisFree(c); }
};
using Reply = std::unique_ptr<redisReply, Free>;

class Database {
 public:
  explicit Database(const std::string& socket) : context_(redisConnectUnix(socket.c_str())) {
    if (!context_ || context_->err)
      throw std::runtime_error(
          fmt::format("cannot reach Redis at {}: {}", socket, context_ ? context_->errstr : "no memory"));
  }
  void push(const char* list, const std::vector<float>& field) {
    const Reply reply(static_cast<redisReply*>(
        redisCommand(context_.get(), "RPUSH %s %b", list, field.data(), field.size() * sizeof(float))));
    if (!reply || reply->type == REDIS_REPLY_ERROR) throw std::runtime_error("RPUSH failed");
  }
  /// Waits for an entry. False: the entry has another size, like the entry that stops the worker.
  bool pop(const char* list, std::vector<float>& field) {
    const Reply reply(static_cast<redisReply*>(redisCommand(context_.get(), "BLPOP %s 0", list)));
    if (!reply || reply->type != REDIS_REPLY_ARRAY || reply->elements != 2) throw std::runtime_error("BLPOP failed");
    if (reply->element[1]->len != field.size() * sizeof(float)) return false;
    std::memcpy(field.data(), reply->element[1]->str, reply->element[1]->len);
    return true;
  }

 private:
  std::unique_ptr<redisContext, Free> context_;
};

/// A session with a network, its input field and its answer.
struct Inference {
  explicit Inference(std::int64_t cells) : u(static_cast<std::size_t>(cells * cells)), answer(u.size()) {
    require(keelson_insitu_open(MPI_COMM_SELF, nullptr, &session));
    add("u", u, cells);
    add("answer", answer, cells);
    keelson_insitu_model_desc model{};
    model.name = "net";
    model.layers = "conv 16 3; relu; conv 16 3; relu; conv 1 3";
    model.inputs = "u";
    model.output = "answer";
    model.tile[0] = model.tile[1] = std::min<std::int64_t>(cells, 64);
    model.halo[0] = model.halo[1] = 3;
    require(keelson_insitu_model(session, &model));
    run();
  }
  ~Inference() { keelson_insitu_close(&session); }
  Inference(const Inference&) = delete;
  void run() { require(keelson_insitu_infer(session, "net")); }
  void require(int status) const {
    if (status != KEELSON_INSITU_OK) throw std::runtime_error(keelson_insitu_error(session));
  }
  void add(const char* name, std::vector<float>& data, std::int64_t cells) {
    keelson_insitu_field_desc f{};
    f.name = name;
    f.data = data.data();
    f.dtype = KEELSON_INSITU_FLOAT;
    f.ndims = 2;
    f.extents[0] = f.extents[1] = cells;
    require(keelson_insitu_field(session, &f));
  }

  keelson_insitu* session = nullptr;
  std::vector<float> u, answer;
};

void work(const std::string& socket, std::int64_t cells) {
  Database database(socket);
  Inference net(cells);
  while (database.pop("fields", net.u)) {
    net.run();
    database.push("answers", net.answer);
  }
}

/// Median seconds of `steps` calls, each for another field.
template <class Answer>
double median(std::vector<float>& u, int steps, const Answer& answer) {
  std::vector<double> seconds;
  for (int step = 0; step < steps; ++step) {
    for (std::size_t i = 0; i < u.size(); ++i)
      u[i] = std::sin(0.01f * static_cast<float>(i) + static_cast<float>(step));
    const auto start = std::chrono::steady_clock::now();
    answer();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(seconds.begin(), seconds.begin() + steps / 2, seconds.end());
  return seconds[static_cast<std::size_t>(steps / 2)];
}

void simulate(const std::string& socket, std::int64_t cells, int steps) {
  Database database(socket);
  double inside = 0;
  std::vector<float> expected, u(static_cast<std::size_t>(cells * cells)), answer(u.size());
  {
    Inference net(cells);
    inside = median(net.u, steps, [&] { net.run(); });
    expected = net.answer;
  }
  const auto ask = [&] {
    database.push("fields", u);
    database.pop("answers", answer);
  };
  median(u, 3, ask);  // warm-up: the worker compiles its network
  const double beside = median(u, steps, ask);
  database.push("fields", {});  // stop
  float difference = 0;
  for (std::size_t i = 0; i < u.size(); ++i) difference = std::max(difference, std::abs(answer[i] - expected[i]));
  fmt::print("{0} x {0} cells: {1:.3f} ms in the process, {2:.3f} ms through Redis, largest difference {3:g}\n", cells,
             1000 * inside, 1000 * beside, difference);
  if (difference > 1e-5f) throw std::runtime_error("the two answers differ");
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int code = 0;
  try {
    const std::string role = argc > 3 ? argv[1] : "";
    if (role == "worker")
      work(argv[2], std::stoll(argv[3]));
    else if (role == "simulate")
      simulate(argv[2], std::stoll(argv[3]), argc > 4 ? std::stoi(argv[4]) : 200);
    else
      throw std::runtime_error("usage: keelson-insitu-redis worker|simulate SOCKET CELLS [STEPS]");
  } catch (const std::exception& e) {
    fmt::print(stderr, "keelson-insitu-redis: error: {}\n", e.what());
    code = 2;
  }
  MPI_Finalize();
  return code;
}

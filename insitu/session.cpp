#include "insitu/session.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "comm/communicators.hpp"
#include "comm/on_device.hpp"
#include "engine/base/error.hpp"
#include "engine/base/ranks.hpp"
#include "insitu/lookup.hpp"
#include "insitu/snapshot.hpp"

namespace keelson::insitu {
namespace {

/// Kokkos cannot start twice. If it is started here, it runs until the process ends.
std::unique_ptr<Context> make_context_of_process(int local_rank) {
  static auto* const runtime = new backends::Runtime(0, local_rank);
  auto context = backends::make_context();
  // Static objects are destroyed in the reverse order of their construction: those of the context after Kokkos.
  static const std::unique_ptr<backends::Runtime> end(runtime);
  return context;
}

MPI_Comm checked(MPI_Comm comm) {
  int running = 0, over = 0;
  MPI_Initialized(&running);
  MPI_Finalized(&over);
  if (!running || over)
    refuse("MPI is {}. Expected a session between MPI_Init and MPI_Finalize", over ? "finalized" : "not initialized");
  if (comm == MPI_COMM_NULL)
    refuse("the communicator is MPI_COMM_NULL. Expected the communicator of the simulation's ranks");
  return comm;
}

std::string json(const Times& t, const char* count) {
  return fmt::format(
      "{{\"{}\": {}, \"step_seconds\": {:.9g}, \"pack\": {:.9g}, \"infer\": {:.9g}, \"train\": {:.9g}, "
      "\"trigger\": {:.9g}, \"write\": {:.9g}, \"share\": {:.6g}, \"train_steps\": {}, \"loss\": {}}}",
      count, t.step, t.step_seconds, t.pack, t.infer, t.train, t.trigger, t.write, t.share, t.train_steps,
      std::isfinite(t.loss) ? fmt::format("{:.9g}", t.loss) : "null");
}

}  // namespace

OwnedComm::OwnedComm(MPI_Comm comm) {
  if (MPI_Comm_dup(checked(comm), &comm_) != MPI_SUCCESS) fail("MPI_Comm_dup failed");
}

OwnedComm::~OwnedComm() {
  int over = 0;
  MPI_Finalized(&over);
  if (!over) MPI_Comm_free(&comm_);
}

Session::Session(MPI_Comm comm, const std::string& log)
    : comm_(comm), host_(comm::make_from_handle(MPI_Comm_c2f(comm_.get()))) {
  on_each_rank(host_.get(), [&] {
    context_ = make_context_of_process(host_->local_rank());
    if (!log.empty() && host_->rank() == 0) {
      log_.reset(std::fopen(log.c_str(), "w"));
      if (!log_)
        refuse("{}: cannot write the log: {}. Expected a file in a folder that exists", log, std::strerror(errno));
    }
  });
  device_ = comm::on_device(*host_, context_->device());
}

double Session::seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count() - setup_; }

void Session::log_line(const std::string& line) {
  if (!log_) return;
  if (std::fprintf(log_.get(), "%s\n", line.c_str()) < 0 || std::fflush(log_.get()) != 0)
    fail("cannot write the log: {}", std::strerror(errno));
}

Model& Session::model_of(const std::string& name, const std::string& who) const {
  return *find(models_, name, "model", who);
}

void Session::field(const keelson_insitu_field_desc& desc) {
  HostField made = make_field(desc);
  for (const auto& [name, model] : models_)
    for (const HostField* f : model->uses())
      if (f->name == made.name)
        refuse("field '{}' exists, and model '{}' uses it. Expected keelson_insitu_field_data() for another array",
               f->name, name);
  fields_[made.name] = std::move(made);
}

void Session::field_data(const std::string& name, void* data) {
  find(fields_, name, "field", "keelson_insitu_field_data").data = data;
}

void Session::model(const keelson_insitu_model_desc& desc) {
  const Timed timed(setup_);
  std::unique_ptr<Model> made;
  on_each_rank(host_.get(), [&] {
    made = std::make_unique<Model>(desc, fields_, Ranks{*context_, *host_, *device_});
    if (models_.contains(made->name())) refuse("there is a model '{}' already. Expected another name", made->name());
  });
  made->make(desc);
  made->compile();
  const std::string name = made->name();
  models_[name] = std::move(made);
}

void Session::infer(const std::string& name) {
  Model& model = model_of(name, "keelson_insitu_infer");
  wait_for_host();
  model.infer(step_);
}

void Session::scores(const std::string& name, const float** scores, std::int64_t* count) const {
  const Model& model = model_of(name, "keelson_insitu_scores");
  if (!model.has_scores()) refuse("model '{}' has no scores yet. Expected keelson_insitu_infer() before", name);
  *scores = model.scores().data();
  *count = std::ssize(model.scores());
}

void Session::train(const std::string& name) {
  Model& model = model_of(name, "keelson_insitu_train");
  wait_for_host();
  model.train(seconds() - overhead(total_) - overhead(step_), step_);
}

void Session::save(const std::string& name, const std::string& path) {
  Model& model = model_of(name, "keelson_insitu_save");
  const Timed timed(step_.train);
  model.save(path);
}

void Session::trigger(const keelson_insitu_trigger_desc& desc) {
  std::optional<Trigger> made;
  on_each_rank(host_.get(), [&] {
    made = make_trigger(desc);
    model_of(made->model, "trigger '" + made->name + "'");
    for (const auto& f : made->fields) find(fields_, f, "field", "trigger '" + made->name + "'");
    if (!made->fields.empty()) require_parallel_hdf5(host_->size());
    if (triggers_.contains(made->name)) refuse("there is a trigger '{}' already. Expected another name", made->name);
  });
  triggers_.emplace(made->name, std::move(*made));
}

void Session::check(const std::string& name, std::int64_t step, double time, int* on, double* score) {
  Trigger& trigger = find(triggers_, name, "trigger", "keelson_insitu_check");
  bool act = false;
  double most[2] = {-HUGE_VAL,
                    0};  // the largest score; the problem: 1, there are no scores yet, 2, a score is not finite
  {
    const Timed timed(step_.trigger);
    const Model& model = model_of(trigger.model, "trigger '" + name + "'");
    if (!model.has_scores()) most[1] = 1;
    for (const float s : model.scores()) {
      if (!std::isfinite(s)) most[1] = 2;
      most[0] = std::max(most[0], static_cast<double>(s));
    }
    host_->allreduce(most, 2, Reduction::max);
    if (most[1] == 1)
      refuse("trigger '{}': model '{}' has no scores yet. Expected keelson_insitu_infer() before", name, trigger.model);
    if (most[1] == 2)
      fail("trigger '{}': a score of model '{}' is not finite. Look for such values in its fields", name,
           trigger.model);
    act = trigger.state.act(most[0]);
  }
  if (on) *on = trigger.state.on() ? 1 : 0;
  if (score) *score = most[0];
  if (act && !trigger.fields.empty())
    snapshot(trigger.fields, fmt::format("{}-{:06}.h5", trigger.path, step), step, time);
}

void Session::snapshot(const std::vector<std::string>& names, const std::string& path, std::int64_t step, double time) {
  const Timed timed(step_.write);
  std::vector<HostField*> fields;
  on_each_rank(host_.get(), [&] {
    for (const auto& name : names) fields.push_back(&find(fields_, name, "field", "snapshot " + path));
    if (fields.empty()) refuse("snapshot {} has no fields. Expected names, separated by spaces", path);
    require_parallel_hdf5(host_->size());
  });
  wait_for_host();
  write_snapshot(path, fields, step, time, context_->device(), *host_, comm_.get());
}

void Session::step(std::int64_t number) {
  const double now = seconds();
  step_.step = number;
  step_.step_seconds = now - step_began_;
  step_.share = step_.step_seconds > 0 ? overhead(step_) / step_.step_seconds : 0;
  add(total_, step_);
  const Times done = step_;
  step_ = no_times();
  step_began_ = now;
  if (report_) report_(&done, user_);
  log_line(json(done, "step"));
}

Times Session::totals() const { return total_; }

void Session::finish() {
  std::string problems;
  for (const auto& [name, model] : models_) {
    if (model->save_at_end().empty()) continue;
    try {
      model->save(model->save_at_end());
    } catch (const std::exception& e) {  // the other models are saved nevertheless
      problems += (problems.empty() ? "" : "; ") + std::string(e.what());
    }
  }
  log_line(json(total_, "steps"));
  if (!problems.empty()) fail("{}", problems);
}

}  // namespace keelson::insitu

#pragma once

#include <mpi.h>

#include <cstdio>
#include <map>
#include <memory>
#include <string>

#include "backends/registry.hpp"
#include "insitu/model.hpp"
#include "insitu/trigger.hpp"

namespace keelson::insitu {

/// A communicator that the destructor frees.
class OwnedComm {
 public:
  explicit OwnedComm(MPI_Comm comm);
  ~OwnedComm();
  OwnedComm(const OwnedComm&) = delete;
  MPI_Comm get() const { return comm_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

/// A session of the C interface. The functions are those of keelson/insitu.h, but throw exceptions.
class Session {
 public:
  Session(MPI_Comm comm, const std::string& log);
  Session(const Session&) = delete;

  void field(const keelson_insitu_field_desc& desc);
  void field_data(const std::string& name, void* data);
  void model(const keelson_insitu_model_desc& desc);
  void infer(const std::string& name);
  void scores(const std::string& name, const float** scores, std::int64_t* count) const;
  void train(const std::string& name);
  void save(const std::string& name, const std::string& path);
  void trigger(const keelson_insitu_trigger_desc& desc);
  void check(const std::string& name, std::int64_t step, double time, int* on, double* score);
  void snapshot(const std::vector<std::string>& fields, const std::string& path, std::int64_t step, double time);
  void step(std::int64_t number);
  void on_report(keelson_insitu_report report, void* user) { report_ = report, user_ = user; }
  Times totals() const;
  /// Writes checkpoints and totals at the end of the session. Collective.
  void finish();

 private:
  Model& model_of(const std::string& name, const std::string& who) const;
  double seconds() const;  ///< seconds since the session began, without the time for making models
  void log_line(const std::string& line);

  OwnedComm comm_;
  std::unique_ptr<Communicator> host_;
  std::unique_ptr<Context> context_;
  std::unique_ptr<Communicator> device_;
  std::map<std::string, HostField> fields_;
  std::map<std::string, std::unique_ptr<Model>> models_;
  std::map<std::string, Trigger> triggers_;

  keelson_insitu_report report_ = nullptr;
  void* user_ = nullptr;
  struct Close {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };
  std::unique_ptr<std::FILE, Close> log_;
  Clock::time_point start_ = Clock::now();
  double setup_ = 0;       ///< seconds for making models
  double step_began_ = 0;  ///< seconds()
  Times step_ = no_times(), total_ = no_times();
};

}  // namespace keelson::insitu

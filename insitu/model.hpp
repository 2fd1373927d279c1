#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/process_grid.hpp"
#include "engine/execute/executor.hpp"
#include "engine/optim/adam.hpp"
#include "insitu/network.hpp"
#include "insitu/reservoir.hpp"
#include "insitu/times.hpp"

namespace keelson::insitu {

/// The ranks of a session, and the context in which they compute.
struct Ranks {
  Context& context;
  Communicator& host;    ///< communicator for host memory
  Communicator& device;  ///< communicator for the device's memory
};

/// A network on tiles of fields. The fields must outlive the model and must not move.
class Model {
 public:
  /// Reads the description. Throws InputError. Collective only if `desc` names a checkpoint; otherwise no rank waits
  /// for others.
  Model(const keelson_insitu_model_desc& desc, std::map<std::string, HostField>& fields, Ranks ranks);
  /// Agrees on the tile and makes the network; compile() then allocates its memory. Throws InputError, also if the
  /// ranks describe different models. Collective.
  void make(const keelson_insitu_model_desc& desc);
  /// Makes plans, memory and weights. Collective.
  void compile();

  const std::string& name() const { return name_; }
  const std::vector<HostField*>& uses() const { return uses_; }  ///< all fields that the model reads or writes
  const std::vector<float>& scores() const { return scores_; }
  bool has_scores() const { return has_scores_; }  ///< whether infer() was called

  void infer(Times& times);
  /// Takes samples and makes training steps. `simulation_seconds`: time that the simulation itself has taken since the
  /// session began. Collective.
  void train(double simulation_seconds, Times& times);
  /// Writes a checkpoint. Collective.
  void save(const std::string& path);
  const std::string& save_at_end() const { return save_; }
  bool trains() const { return !loss_.kind.empty(); }

 private:
  void read_fields(const keelson_insitu_model_desc& desc, std::map<std::string, HostField>& fields);
  void read_training(const keelson_insitu_model_desc& desc);
  /// `whole`: the default tile of a model without a checkpoint.
  void make_network(const keelson_insitu_model_desc& desc, Triple whole);
  std::map<std::string, std::string> settings() const;  ///< settings that must be the same on all ranks
  void make_tiles();
  void check_result() const;
  void load();
  BatchChannel channel_of(const Tensor& tensor,
                          int channel) const;  ///< slots of a tensor (batch, channels, extents...)
  void pack_inputs(std::int64_t first, std::int64_t count);
  void take_sample();
  void keep(std::int64_t tile);  ///< offers the tile to the reservoir
  std::int64_t draw(std::int64_t below);
  std::int64_t training_steps(double new_seconds, double sampling_seconds, bool problem);
  double training_step();  ///< returns the loss

  std::string name_, save_, checkpoint_path_;
  Ranks ranks_;
  std::vector<HostField*> inputs_, uses_;
  HostField *output_ = nullptr, *target_ = nullptr;
  int channel_ = 0;
  Tiling tiling_;
  std::optional<CheckpointReader> checkpoint_;
  Network network_;
  std::unique_ptr<Parameters> parameters_;

  // Inference.
  std::int64_t batch_ = 1;
  std::unique_ptr<Executor> executor_;
  Tensor x_, prediction_;
  std::shared_ptr<void> origins_, device_scores_;  ///< of all tiles, on the device
  std::shared_ptr<void> score_scratch_;            ///< of a batch of tiles
  std::vector<float> scores_;
  bool has_scores_ = false;
  ops::StepParams inference_;

  // Training.
  Loss loss_;
  double share_ = 0.1, credit_ = 0, seconds_per_step_ = 0, simulated_ = 0;
  std::int64_t steps_ = 0, train_batch_ = 4, sample_ = 0;
  Adam adam_;
  std::unique_ptr<ProcessGrid> grid_;
  std::unique_ptr<Executor> trainer_;
  Tensor train_x_, train_y_;
  std::optional<Reservoir> reservoir_;
  std::shared_ptr<void> tiles_x_, tiles_y_;  ///< tiles of the reservoir
  std::size_t x_bytes_ = 0, y_bytes_ = 0;    ///< bytes of a tile
  std::vector<std::int64_t> order_;          ///< order of tiles, if only some are offered
  std::uint64_t drawn_ = 0;                  ///< random numbers drawn so far
  ops::StepParams step_;
};

}  // namespace keelson::insitu
